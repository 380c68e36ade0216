import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { chmod, mkdir, mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMounts } from "../../host/fs/mounts.ts";
import type { VolumeMount } from "../../proto/kubernetes/gen/types.ts";
import { podOf, script } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

const mounts = createMounts();
let node: TestNode;
let folder: string;
beforeAll(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "berth-read-only-")));
  await chmod(folder, 0o711);
  await mkdir(join(folder, "below"));
  await mounts.mountTmpfs(join(folder, "below"), { mode: 0o777 });
  node = await startNode({ version: "2.1" });
}, 600_000);
afterAll(async () => {
  await node?.tearDown();
  await mounts.unmount(join(folder, "below"));
  await rm(folder, { recursive: true });
});

const rows: readonly [mode: VolumeMount["recursiveReadOnly"], reported: "Disabled" | "Enabled", message: string][] = [
  ["Disabled", "Disabled", "written\n"],
  ["IfPossible", "Enabled", "touch: /v/below/disabled: Read-only file system\n"],
  ["Enabled", "Enabled", "touch: /v/below/disabled: Read-only file system\n"],
];
for (const [recursiveReadOnly, reported, message] of rows)
  test(`a mount below a read-only volume with recursiveReadOnly ${recursiveReadOnly}`, async () => {
    const name = recursiveReadOnly!.toLowerCase();
    const volumeMounts = [{ name: "v", mountPath: "/v", readOnly: true, recursiveReadOnly: recursiveReadOnly! }];
    const command = script("(touch /v/below/disabled && echo written) > /dev/termination-log 2>&1; exit 0");
    const volumes = [{ name: "v", hostPath: { path: folder } }];
    await node.putManifest(podOf(name, { command, volumeMounts }, { volumes, restartPolicy: "Never" }));
    const pod = await node.waitForPod(name, "it has ended", ({ status }) => status.phase === "Succeeded");
    const [container] = pod.status.containerStatuses ?? [];
    expect(container?.volumeMounts).toEqual([
      { name: "v", mountPath: "/v", readOnly: true, recursiveReadOnly: reported },
    ]);
    expect(container?.state?.terminated?.message).toBe(message);
  });
