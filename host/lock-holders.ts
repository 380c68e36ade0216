import { readdir, readFile, readlink } from "node:fs/promises";

/** A process that has a file open. */
export interface FileUser {
  readonly pid: number;
  /** Its arguments, separated by blanks; its name if it hides them; empty if neither can be read. */
  readonly command: string;
}

/**
 * The processes that have the file at a path open, by their descriptors below /proc: of a lock those that hold it, since who only waits
 * for it keeps it closed. Those of other users are missing unless this process is root's. Never rejects.
 */
export async function usersOfFile(path: string): Promise<readonly FileUser[]> {
  const users: FileUser[] = [];
  for (const pid of (await namesIn("/proc")).filter((name) => /^\d+$/.test(name)))
    if (await hasOpen(pid, path)) users.push({ pid: Number(pid), command: await commandOf(pid) });
  return users;
}

async function hasOpen(pid: string, path: string): Promise<boolean> {
  for (const descriptor of await namesIn(`/proc/${pid}/fd`))
    if ((await readlink(`/proc/${pid}/fd/${descriptor}`).catch(ignore)) === path) return true;
  return false;
}

async function commandOf(pid: string): Promise<string> {
  const read = async (name: string) => (await readFile(`/proc/${pid}/${name}`, "utf8").catch(ignore)) ?? "";
  const argv = (await read("cmdline")).split("\0").join(" ").trim();
  return argv === "" ? (await read("comm")).trim() : argv;
}

const namesIn = async (folder: string) => (await readdir(folder).catch(ignore)) ?? [];

/** A process may end, and its files be gone, at any time. */
const ignore = () => undefined;
