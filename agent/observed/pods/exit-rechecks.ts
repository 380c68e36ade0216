import { type BackoffOptions, backoffMs } from "../../../host/async/backoff.ts";
import type { Clock } from "../../../host/clock.ts";
import type { ContainerId, PodUid } from "../../../proto/ids.ts";
import { mayBecomeOomKilled } from "../../decide/container/oom-reason.ts";
import { discardEventExits, isExitUnconfirmed, markStale, type PodCacheEntry } from "./pod-cache-entry.ts";

/** What reads an exited container again if the runtime may complete its status later, without another event. */
export interface RecheckDeps {
  readonly clock: Clock;
  /** The cached pods. */
  readonly entries: ReadonlyMap<PodUid, PodCacheEntry>;
  readonly wake: (uid: PodUid) => void;
}

const RECHECK_BACKOFF: BackoffOptions = { initialMs: 5, maxMs: 1_000 };
const MAX_RECHECKS = 48;

/**
 * Reads stops that only events report again. True if it has discarded the exits that only events reported.
 *
 * The event of an exit can precede the runtime's status by some ten milliseconds, and by seconds on a busy machine. The
 * event is trusted, and the status is read again after 5, 10, 20 ms … and then each second. If it still shows the
 * container running after 41 s, the status is right and the event was wrong. Giving up earlier would cost more: no
 * other event arrives, and an exited container would count as running.
 */
export function recheckUnconfirmedExits({ clock, entries, wake }: RecheckDeps, entry: PodCacheEntry): boolean {
  const { unconfirmedStops, eventExits } = entry;
  for (const id of eventExits.keys()) unconfirmedStops.add(id);
  for (const id of unconfirmedStops) if (!isExitUnconfirmed(entry, id)) unconfirmedStops.delete(id);
  if (unconfirmedStops.size === 0) entry.unconfirmedRetries = 0;
  if (unconfirmedStops.size === 0 || entry.isRecheckScheduled) return false;
  if (entry.unconfirmedRetries === MAX_RECHECKS) {
    entry.unconfirmedRetries = 0;
    discardEventExits(entry);
    return true;
  }
  entry.isRecheckScheduled = true;
  entry.unconfirmedRetries++;
  clock.wakeAt(clock.now() + backoffMs(RECHECK_BACKOFF, entry.unconfirmedRetries), () => {
    if (entries.get(entry.uid) !== entry) return;
    entry.isRecheckScheduled = false;
    for (const id of unconfirmedStops)
      entry.pendingEvents.push({ kind: "container", change: "stopped", containerId: id, isSandbox: undefined });
    wake(entry.uid);
  });
  return false;
}

const OOM_REASON_RECHECKS_MS = [20, 100, 1_000, 5_000] as const;

/**
 * Reads an exited container again, until the runtime has had time to report an OOM kill.
 *
 * A runtime learns of an exit and of an OOM kill through two channels:
 *
 *   1. the kernel kills the process             3. an observation shows the exit: 137, `Error`
 *   2. the runtime records the exit             4. the OOM notification arrives; now the status says `OOMKilled`
 *
 * No event reports step 4. So a container that was just killed by SIGKILL without that reason is read again.
 */
export function recheckForOomReason(
  { clock, entries, wake }: RecheckDeps,
  entry: PodCacheEntry,
  id: ContainerId,
): void {
  const ended = entry.containers.get(id);
  if (ended === undefined || !mayBecomeOomKilled(ended)) return;
  for (const at of OOM_REASON_RECHECKS_MS.map((delayMs) => ended.finishedAt + delayMs)) {
    if (at <= clock.now()) continue;
    clock.wakeAt(at, () => {
      const known = entry.containers.get(id);
      if (entries.get(entry.uid) !== entry || known === undefined || !mayBecomeOomKilled(known)) return;
      markStale(entry, id);
      wake(entry.uid);
    });
  }
}
