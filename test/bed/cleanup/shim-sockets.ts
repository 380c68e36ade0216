import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { ifAbsent } from "../if-absent.ts";

const shimSocketDir = "/run/containerd/s";

export interface SocketFile {
  readonly path: string;
  readonly createdAt: number;
}

/**
 * Finds the shim sockets without a listener that were created since `since`. A shim that is killed during its start,
 * together with the CRI client that requested it, leaves its socket behind, and no other file contains the id of its
 * sandbox.
 */
export async function findDeadSockets(since: number): Promise<readonly string[]> {
  const names = await readdir(shimSocketDir).catch(ifAbsent([]));
  const files = await Promise.all(
    names.map(async (name) => {
      const path = join(shimSocketDir, name);
      const found = await stat(path).catch(ifAbsent(undefined));
      return found === undefined ? [] : [{ path, createdAt: found.mtimeMs }];
    }),
  );
  return deadSockets(files.flat(), await readFile("/proc/net/unix", "utf8"), { since, until: Date.now() - SETTLE_MS });
}

/** The kernel creates the file a moment before it lists the socket. */
const SETTLE_MS = 100;

/**
 * Picks the files that were created between `since` and `until` and are not in `listed`, the text of /proc/net/unix.
 */
export function deadSockets(
  files: readonly SocketFile[],
  listed: string,
  { since, until }: { readonly since: number; readonly until: number },
): readonly string[] {
  const bound = new Set(listed.split("\n").map((line) => line.slice(line.lastIndexOf(" ") + 1)));
  return files
    .filter(({ path, createdAt }) => createdAt >= since && createdAt <= until && !bound.has(path))
    .map(({ path }) => path);
}
