import { type Files, FilesError } from "./files.ts";

/**
 * Calls `work`, which writes into a folder that most calls find. If the folder is missing, creates it for root alone and calls `work`
 * again. Rejects as `work` does, and with `FilesError` if the folder cannot be created.
 */
export async function inFolder<T>(
  files: Pick<Files, "makeFolder">,
  folder: string,
  work: () => T | Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof FilesError && error.code === "ENOENT")) throw error;
    await files.makeFolder(folder, 0o700);
    return await work();
  }
}
