import { expect, test } from "bun:test";
import { join } from "node:path";
import fields from "../golden/kubelet-config.json" with { type: "json" };

const go = Bun.which("go");
if (go === null) console.warn("skipped: the golden fields against k8s.io/kubelet itself, since `go` is not installed");
test.skipIf(go === null)(
  "the golden fields are what k8s.io/kubelet says",
  async () => {
    const printer = join(import.meta.dirname, "../upstream/kubelet-config");
    const child = Bun.spawn([go ?? "", "run", "."], { cwd: printer, stdout: "pipe", stderr: "inherit" });
    expect(JSON.parse(await child.stdout.text())).toEqual(fields);
    expect(await child.exited).toBe(0);
  },
  300_000,
);
