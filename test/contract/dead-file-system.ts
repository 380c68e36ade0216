import { closeSync, existsSync, openSync } from "node:fs";
import { createMountCalls } from "../../host/fs/mount-calls.ts";

/** Whether the kernel has FUSE, and this process may mount. */
export const hasDeadFileSystems = existsSync("/dev/fuse") && process.getuid?.() === 0;

/**
 * Mounts a file system that does not answer, as that of a server which is gone: a call on it lasts until its process is
 * killed. Returns a function that ends that: then calls fail at once.
 */
export function mountDeadFileSystem(target: string): () => void {
  // A FUSE file system whose requests no program reads.
  const device = openSync("/dev/fuse", "r+");
  const options = `fd=${device},rootmode=40000,user_id=0,group_id=0`;
  const failure = createMountCalls().mount({ source: "dead:/data", target, fsType: "fuse", flags: 0, options });
  if (failure !== undefined) throw new Error(`a dead file system cannot be mounted at ${target}: ${failure}`);
  return () => closeSync(device);
}
