import type { Clock } from "../../../host/clock.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { createPodCacheEntry, type PodCacheEntry } from "./pod-cache-entry.ts";

interface UnansweredCallDeps {
  readonly clock: Clock;
  /** The cached pods. */
  readonly entries: Map<PodUid, PodCacheEntry>;
  readonly wake: (uid: PodUid) => void;
}

const RECHECKS_MS = [1_000, 10_000] as const;

/**
 * Lists a pod again, even if it is gone, after a call that started something and has ended without an answer: it was
 * aborted, or its deadline has passed.
 *
 *   1. our call RunPodSandbox is aborted         3. the pod is listed, and nothing of it is left: it is finished
 *   2. the runtime notices it some time later    4. the runtime lists the sandbox: it runs after all, or the runtime
 *                                                   could not clean it up
 *
 * No event reports step 4. containerd 1.6 and 2.1 took up to 0.8 s for it, with thirty starts at once on two cores.
 */
export function recheckUnanswered(
  { clock, entries, wake }: UnansweredCallDeps,
  { uid, namespace, name }: PodCacheEntry,
): void {
  for (const delayMs of RECHECKS_MS)
    clock.wakeAt(clock.now() + delayMs, () => {
      const entry = entries.get(uid) ?? createPodCacheEntry(uid, namespace, name, true);
      entry.isStale = true;
      entries.set(uid, entry);
      wake(uid);
    });
}
