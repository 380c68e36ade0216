import type { Clock } from "../../../host/clock.ts";
import type { PulledRecords } from "./pulled-records.ts";

/**
 * Every reconnection to the runtime causes an audit. Shorter than the regular audit period, so that each regular audit
 * prunes.
 */
const PRUNE_PERIOD_MS = 60_000;
interface PrunerOptions {
  /** The references of all images on the node. Rejects with `CriError`. */
  readonly refs: () => Promise<readonly string[]>;
  readonly clock: Pick<Clock, "now">;
}

interface PrunerDeps {
  readonly records: Pick<PulledRecords, "snapshot" | "removeUnused">;
  readonly serially: (work: () => Promise<void>) => Promise<void>;
}

/** Removes the records of images that are gone, at most once a minute. Rejects with `CriError` or `FilesError`. */
export function createRecordPruner(
  { refs, clock }: PrunerOptions,
  { records, serially }: PrunerDeps,
): () => Promise<void> {
  let prunedAt = Number.NEGATIVE_INFINITY;
  return async () => {
    const snapshot = records.snapshot();
    if (snapshot.size === 0 || Math.abs(clock.now() - prunedAt) < PRUNE_PERIOD_MS) return;
    const presentRefs = await refs();
    prunedAt = clock.now();
    // A node always has the sandbox image: a runtime that lists no image has not loaded its store yet.
    if (presentRefs.length > 0) await serially(() => records.removeUnused(snapshot, presentRefs));
  };
}
