import { createSemaphore, type Semaphore } from "../../../host/async/semaphore.ts";
import type { Clock } from "../../../host/clock.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";

/** Limits how many containers of one pod are stopped at once, where they share a process namespace. */
export interface PodStops {
  /**
   * Runs `stop` when it is its turn. `pod` is undefined for a pod without a source: its spec is unknown. Settles as `stop`
   * does, or rejects with the signal's reason when that aborts first.
   */
  run(uid: PodUid, pod: Pod | undefined, stop: () => Promise<void>, signal: AbortSignal): Promise<void>;
}

const MAX_STOPS = 4;
/** A container that has not ended after this time takes its time to end: its stop costs nothing meanwhile. */
const SLOW_AFTER_MS = 1_000;

/**
 * All containers of a pod have one shim. Where they share a process namespace it runs `runc kill --all` at each exit,
 * and forty stops at once block it for minutes (containerd 1.6 and 2.1). So they stop four at a time: forty that
 * end on SIGTERM take 3 to 4.4 s.
 *
 * Containers that take longer to end get their SIGTERM in groups of four, a second apart, and each has the whole grace
 * period from then on. Otherwise those that ignore SIGTERM would all be killed at once at its end.
 *
 * Containers with process namespaces of their own stop all at once, as with the kubelet: that is the quickest way.
 */
export function createPodStops(clock: Clock): PodStops {
  const pods = new Map<PodUid, { readonly semaphore: Semaphore; stops: number }>();
  const createEntry = () => {
    const stuckAfter = { clock, ms: SLOW_AFTER_MS };
    return { semaphore: createSemaphore({ permits: MAX_STOPS, stuckAfter }), stops: 0 };
  };
  return {
    async run(uid, pod, stop, signal) {
      if (pod !== undefined && !sharesProcessNamespace(pod)) return await stop();
      const entry = pods.get(uid) ?? createEntry();
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
