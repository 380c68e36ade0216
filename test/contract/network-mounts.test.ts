import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { createClock } from "../../host/clock.ts";
import { createExec } from "../../host/exec.ts";
import { createFiles } from "../../host/fs/files.ts";
import { createMounts } from "../../host/fs/mounts.ts";
import { createNetworkMounts } from "../../host/fs/network-mounts.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { networkMountsContract } from "./network-mounts.ts";
import { makeNfsStandIn } from "./nfs-stand-in.ts";
import { inMountNamespace } from "./own-namespace.ts";

inMountNamespace(import.meta.path, "the programs keep the contract of network mounts", () => {
  networkMountsContract("mount(8) and umount(8), with a stand-in for NFS", async () => {
    const folder = await realpath(await mkdtemp(join(tmpdir(), "berth-network-mounts-")));
    const path = await makeNfsStandIn(join(folder, "bin"));
    const files = createFiles(join(folder, "root"));
    await createFiles(folder).makeFolder("root", 0o755);
    return {
      files,
      mounts: createMounts(),
      networkMounts: createNetworkMounts({ exec: createExec(), path, clock: createClock() }),
      async waitUntilStarted(target) {
        const started = `${basename(target)}.started`;
        await pollUntil("the start of the mount", 10_000, async () => (await files.stat(started)) !== undefined);
      },
      end: () => rm(folder, { recursive: true }),
    };
  });
});
