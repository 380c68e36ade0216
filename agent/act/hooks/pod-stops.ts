import { createSemaphore, type Semaphore } from "../../../host/async/semaphore.ts";
import type { Clock } from "../../../host/clock.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";

/** Limits how many containers of one pod are stopped at once. */
export interface PodStops {
  /**
   * Runs `stop`, the stop of a container of the pod, when it is its turn. Settles as that does, or rejects with the signal's
   * reason when that aborts first.
   */
  run(pod: StoppedPod, stop: ContainerStop, signal: AbortSignal): Promise<void>;
}

export interface StoppedPod {
  readonly uid: PodUid;
  /** Undefined for a pod without a source: its spec is unknown. */
  readonly pod: Pod | undefined;
}

/** `stop` ends the container, with SIGKILL after `graceSeconds`. */
export interface ContainerStop {
  readonly graceSeconds: number;
  stop(): Promise<void>;
}

const MAX_STOPS = 16;
const MAX_STOPS_IN_SHARED_NAMESPACE = 4;
/** After this time a stop no longer counts against the limit: its container ends late, and costs nothing meanwhile. */
const SLOW_AFTER_MS = { least: 2_000, most: 10_000 };
/** The same, as a multiple of the shortest stop of the pod so far that ended before SIGKILL: it shows how fast the shim is. */
const SLOW_AFTER_STOPS = 3;

/**
 * All containers of a pod have one shim. It queues 32 exits of processes, its own `runc` included, and hangs for good
 * when more come at once (containerd 1.6). So 16 containers stop at a time: the kubelet stops all at once.
 *
 * Where the containers share a process namespace, the shim runs `runc kill --all` at each exit, and forty stops at once
 * block it for minutes (containerd 1.6 and 2.1). So they stop four at a time: forty that end on SIGTERM take 3 to 4.4 s.
 *
 * Containers that take longer to end get their SIGTERM in groups, two seconds apart, and each has the whole grace period
 * from then on. Otherwise those that ignore SIGTERM would all be killed at once at its end. On a slow machine the shim itself
 * takes seconds for a stop, and the groups are further apart: a shim with twenty stops answers none of them for a minute.
 */
export function createPodStops(clock: Clock): PodStops {
  const pods = new Map<PodUid, PodEntry>();
  return {
    async run({ uid, pod }, { graceSeconds, stop }, signal) {
      const entry = pods.get(uid) ?? createEntry(clock, pod);
      pods.set(uid, entry);
      entry.stops++;
      const stopAndMeasure = async () => {
        const startedMs = clock.monotonicMs();
        await stop();
        const tookMs = clock.monotonicMs() - startedMs;
        if (tookMs < graceSeconds * 1000) entry.shortestMs = Math.min(entry.shortestMs ?? tookMs, tookMs);
      };
      try {
        await entry.semaphore.run(stopAndMeasure, signal);
      } finally {
        entry.stops--;
        if (entry.stops === 0) pods.delete(uid);
      }
    },
  };
}

interface PodEntry {
  readonly semaphore: Semaphore;
  stops: number;
  /** Of the stops that ended before SIGKILL; undefined before the first one. */
  shortestMs: number | undefined;
}

function createEntry(clock: Clock, pod: Pod | undefined): PodEntry {
  const permits = pod === undefined || sharesProcessNamespace(pod) ? MAX_STOPS_IN_SHARED_NAMESPACE : MAX_STOPS;
  const slowAfterMs = () => {
    const ms = SLOW_AFTER_STOPS * (entry.shortestMs ?? 0);
    return Math.min(Math.max(ms, SLOW_AFTER_MS.least), SLOW_AFTER_MS.most);
  };
  const semaphore = createSemaphore({ permits, stuckAfter: { clock, ms: slowAfterMs } });
  const entry: PodEntry = { semaphore, stops: 0, shortestMs: undefined };
  return entry;
}

function sharesProcessNamespace({ spec }: Pod): boolean {
  return spec.shareProcessNamespace === true || spec.hostPID === true;
}
