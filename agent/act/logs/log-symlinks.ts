import { dirname } from "node:path/posix";
import { createKeyedCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import { createSerialQueue } from "../../../host/async/serial-queue.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import type { ObservedContainer, ObservedPod } from "../../decide/pod/observed.ts";
import { containerLogPath, logSymlinkName, podLogDir } from "../../translate/log-path.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import type { NodeDirs } from "../volumes/pod-dirs.ts";

/**
 * The symlinks by which log collectors find container logs:
 * `/var/log/containers/<pod>_<namespace>_<container>-<id>.log`, like the kubelet's. They are reconciled with the
 * observed containers, so a crash before a symlink was made does no harm.
 */
export interface LogSymlinks {
  /**
   * Creates missing symlinks of the pod and removes stale ones, in the background; makes no call if nothing has changed.
   */
  sync(pod: ObservedPod): void;
  /** Lists the directory, restores symlinks that were removed and removes dangling ones. Never rejects. */
  audit(): Promise<void>;
  /** Resolves when no symlink is being changed. */
  settled(): Promise<void>;
}

/** Name → target. */
type SymlinkTargets = Map<string, string>;

interface LogSymlinkState {
  /** The machine's files, and the paths of the symlinks and of the pod logs in it. */
  readonly machine: Files;
  readonly folder: string;
  readonly logs: string;
  /** The existing symlinks, by their pod's log directory. */
  readonly known: Map<string, SymlinkTargets>;
}

export function createLogSymlinks({ machine, logs }: Pick<NodeDirs, "machine" | "logs">, log: Log): LogSymlinks {
  const folder = `${dirname(logs.root)}/containers`;
  const state: LogSymlinkState = { machine, folder, logs: logs.root, known: new Map() };
  let isRead = false;
  // One line for each outage, whatever its reasons.
  let isLogged = false;
  /** Serialises the changes; they are too small to gain from concurrency. */
  const enqueue = createSerialQueue();
  /** The desired symlinks of the pods whose symlinks are being changed, by their log directory. */
  const underWay = new Map<string, SymlinkTargets>();
  const syncs = createKeyedCoalescingWorker(reconcileLatest);

  async function serially(work: () => Promise<void>): Promise<void> {
    await enqueue(work);
    isLogged = false;
  }

  function logFailure(error: unknown): void {
    if (!isLogged) log.warn({ err: error, folder }, "cannot update the symlinks for log collectors");
    isLogged = true;
  }

  /** Logs a failure once: a missing symlink must not keep a pod from running. */
  async function orLog(work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      logFailure(error);
    }
  }

  async function read(): Promise<void> {
    await readDir(state);
    isRead = true;
  }

  async function reconcileLatest(podFolder: string): Promise<void> {
    const desired = underWay.get(podFolder) ?? new Map();
    await orLog(() =>
      serially(async () => {
        if (!isRead) await read();
        await reconcile(state, podFolder, desired);
      }),
    );
    if (underWay.get(podFolder) === desired) underWay.delete(podFolder);
  }

  return {
    sync(pod) {
      if (pod.name === "") return;
      let podFolder: string;
      let desired: SymlinkTargets;
      try {
        podFolder = podLogDir({ metadata: pod });
        desired = desiredSymlinks(pod, `${logs.root}/${podFolder}`);
      } catch (error) {
        // A name of the container's labels that is no file name.
        if (!(error instanceof TranslateError)) throw error;
        return logFailure(error);
      }
      const before = underWay.get(podFolder);
      if (before === undefined ? isRead && areEqual(state.known.get(podFolder), desired) : areEqual(before, desired))
        return;
      underWay.set(podFolder, desired);
      syncs.wake(podFolder);
    },
    audit: () => orLog(() => serially(read)),
    settled: () => syncs.settled(),
  };
}

/** Containers that never ran get no symlink. If two truncated names are equal, the newer container gets the symlink. */
function desiredSymlinks({ name, namespace, containers }: ObservedPod, folder: string): SymlinkTargets {
  return new Map(
    containers
      .filter(hasRun)
      .toReversed()
      .map((container) => [
        logSymlinkName(name, namespace, container.name, container.id),
        `${folder}/${containerLogPath(container.name, container.attempt)}`,
      ]),
  );
}

function hasRun(container: ObservedContainer): boolean {
  return container.state !== "created" && !(container.state === "exited" && container.startedAt === 0);
}

function areEqual(a: SymlinkTargets = new Map(), b: SymlinkTargets): boolean {
  return a.size === b.size && [...b].every(([name, target]) => a.get(name) === target);
}

async function reconcile(
  { machine, folder, known }: LogSymlinkState,
  podFolder: string,
  desired: SymlinkTargets,
): Promise<void> {
  const present: SymlinkTargets = known.get(podFolder) ?? new Map();
  known.set(podFolder, present);
  for (const name of [...present.keys()].filter((each) => !desired.has(each))) {
    await machine.remove(`${folder}/${name}`);
    present.delete(name);
  }
  for (const [name, target] of desired) {
    if (present.get(name) === target) continue;
    await machine.link(`${folder}/${name}`, target);
    present.set(name, target);
  }
  if (present.size === 0) known.delete(podFolder);
}

async function readDir({ machine, folder, logs, known }: LogSymlinkState): Promise<void> {
  await machine.makeFolder(folder, 0o755);
  const names = new Set(((await machine.list(folder)) ?? []).map(({ name }) => name));
  for (const [name, target] of [...known.values()].flatMap((links) => [...links]))
    if (!names.delete(name)) await machine.link(`${folder}/${name}`, target);
  for (const name of names) {
    const target = await machine.readLink(`${folder}/${name}`);
    // Other programs may keep symlinks here too.
    if (!target?.startsWith(`${logs}/`)) continue;
    const [podFolder = ""] = target.slice(`${logs}/`.length).split("/");
    if ((await machine.stat(`${folder}/${name}`)) === undefined) await machine.remove(`${folder}/${name}`);
    else known.set(podFolder, (known.get(podFolder) ?? new Map()).set(name, target));
  }
}
