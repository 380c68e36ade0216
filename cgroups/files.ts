import { closeSync, constants, openSync, readdirSync, readSync, watch as watchPath } from "node:fs";
import { mkdir, open, rmdir } from "node:fs/promises";
import { toCgroupError } from "./error.ts";

/**
 * The system calls on cgroup v2's files. Paths are absolute. Reads are synchronous, since one takes microseconds; a write
 * may wait in the kernel, for instance while it frees memory, and a thread waits for it.
 */
export interface CgroupFiles {
  /** The content without the white space around it; undefined if there is no such file, or its cgroup is being removed. */
  read(file: string): string | undefined;
  /** Writes the whole value by one call, as cgroup v2 wants it. `ENOENT` if there is no such file. */
  write(file: string, value: string): Promise<void>;
  /** Makes a cgroup; false if it exists. */
  makeFolder(folder: string): Promise<boolean>;
  /** Removes a cgroup without processes and cgroups below, else `EBUSY`. Success if absent. */
  removeFolder(folder: string): Promise<void>;
  /** The names of the folders in a folder, sorted; undefined if it does not exist. */
  folders(folder: string): readonly string[] | undefined;
  /** Calls back for each change of a file's content that the kernel notifies, until the signal aborts. `ENOENT` if there is no such file. */
  watch(file: string, onChanged: () => void, signal: AbortSignal): void;
  /** Kills a process; success if it has ended. */
  kill(pid: number): void;
}

/** A file of a cgroup that is being removed answers ENODEV. */
const ABSENT: readonly unknown[] = ["ENOENT", "ENOTDIR", "ENODEV"];

export function createCgroupFiles(): CgroupFiles {
  const buffer = Buffer.alloc(READ_BYTES);
  return {
    read(file) {
      try {
        return readWhole(file, buffer).trim();
      } catch (error) {
        return undefinedIfAbsent("read", file, error);
      }
    },
    write: (file, value) => withCgroupError("write", file, value, () => writeOnce(file, value)),
    makeFolder: (folder) =>
      withCgroupError("make", folder, undefined, () => falseFor("EEXIST", () => mkdir(folder, { mode: 0o755 }))),
    async removeFolder(folder) {
      await withCgroupError("remove", folder, undefined, () => falseFor("ENOENT", () => rmdir(folder)));
    },
    folders(folder) {
      try {
        return foldersIn(folder);
      } catch (error) {
        return undefinedIfAbsent("list", folder, error);
      }
    },
    watch: (file, onChanged, signal) => watchFile(file, onChanged, signal),
    kill(pid) {
      try {
        process.kill(pid, "SIGKILL");
      } catch (error) {
        if (codeOf(error) !== "ESRCH") throw toCgroupError("kill", `process ${pid}`, undefined, error);
      }
    },
  };
}

/** The kernel fills pages of 4096 bytes with whole lines, so a read that returns less than half of one was the last. */
const LAST_READ_BYTES = 2048;
const READ_BYTES = 16_384;

/** A page of stats reads a thousand files: with a buffer of our own that takes half of the time of `readFileSync`. */
function readWhole(file: string, buffer: Buffer): string {
  const opened = openSync(file, "r");
  try {
    let text = "";
    for (;;) {
      const length = readSync(opened, buffer, 0, READ_BYTES, null);
      text += buffer.toString("utf8", 0, length);
      if (length < LAST_READ_BYTES) return text;
    }
  } finally {
    closeSync(opened);
  }
}

/** No call is made for zero bytes: what is empty, such as the CPUs of a cgroup without a list, is written as an empty line. */
async function writeOnce(file: string, value: string): Promise<void> {
  const opened = await open(file, constants.O_WRONLY | constants.O_TRUNC);
  try {
    await opened.write(value === "" ? "\n" : value);
  } finally {
    await opened.close();
  }
}

function foldersIn(folder: string): readonly string[] {
  return readdirSync(folder, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map(({ name }) => name)
    .toSorted();
}

/** The kernel notifies those who watch `cgroup.events` and `memory.events` as if the file was written to. */
function watchFile(file: string, onChanged: () => void, signal: AbortSignal): void {
  try {
    const watcher = watchPath(file, { signal, persistent: false }, onChanged);
    // The cgroup is gone: the next reading of its files shows it.
    watcher.on("error", onChanged);
  } catch (error) {
    throw toCgroupError("watch", file, undefined, error);
  }
}

function undefinedIfAbsent(verb: string, file: string, error: unknown): undefined {
  if (ABSENT.includes(codeOf(error))) return undefined;
  throw toCgroupError(verb, file, undefined, error);
}

async function withCgroupError<T>(
  verb: string,
  file: string,
  value: string | undefined,
  work: () => Promise<T>,
): Promise<T> {
  try {
    return await work();
  } catch (error) {
    throw toCgroupError(verb, file, value, error);
  }
}

async function falseFor(code: string, work: () => Promise<unknown>): Promise<boolean> {
  try {
    await work();
    return true;
  } catch (error) {
    if (codeOf(error) === code) return false;
    throw error;
  }
}

const codeOf = (error: unknown) => (error instanceof Error && "code" in error ? error.code : undefined);
