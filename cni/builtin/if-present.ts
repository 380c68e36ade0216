/** Returns what `read` returns; undefined if the path does not exist. Throws the other errors of `read`. */
export function ifPresent<T>(read: () => T): T | undefined {
  try {
    return read();
  } catch (error) {
    if (["ENOENT", "ENOTDIR"].includes(codeOf(error))) return undefined;
    throw error;
  }
}

/** The code of an error of the file system; empty for other errors. */
export const codeOf = (error: unknown): string => (error instanceof Error && "code" in error ? String(error.code) : "");
