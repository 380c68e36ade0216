import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path/posix";

/** The process behind a listening TCP socket; without `pid` and `program` if this user may not see it. */
export interface ListeningSocket {
  readonly port: number;
  readonly pid?: number;
  /** The name in `/proc/<pid>/comm`. */
  readonly program?: string;
}

/** The kernel's number for a listening socket in /proc/net/tcp. */
const LISTENS = "0A";

/** Finds out who listens on these TCP ports, of any address; ports without a listener are left out. */
export async function findListeningSockets(
  ports: readonly number[],
  proc = "/proc",
): Promise<readonly ListeningSocket[]> {
  const tables = await Promise.all(["net/tcp", "net/tcp6"].map((name) => readOrEmpty(join(proc, name))));
  const sockets = tables.flatMap(parseListeningSockets).filter(({ port }) => ports.includes(port));
  if (sockets.length === 0) return [];
  const owners = await findOwners(new Set(sockets.map(({ inode }) => inode)), proc);
  const byPort = new Map(sockets.map(({ port, inode }) => [port, { port, ...owners.get(inode) }]));
  return [...byPort.values()];
}

/**
 * Parses a table of proc(5): the local address is `hex address:hex port`, the tenth column is the inode.
 *
 * @internal
 */
export function parseListeningSockets(table: string): readonly { readonly port: number; readonly inode: string }[] {
  return table.split("\n").flatMap((line) => {
    const columns = line.trim().split(/\s+/);
    const [, local = "", , state] = columns;
    const inode = columns[9];
    if (state !== LISTENS || inode === undefined) return [];
    return [{ port: Number.parseInt(local.split(":")[1] ?? "", 16), inode }];
  });
}

type Owner = Required<Pick<ListeningSocket, "pid" | "program">>;

/** Looks through the open files of every process that this user may see. */
async function findOwners(inodes: ReadonlySet<string>, proc: string): Promise<ReadonlyMap<string, Owner>> {
  const owners = new Map<string, Owner>();
  for (const pid of (await namesIn(proc)).filter((name) => /^\d+$/.test(name))) {
    for (const name of await namesIn(join(proc, pid, "fd"))) {
      const inode = /^socket:\[(\d+)\]$/.exec(await linkOrEmpty(join(proc, pid, "fd", name)))?.[1];
      if (inode === undefined || !inodes.has(inode)) continue;
      owners.set(inode, { pid: Number(pid), program: (await readOrEmpty(join(proc, pid, "comm"))).trim() });
    }
    if (owners.size === inodes.size) break;
  }
  return owners;
}

// Processes end while we read, and those of other users are not readable: both have no names, links or text then.
const readOrEmpty = (path: string) => readFile(path, "utf8").catch(() => "");
const linkOrEmpty = (path: string) => readlink(path).catch(() => "");
const namesIn = (path: string) => readdir(path).catch((): string[] => []);
