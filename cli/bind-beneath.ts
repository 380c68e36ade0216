import { BIND_FAILED } from "../host/fs/bind-command.ts";
import { FilesError } from "../host/fs/files.ts";
import { createMounts } from "../host/fs/mounts.ts";

/**
 * The command that the agent starts for itself where a bind mount may hang, since a server may not answer: the process can
 * be killed. Returns the exit code; a failure is one line on stderr, the kernel's code first.
 */
export async function runBindBeneath([folder = "", path = "", target = ""]: readonly string[]): Promise<number> {
  try {
    await createMounts().bindBeneath(folder, path, target);
    return 0;
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    process.stderr.write(`${error.code} ${error.message}\n`);
    return BIND_FAILED;
  }
}
