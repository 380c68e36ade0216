import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";

/** Tells the log what becomes of the lists of everything that the runtime has. */
export interface ListStory {
  /** From now on a list is owed: there is no connection, or none has been listed yet. `why` is left out where nothing failed. */
  owed(why?: unknown): void;
  failed(error: unknown): void;
  succeeded(): void;
  /** Nothing is told any more. */
  end(): void;
}

/** The kubelet calls its node unhealthy after three minutes without a list. */
const OVERDUE_MS = 180_000;

/** Tells a failure once, once more when three minutes have passed without a list, and then once that it is over. */
export function createListStory(clock: Clock, log: Log): ListStory {
  let isFailing = false;
  let isOverdue = false;
  let reason: unknown;
  let cancel: (() => void) | undefined;

  function owed(why?: unknown): void {
    reason = why ?? reason;
    cancel ??= clock.wakeAt(clock.now() + OVERDUE_MS, () => {
      isOverdue = true;
      log.error(
        reason === undefined ? {} : { err: reason },
        "the container runtime could not be listed for three minutes; what is shown of pods may be out of date",
      );
    });
  }

  return {
    owed,
    failed(error) {
      if (!isFailing) log.warn({ err: error }, "the container runtime could not be listed; trying again");
      isFailing = true;
      owed(error);
    },
    succeeded() {
      cancel?.();
      if (isFailing || isOverdue) log.info({}, "the container runtime can be listed again");
      isFailing = false;
      isOverdue = false;
      reason = undefined;
      cancel = undefined;
    },
    end: () => cancel?.(),
  };
}
