import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";

const folder = "/run/containerd/s";

export interface SocketFile {
  readonly path: string;
  readonly madeAt: number;
}

/**
 * The sockets that nobody listens on any more, of those made since `since`. A shim that is killed while it begins, because
 * whoever asked containerd for it was, leaves its socket behind, and its sandbox' id is nowhere to be found.
 */
export async function findDeadSockets(since: number): Promise<readonly string[]> {
  const names = await readdir(folder).catch(() => []);
  const files = await Promise.all(
    names.map(async (name) => {
      const path = join(folder, name);
      const found = await stat(path).catch(() => undefined);
      return found === undefined ? [] : [{ path, madeAt: found.mtimeMs }];
    }),
  );
  return deadSockets(files.flat(), await readFile("/proc/net/unix", "utf8"), { since, until: Date.now() - YOUNG_MS });
}

/** The kernel makes the file a moment before it lists the socket. */
const YOUNG_MS = 100;

/** Picks from `files` what was made in time and does not stand in `listed`, the text of /proc/net/unix. */
export function deadSockets(
  files: readonly SocketFile[],
  listed: string,
  { since, until }: { readonly since: number; readonly until: number },
): readonly string[] {
  const bound = new Set(listed.split("\n").map((line) => line.slice(line.lastIndexOf(" ") + 1)));
  return files
    .filter(({ path, madeAt }) => madeAt >= since && madeAt <= until && !bound.has(path))
    .map(({ path }) => path);
}
