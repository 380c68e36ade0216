import { expect, test } from "bun:test";
import { join } from "node:path";
import fields from "../golden/kubelet-config.json" with { type: "json" };
import { downloadModules } from "../upstream/go-module.ts";

const go = Bun.which("go");
if (go === null) console.warn("skipped: comparing the golden fields with k8s.io/kubelet, since `go` is not installed");
test.skipIf(go === null)(
  "the golden fields equal those of k8s.io/kubelet",
  async () => {
    const printer = join(import.meta.dirname, "../upstream/kubelet-config");
    await downloadModules({ go: go ?? "", folder: printer, packages: ["."] });
    const child = Bun.spawn([go ?? "", "run", "."], { cwd: printer, stdout: "pipe", stderr: "inherit" });
    expect(JSON.parse(await child.stdout.text())).toEqual(fields);
    expect(await child.exited).toBe(0);
  },
  300_000,
);
