import { FilesError } from "../../host/fs/files.ts";
import type { Mounts } from "../../host/fs/mounts.ts";
import type { Log } from "../../host/log/log.ts";

/**
 * Makes the root directory a shared mount, before anything is mounted below it: runtimes refuse a volume with
 * `mountPropagation` on any other mount. Where that is forbidden, only such pods fail, as with the kubelet.
 */
export async function shareRootDir(mounts: Pick<Mounts, "makeShared">, rootDir: string, log: Log): Promise<void> {
  try {
    await mounts.makeShared(rootDir);
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    log.warn({ rootDir, error: error.message }, "cannot share the root directory; volumes with mountPropagation fail");
  }
}
