import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path/posix";
import { toFilesError } from "./fs/files.ts";

/** The settings of the running kernel. */
export interface Sysctls {
  /** The value of a setting by its path, such as `kernel/panic`, without the line break. Rejects with `FilesError`. */
  read(path: string): Promise<string>;
  /** Sets a setting that exists. Rejects with `FilesError`. */
  write(path: string, value: string): Promise<void>;
}

export function createSysctls(root = "/proc/sys"): Sysctls {
  return {
    async read(path) {
      const file = join(root, path);
      try {
        // In one read: the kernel shows an integer only to a read that begins at its start.
        return (await readFile(file, "utf8")).trim();
      } catch (error) {
        throw toFilesError(file, error);
      }
    },
    async write(path, value) {
      const file = join(root, path);
      try {
        await writeFile(file, value, { flag: "r+" });
      } catch (error) {
        throw toFilesError(file, error);
      }
    },
  };
}
