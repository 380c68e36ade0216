import { createKeyedCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import { newestInstanceOf, type ObservedPod, type ProbeMark } from "../../decide/pod/observed.ts";
import { containerDir, probeMarkFile } from "../../translate/volumes/paths.ts";

/**
 * Marker files that tell the next agent which containers have started and are ready by their probes. They lie in the pod's
 * directory and disappear with it.
 */
export interface ProbeMarks {
  /**
   * Creates and removes marks of the pod's running containers in the background; makes no call if nothing has changed.
   */
  onObserved(observed: ObservedPod, desired: DesiredPod | undefined): void;
  /** Nothing is left of the pod. */
  forget(uid: PodUid): void;
  /** Resolves when no mark is being changed. */
  settled(): Promise<void>;
}

/** The marks of a pod. */
interface MarkedPod {
  /** By `keyOf`. */
  readonly present: Map<string, ProbeMark>;
  /** The changes of the latest observation. */
  changes: { readonly missing: readonly ProbeMark[]; readonly outdated: readonly ProbeMark[] };
}

export function createProbeMarks(root: Files, log: Log): ProbeMarks {
  const pods = new Map<PodUid, MarkedPod>();
  const changes = createKeyedCoalescingWorker(change);
  // One line for each outage, such as a full disk.
  let isLogged = false;

  async function change(uid: PodUid): Promise<void> {
    const { present, changes } = pods.get(uid) ?? emptyPod([]);
    try {
      for (const mark of changes.outdated) {
        await root.remove(probeMarkFile(uid, mark));
        present.delete(keyOf(mark));
      }
      for (const mark of changes.missing) {
        await root.makeFolder(containerDir(uid, mark.name), 0o750);
        await root.makeFile(probeMarkFile(uid, mark), 0o600);
        present.set(keyOf(mark), mark);
      }
      isLogged = false;
    } catch (error) {
      // The next observation of the pod repeats it.
      if (!isLogged) log.warn({ err: error, uid }, "cannot record the results of probes for the next agent");
      isLogged = true;
    }
  }

  return {
    onObserved(observed, desired) {
      const { uid } = observed;
      if (desired === undefined || observed.health.size === 0) return;
      const pod = pods.get(uid) ?? emptyPod(observed.probeMarks);
      pods.set(uid, pod);
      pod.changes = changesOf(pod, wantedMarks(observed, desired));
      if (pod.changes.missing.length + pod.changes.outdated.length > 0) changes.wake(uid);
    },
    forget: (uid) => void pods.delete(uid),
    settled: () => changes.settled(),
  };
}

const emptyPod = (marks: readonly ProbeMark[]): MarkedPod => ({
  present: new Map(marks.map((mark) => [keyOf(mark), mark])),
  changes: { missing: [], outdated: [] },
});

const keyOf = ({ mark, name, attempt }: ProbeMark) => `${name} ${attempt} ${mark}`;

/** Marks of containers that do not run stay until their next instance runs: the end of a pod needs no call. */
function changesOf({ present }: MarkedPod, wanted: ReadonlyMap<string, readonly ProbeMark[]>): MarkedPod["changes"] {
  const all = [...wanted.values()].flat();
  const keys = new Set(all.map(keyOf));
  return {
    missing: all.filter((mark) => !present.has(keyOf(mark))),
    outdated: [...present.values()].filter((mark) => wanted.has(mark.name) && !keys.has(keyOf(mark))),
  };
}

/** The marks of each running container with probes, by its name. */
function wantedMarks(observed: ObservedPod, { pod }: DesiredPod): ReadonlyMap<string, readonly ProbeMark[]> {
  return new Map(
    allContainers(pod.spec).flatMap((container) => {
      const marks = marksOf(observed, container);
      return marks === undefined ? [] : [[container.name, marks] as const];
    }),
  );
}

function marksOf(
  observed: ObservedPod,
  { name, startupProbe, readinessProbe }: Container,
): readonly ProbeMark[] | undefined {
  const instance = newestInstanceOf(observed, name);
  const health = instance && observed.health.get(instance.id);
  if (instance === undefined || health === undefined) return undefined;
  const { attempt } = instance;
  return [
    ...(startupProbe !== undefined && health.isStarted ? [{ mark: "started", name, attempt } as const] : []),
    ...(readinessProbe !== undefined && health.isReady ? [{ mark: "ready", name, attempt } as const] : []),
  ];
}
