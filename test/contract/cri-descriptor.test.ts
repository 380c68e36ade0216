import { expect, test } from "bun:test";
import { join } from "node:path";
import golden from "../golden/cri-descriptor.json" with { type: "json" };
import { downloadModules } from "../upstream/go-module.ts";

const printer = join(import.meta.dirname, "../upstream/cri-descriptor");

const go = Bun.which("go");
if (go === null)
  console.warn("skipped: comparing the golden descriptor with k8s.io/cri-api, since `go` is not installed");
test.skipIf(go === null)(
  "the golden descriptor equals that of k8s.io/cri-api",
  async () => {
    await downloadModules({ go: go ?? "", folder: printer, packages: ["."] });
    const child = Bun.spawn([go ?? "", "run", "."], { cwd: printer, stdout: "pipe", stderr: "inherit" });
    expect(JSON.parse(await child.stdout.text())).toEqual(golden);
    expect(await child.exited).toBe(0);
  },
  300_000,
);
