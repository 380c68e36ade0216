import { FilesError } from "../../host/fs/files.ts";
import type { Sysctls } from "../../host/sysctls.ts";

/** A kernel with these settings, some of which cannot be written. */
export class FakeSysctls implements Sysctls {
  readonly values: Record<string, string>;
  /** The paths that were written, in order. */
  readonly written: string[] = [];
  readonly #readOnly: readonly string[];

  constructor(values: Readonly<Record<string, string>>, readOnly: readonly string[] = []) {
    this.values = { ...values };
    this.#readOnly = readOnly;
  }

  read = async (path: string): Promise<string> => {
    const value = this.values[path];
    if (value === undefined) throw new FilesError("ENOENT", path, `/proc/sys/${path} does not exist`);
    return value;
  };

  write = async (path: string, value: string): Promise<void> => {
    await this.read(path);
    if (this.#readOnly.includes(path)) throw new FilesError("EROFS", path, `/proc/sys/${path} is read-only`);
    this.values[path] = value;
    this.written.push(path);
  };
}
