const ABSENT = new Set(["ENOENT", "ENOTDIR", "ESRCH"]);

/**
 * Handles the rejection of a file call: resolves with `value` if the file, its folder or, below `/proc`, its process does
 * not exist, and rethrows any other error.
 */
export const ifAbsent =
  <T>(value: T) =>
  (error: unknown): T => {
    if (error instanceof Error && "code" in error && ABSENT.has(String(error.code))) return value;
    throw error;
  };
