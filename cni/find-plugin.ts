import type { Files } from "../host/fs/files.ts";

/** Where a plugin's binary is, and whether it can be executed. */
export interface FoundPlugin {
  readonly path: string;
  readonly isExecutable: boolean;
}

const EXECUTABLE = 0o111;

/** The paths at which a plugin's binary may be, in the order of the search. */
export const pluginPaths = (binDirs: readonly string[], type: string): readonly string[] =>
  binDirs.map((folder) => `${folder}/${type}`);

/**
 * Searches `binDirs` for a plugin's binary as libcni does: the first file of its name counts, even if it cannot be executed and a
 * later folder has one that can. Resolves with undefined if no folder has it. Rejects with `FilesError` if a folder cannot be read.
 */
export async function findPlugin(
  files: Pick<Files, "stat">,
  binDirs: readonly string[],
  type: string,
): Promise<FoundPlugin | undefined> {
  for (const path of pluginPaths(binDirs, type)) {
    const found = await files.stat(path);
    if (found?.kind === "file") return { path, isExecutable: (found.mode & EXECUTABLE) !== 0 };
  }
  return undefined;
}
