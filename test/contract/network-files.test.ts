import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock } from "../../host/clock.ts";
import { createExec } from "../../host/exec.ts";
import { createFiles } from "../../host/fs/files.ts";
import { createMounts } from "../../host/fs/mounts.ts";
import { createNetworkFiles } from "../../host/fs/network-files.ts";
import { hasDeadFileSystems, mountDeadFileSystem } from "./dead-file-system.ts";
import { networkFilesContract } from "./network-files.ts";
import { inMountNamespace } from "./own-namespace.ts";

const berth = [process.execPath, join(import.meta.dirname, "..", "..", "cli", "main.ts")] as const;

inMountNamespace(import.meta.path, "the programs keep the contract of network files", () => {
  const make = async () => {
    const root = await realpath(await mkdtemp(join(tmpdir(), "berth-network-files-")));
    const ends: (() => void)[] = [];
    return {
      files: createFiles(root),
      mounts: createMounts(),
      networkFiles: createNetworkFiles({ exec: createExec(), path: "/usr/bin", clock: createClock(), berth }),
      mountDead: (path: string) => void ends.push(mountDeadFileSystem(path)),
      async end() {
        for (const each of ends) each();
        await rm(root, { recursive: true });
      },
    };
  };
  networkFilesContract("Berth's own program", make, hasDeadFileSystems);
});
