import { readdir, stat } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { ifAbsent } from "../if-absent.ts";

const shimSocketDir = "/run/containerd/s";

/**
 * Finds the shim sockets without a listener that were created since `since`, in milliseconds since the epoch. A shim that is
 * killed during its start, together with the CRI client that requested it, leaves its socket behind, and no other file contains
 * the id of its sandbox. Beds in other network namespaces have their sockets in the same folder: a connection finds their
 * listeners, which /proc/net/unix does not list.
 */
export async function findDeadSockets(since: number, folder = shimSocketDir): Promise<readonly string[]> {
  const names = await readdir(folder).catch(ifAbsent([]));
  const until = Date.now() - SETTLE_MS;
  const found = await Promise.all(
    names.map(async (name) => {
      const path = join(folder, name);
      const { mtimeMs = 0 } = (await stat(path).catch(ifAbsent(undefined))) ?? {};
      return mtimeMs >= since && mtimeMs <= until && (await isRefused(path)) ? [path] : [];
    }),
  );
  return found.flat();
}

/** A program creates the file a moment before it listens. */
const SETTLE_MS = 100;

/** Whether nothing listens on a socket. */
function isRefused(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    const finish = (refused: boolean) => {
      socket.destroy();
      resolve(refused);
    };
    socket.once("connect", () => finish(false));
    socket.once("error", (error: NodeJS.ErrnoException) => finish(error.code === "ECONNREFUSED"));
  });
}
