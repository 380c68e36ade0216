import { rmSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

/** A folder of one run. */
export interface RunFolder {
  readonly path: string;
  remove(): Promise<void>;
}

/** Creates a temporary folder that is removed at the latest when this process exits, also after Ctrl-C. */
export async function createRunFolder(prefix: string): Promise<RunFolder> {
  const path = await mkdtemp(join(tmpdir(), prefix));
  const removeAtExit = () => rmSync(path, { recursive: true, force: true });
  process.once("exit", removeAtExit);
  return {
    path,
    async remove() {
      process.off("exit", removeAtExit);
      await rm(path, { recursive: true, force: true });
    },
  };
}
