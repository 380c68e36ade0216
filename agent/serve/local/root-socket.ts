import { unlinkSync } from "node:fs";
import type { Server } from "node:net";
import { toFilesError } from "../../../host/fs/files.ts";

/**
 * Calls `listen`, which creates the unix socket, under a umask that lets only root open it: connect(2) needs the permission to
 * write to the socket. With a chmod afterwards, other users could open it for a moment. Removes the socket of a killed agent
 * before. Throws `FilesError` if that cannot be removed, and what `listen` throws.
 */
export function listenForRoot<T>(path: string, listen: () => T): T {
  removeStale(path);
  const umask = process.umask(0o177);
  try {
    return listen();
  } finally {
    process.umask(umask);
  }
}

/** Lets a server listen as `listenForRoot` does. Rejects with `FilesError`; `onError` gets what fails later, such as an accept(2). */
export async function listenOnRootSocket(server: Server, path: string, onError: (error: Error) => void): Promise<void> {
  await listenForRoot(
    path,
    () =>
      new Promise<void>((resolve, reject) => {
        const refuse = (error: Error) => reject(toFilesError(path, error));
        server.once("error", refuse);
        server.listen(path, () => {
          server.off("error", refuse);
          // An error that no listener gets would end the process.
          server.on("error", onError);
          resolve();
        });
      }),
  );
}

/**
 * The instance lock guarantees that no other agent uses the socket. One that cannot be removed, as on a read-only disk, would
 * count as in use.
 */
function removeStale(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT")) throw toFilesError(path, error);
  }
}
