// Programs that are built from Go modules: which release a go.mod names, and how a build gets into the cache.
import { accessSync, constants } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";

/** The version that the text of a go.mod requires of a module, without its `v`. */
export function requiredVersion(goMod: string, module: string): string {
  const line = goMod.split("\n").find((one) => one.trim().startsWith(`${module} v`));
  const version = line?.trim().split(" ")[1]?.slice(1);
  if (version === undefined) throw new Error(`go.mod requires no ${module}`);
  return version;
}

export function isExecutable(program: string): boolean {
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    // Absent or not executable: both mean that the program cannot be used.
    return false;
  }
}

/**
 * Fills `folder` in one step with what `compile` writes into the work folder it is given. Another process may build the
 * same at once: then the programs of either one will do.
 */
export async function buildInto(folder: string, compile: (work: string) => Promise<unknown>): Promise<void> {
  await mkdir(dirname(folder), { recursive: true });
  const work = await mkdtemp(join(dirname(folder), ".building-"));
  try {
    await compile(work);
    await rename(work, folder).catch((error: NodeJS.ErrnoException) => {
      if (error.code !== "ENOTEMPTY" && error.code !== "EEXIST") throw error;
    });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}
