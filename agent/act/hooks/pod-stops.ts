import { createSemaphore, type Semaphore } from "../../../host/async/semaphore.ts";
import type { Clock } from "../../../host/clock.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";

/** Limits how many containers of one pod are stopped at once. */
export interface PodStops {
  /**
   * Runs `stop` when it is its turn. `pod` is undefined for a pod without a source: its spec is unknown. Settles as `stop`
   * does, or rejects with the signal's reason when that aborts first.
   */
  run(uid: PodUid, pod: Pod | undefined, stop: () => Promise<void>, signal: AbortSignal): Promise<void>;
}

const MAX_STOPS = 16;
const MAX_STOPS_IN_SHARED_NAMESPACE = 4;
/** A container that has not ended after this time takes its time to end: its stop costs nothing meanwhile. */
const SLOW_AFTER_MS = 1_000;

/**
 * All containers of a pod have one shim. It queues 32 exits of processes, its own `runc` included, and hangs for good
 * when more come at once (containerd 1.6). So 16 containers stop at a time: the kubelet stops all at once.
 *
 * Where the containers share a process namespace, the shim runs `runc kill --all` at each exit, and forty stops at once
 * block it for minutes (containerd 1.6 and 2.1). So they stop four at a time: forty that end on SIGTERM take 3 to 4.4 s.
 *
 * Containers that take longer to end get their SIGTERM in groups, a second apart, and each has the whole grace period
 * from then on. Otherwise those that ignore SIGTERM would all be killed at once at its end.
 */
export function createPodStops(clock: Clock): PodStops {
  const pods = new Map<PodUid, { readonly semaphore: Semaphore; stops: number }>();
  const createEntry = (pod: Pod | undefined) => {
    const permits = pod === undefined || sharesProcessNamespace(pod) ? MAX_STOPS_IN_SHARED_NAMESPACE : MAX_STOPS;
    return { semaphore: createSemaphore({ permits, stuckAfter: { clock, ms: SLOW_AFTER_MS } }), stops: 0 };
  };
  return {
    async run(uid, pod, stop, signal) {
      const entry = pods.get(uid) ?? createEntry(pod);
      pods.set(uid, entry);
      entry.stops++;
      try {
        await entry.semaphore.run(stop, signal);
      } finally {
        entry.stops--;
        if (entry.stops === 0) pods.delete(uid);
      }
    },
  };
}

function sharesProcessNamespace({ spec }: Pod): boolean {
  return spec.shareProcessNamespace === true || spec.hostPID === true;
}
