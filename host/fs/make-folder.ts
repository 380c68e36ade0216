import { chmod, chown, mkdir, stat } from "node:fs/promises";
import { dirname } from "node:path/posix";

/*
 * The umask applies to mkdir(2), so chmod(2) sets the mode afterwards. An agent that dies in between must leave a
 * folder that is recognisable as unfinished: it is created with mode 0, which no finished folder has.
 */

/** Creates a folder with missing parents; sets mode and group of a new one. Rejects with the kernel's error. */
export async function makeFolder(path: string, mode: number, group?: number): Promise<void> {
  if (!(await makeUnfinishedFolder(path))) return;
  // chown before chmod: chown(2) clears the set-group-id bit, by which new files inherit the folder's group.
  if (group !== undefined) await chown(path, -1, group);
  await chmod(path, mode);
}

/** Creates a folder with mode 0, and missing parents. False if it exists with another mode. */
async function makeUnfinishedFolder(path: string, isSecondTry = false): Promise<boolean> {
  try {
    await mkdir(path, { mode: 0 });
    return true;
  } catch (error) {
    if (hasCode(error, "ENOENT") && !isSecondTry) {
      await makeParents(path);
      return await makeUnfinishedFolder(path, true);
    }
    // Without an answer of stat(2), the error of mkdir(2) says what is wrong.
    const found = await stat(path).catch(() => undefined);
    if (!found?.isDirectory()) throw error;
    return (found.mode & 0o777) === 0;
  }
}

async function makeParents(path: string): Promise<void> {
  await mkdir(dirname(path), { recursive: true, mode: 0o755 }).catch((error: unknown) => {
    // EEXIST here means that a parent is not a directory.
    throw hasCode(error, "EEXIST") ? Object.assign(new Error("", { cause: error }), { code: "ENOTDIR" }) : error;
  });
}

function hasCode(error: unknown, code: string): boolean {
  return error instanceof Error && "code" in error && error.code === code;
}
