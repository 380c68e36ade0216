import { socketPathOf } from "../../cri/endpoint.ts";
import { createFiles, type Files, FilesError } from "../../host/fs/files.ts";
import { type LockResult, realPathAhead, takeLock } from "../../host/lock.ts";
import type { Log } from "../../host/log.ts";
import { fitsSocketPath, longestSocketPathBytes } from "../../proto/socket-path.ts";
import type { Config } from "../config/config.ts";
import { localSocket } from "../config/local-socket.ts";
import { failStart, inOrder, StartError } from "./start-error.ts";

type Where = Pick<Config, "rootDir" | "nodeName" | "containerRuntimeEndpoint">;

/** One agent a root directory: two would each undo what the other does. Throws `StartError`. */
export async function ownRoot({ rootDir, nodeName }: Where, machine: Files): Promise<Files> {
  const root = createFiles(rootDir);
  const socket = root.path(localSocket);
  if (!fitsSocketPath(socket))
    throw new StartError(
      `${socket} is longer than the ${longestSocketPathBytes} bytes that a socket's path may have: give --root-dir a shorter one`,
    );
  await machine.makeFolder(rootDir, 0o750).catch(failStart("there can be no root directory", inOrder));
  const lock = lockRoot(root, `pid ${process.pid}, node ${nodeName}`);
  if (lock.held) return root;
  throw new StartError(
    `another agent (${lock.holder}) runs on ${rootDir}: stop it, or give this one a --root-dir and a container runtime of its own (two agents on one runtime would end each other's pods)`,
  );
}

function lockRoot(root: Files, self: string): LockResult {
  try {
    return takeLock(root.path("berth.lock"), self);
  } catch (error) {
    const isInTheWay = error instanceof FilesError && ["ELOOP", "EISDIR"].includes(error.code);
    const cure = isInTheWay ? "remove it, or give --root-dir another folder" : inOrder;
    return failStart("the root directory cannot be locked", cure)(error);
  }
}

const LOCKS = "run/berth";

/**
 * One agent a container runtime: each would take the other's pods for leftovers, and end them. Returns what gives the runtime back.
 * Throws `StartError` where another agent has it; a kubelet on the same runtime takes no such lock, and is not noticed.
 */
export async function ownRuntime(where: Where, machine: Files, log: Log): Promise<() => void> {
  const { rootDir, nodeName, containerRuntimeEndpoint } = where;
  const socket = realPathAhead(socketPathOf(containerRuntimeEndpoint));
  const digest = new Bun.CryptoHasher("sha256").update(socket).digest("hex").slice(0, 32);
  let lock: LockResult;
  try {
    await machine.makeFolder(LOCKS, 0o700);
    lock = takeLock(
      machine.path(LOCKS, `${digest}.lock`),
      `pid ${process.pid}, node ${nodeName}, root directory ${rootDir}`,
    );
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    // A guard that cannot be had is no reason to leave a node without its pods.
    log.warn({ err: error }, "nobody is kept from running a second agent on this container runtime");
    return () => {};
  }
  if (lock.held) return lock.remove;
  throw new StartError(
    `another agent (${lock.holder}) uses the container runtime at ${socket}: stop it, or give this one a runtime of its own (two agents on one runtime would end each other's pods)`,
  );
}
