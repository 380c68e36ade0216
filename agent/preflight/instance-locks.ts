import { realpathSync } from "node:fs";
import { basename, dirname, join } from "node:path/posix";
import { socketPathOf } from "../../cri/endpoint.ts";
import { createFiles, type Files, FilesError } from "../../host/fs/files.ts";
import { type LockResult, takeLock } from "../../host/lock.ts";
import type { Log } from "../../host/log/log.ts";
import { fitsSocketPath, MAX_SOCKET_PATH_BYTES } from "../../proto/socket-path.ts";
import type { Config } from "../config/config.ts";
import { LOCAL_SOCKET } from "../config/local-socket.ts";
import { ROOT_DIR_HINT, StartError, toStartError } from "./start-error.ts";

/** Locks the root directory, and names the process that holds it. */
export const LOCK_FILE = "berth.lock";

type LockTarget = Pick<Config, "rootDir" | "nodeName" | "containerRuntimeEndpoint">;

/** Locks the root directory: two agents on one directory would undo each other's work. Throws `StartError`. */
export async function lockRootDir({ rootDir, nodeName }: LockTarget, machine: Files): Promise<Files> {
  const root = createFiles(rootDir);
  const socket = root.path(LOCAL_SOCKET);
  if (!fitsSocketPath(socket))
    throw new StartError(
      `${socket} is longer than the ${MAX_SOCKET_PATH_BYTES} bytes that a socket path may have: set --root-dir to a shorter path`,
    );
  await machine.makeFolder(rootDir, 0o750).catch(toStartError("cannot create the root directory", ROOT_DIR_HINT));
  const lock = tryLockRootDir(root, `pid ${process.pid}, node ${nodeName}`);
  if (lock.held) return root;
  throw new StartError(
    `another agent (${lock.holder}) runs on ${rootDir}: stop it, or start this one with its own --root-dir and container runtime (two agents on one runtime would remove each other's pods)`,
  );
}

function tryLockRootDir(root: Files, self: string): LockResult {
  try {
    return takeLock(root.path(LOCK_FILE), self);
  } catch (error) {
    const isBlocked = error instanceof FilesError && ["ELOOP", "EISDIR"].includes(error.code);
    const remedy = isBlocked ? "remove it, or set --root-dir to another directory" : ROOT_DIR_HINT;
    return toStartError("cannot lock the root directory", remedy)(error);
  }
}

const LOCKS_DIR = "run/berth";

/**
 * Locks the container runtime: two agents on one runtime would each remove the other's pods as orphans. Returns the
 * function that releases the lock. Throws `StartError` if another agent holds it. A kubelet on the same runtime does
 * not use this lock and goes unnoticed.
 */
export async function lockRuntime(target: LockTarget, machine: Files, log: Log): Promise<() => void> {
  const { rootDir, nodeName, containerRuntimeEndpoint } = target;
  const socket = realPathWithMissingTail(socketPathOf(containerRuntimeEndpoint));
  const digest = new Bun.CryptoHasher("sha256").update(socket).digest("hex").slice(0, 32);
  let lock: LockResult;
  try {
    await machine.makeFolder(LOCKS_DIR, 0o700);
    lock = takeLock(
      machine.path(LOCKS_DIR, `${digest}.lock`),
      `pid ${process.pid}, node ${nodeName}, root directory ${rootDir}`,
    );
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    // A missing lock is no reason to leave a node without its pods.
    log.warn({ err: error }, "cannot lock the container runtime; a second agent would not be detected");
    return () => {};
  }
  if (lock.held) return lock.remove;
  throw new StartError(
    `another agent (${lock.holder}) uses the container runtime at ${socket}: stop it, or start this one with its own runtime (two agents on one runtime would remove each other's pods)`,
  );
}

/**
 * The real path, also if the last parts of it do not exist yet.
 *
 * @internal
 */
export function realPathWithMissingTail(path: string): string {
  if (path === "/") return path;
  try {
    return realpathSync(path);
  } catch {
    // A part that cannot be resolved stays unchanged, a symlink loop too.
    return join(realPathWithMissingTail(dirname(path)), basename(path));
  }
}
