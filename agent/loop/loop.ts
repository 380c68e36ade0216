import { createKeyedCoalescingWorker } from "../../host/async/coalescing-worker.ts";
import type { Clock } from "../../host/clock.ts";
import type { PodUid } from "../../proto/ids.ts";
import { clearOutageFailures, clearReferenceFailures } from "../decide/pod/memory.ts";
import type { PodSettings } from "../decide/settings.ts";
import type { SyncPorts } from "./ports.ts";
import { createStartLimiter } from "./start-limiter.ts";
import { longestSyncDelayMs } from "./sync-delay.ts";
import {
  abortBackground,
  cancelOutdatedCalls,
  clearSyncFailures,
  createPodWorker,
  type LoopState,
  type PodWorker,
  syncPod,
} from "./sync-pod.ts";
import { createSyncNotifier } from "./sync-subscriber.ts";

export interface LoopOptions {
  readonly clock: Clock;
  readonly ports: SyncPorts;
  readonly settings: () => PodSettings;
  /** How many pods may start containers at the same time. */
  readonly startSlots: number;
}

export interface Loop {
  /** Requests a sync of this pod. Carries no reason; lost and repeated wakes are harmless. */
  wake(uid: PodUid): void;
  /**
   * Like `wake`, for a pod whose termination was requested or shortened: aborts at once the pulls, hooks and stops that
   * started under an older request, and a call that the sync waits for ten seconds after it began.
   */
  cancelOutdated(uid: PodUid): void;
  /** Clears the back-off of everything that failed because the runtime was away. The caller wakes the pods. */
  retryAfterOutage(): void;
  /**
   * A Secret, a ConfigMap or a token of this pod was read or has changed: clears the back-off of actions that failed
   * because of it. `key` is its `referenceKey` or `tokenKey`.
   */
  onReferenceChanged(uid: PodUid, key: string): void;
  /** How long the longest sync has been running, or the most overdue one has been due; milliseconds, 0 if none is. */
  longestDelayMs(): number;
  /** Resolves when no sync and no background call is under way. */
  settled(): Promise<void>;
  /** Starts no further sync and no further call; resolves when the calls under way have ended. */
  stop(): Promise<void>;
}

/**
 * The sync loop. It runs one sync per pod at a time (observe, decide, report, act) and repeats it while there is
 * something to do. Each sync starts with a fresh observation, so it never decides on state that the agent's own last
 * call has made stale.
 */
export function createLoop({ clock, ports, settings, startSlots }: LoopOptions): Loop {
  const pods = new Map<PodUid, PodWorker>();
  const syncs = createKeyedCoalescingWorker(sync);
  const notify = createSyncNotifier(ports.subscribers);
  const starts = createStartLimiter(startSlots, clock, wake);
  let isStopping = false;
  const state: LoopState = {
    clock,
    ports,
    notify,
    settings,
    starts,
    wake,
    isStopping: () => isStopping,
    remove: removeWorker,
  };

  function wake(uid: PodUid): void {
    if (!isStopping) syncs.wake(uid);
  }

  /** A wake during the last sync of a pod belongs to a new pod with the same uid. */
  function sync(uid: PodUid): Promise<void> {
    if (isStopping) return Promise.resolve();
    const pod = pods.get(uid) ?? createPodWorker(uid);
    pods.set(uid, pod);
    return syncMeasured(state, pod);
  }

  function removeWorker(pod: PodWorker): void {
    pod.cancelTimer?.();
    abortBackground(pod);
    pod.background.clear();
    state.starts.release(pod.uid);
    pods.delete(pod.uid);
    notify.onPodFinished(pod.uid);
  }

  function cancelOutdated(uid: PodUid): void {
    const pod = pods.get(uid);
    if (pod !== undefined) cancelOutdatedCalls(state, pod, ports.desired(uid));
    wake(uid);
  }

  function retryAfterOutage(): void {
    for (const pod of pods.values()) {
      pod.memory = clearOutageFailures(pod.memory);
      clearSyncFailures(pod);
    }
  }

  function onReferenceChanged(uid: PodUid, key: string): void {
    const pod = pods.get(uid);
    const desired = ports.desired(uid);
    if (pod === undefined || desired === undefined || desired === "unknown") return;
    pod.memory = clearReferenceFailures(pod.memory, desired.pod, key);
    wake(uid);
  }

  const backgroundCalls = () =>
    [...pods.values()].flatMap(({ background }) => [...background.values()].map(({ done }) => done));

  const longestDelayMs = () => longestSyncDelayMs(pods.values(), clock.monotonicMs());

  async function settled(): Promise<void> {
    await syncs.settled();
    for (let calls = backgroundCalls(); calls.length > 0; calls = backgroundCalls()) {
      await Promise.all(calls);
      await syncs.settled();
    }
  }

  async function stop(): Promise<void> {
    isStopping = true;
    for (const pod of pods.values()) {
      pod.cancelTimer?.();
      abortBackground(pod);
    }
    await settled();
    // No timer of a start slot may outlive the loop.
    for (const uid of pods.keys()) state.starts.release(uid);
  }

  return { wake, cancelOutdated, retryAfterOutage, onReferenceChanged, longestDelayMs, settled, stop };
}

/** One sync, with the times at which it begins and ends. */
function syncMeasured(state: LoopState, pod: PodWorker): Promise<void> {
  const { clock, notify } = state;
  const startedMs = clock.monotonicMs();
  pod.syncStartedMs = startedMs;
  const synced = syncPod(state, pod).finally(() => {
    pod.syncStartedMs = undefined;
  });
  // Beside the next sync: it does not wait for those that only measure.
  void synced.then(() => notify.onSynced(pod.uid, { startedMs, endedMs: clock.monotonicMs() }));
  return synced;
}
