import { readdir, readFile, readlink, realpath } from "node:fs/promises";

/** A process that holds a lock. */
export interface LockHolder {
  readonly pid: number;
  /** The name of its program, without its arguments, which may contain secrets; empty if it cannot be read. */
  readonly name: string;
}

/**
 * The processes that hold the lock of a file, by their descriptors below /proc. One that tries to take it has it open for a moment, too.
 * Those of other users are missing unless this process is root's, and those of other mount namespaces if the path has another name there.
 * Never rejects.
 */
export async function holdersOf(path: string): Promise<readonly LockHolder[]> {
  const holders: LockHolder[] = [];
  const real = (await realpath(path).catch(ignore)) ?? path;
  for (const pid of (await namesIn("/proc")).filter((name) => /^\d+$/.test(name)))
    if (await hasOpen(pid, real)) holders.push({ pid: Number(pid), name: await nameOf(pid) });
  return holders;
}

async function hasOpen(pid: string, path: string): Promise<boolean> {
  for (const descriptor of await namesIn(`/proc/${pid}/fd`))
    if ((await readlink(`/proc/${pid}/fd/${descriptor}`).catch(ignore)) === path) return true;
  return false;
}

const nameOf = async (pid: string) => ((await readFile(`/proc/${pid}/comm`, "utf8").catch(ignore)) ?? "").trim();

const namesIn = async (folder: string) => (await readdir(folder).catch(ignore)) ?? [];

/** A process may end, and its files be gone, at any time. */
const ignore = () => undefined;
