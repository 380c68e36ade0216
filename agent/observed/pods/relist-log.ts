import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";

/** Logs whether the relists of the runtime succeed. */
export interface RelistLog {
  /**
   * A list is pending from now on: there is no connection, or no list since the connect. `why` is undefined if nothing
   * failed.
   */
  pending(error?: unknown): void;
  failed(error: unknown): void;
  succeeded(): void;
  /** Logs nothing from now on. */
  stop(): void;
}

/** The kubelet reports its node as unhealthy after three minutes without a relist. */
const OVERDUE_MS = 180_000;

/** Logs a failure once, again after three minutes without a list, and its end once. */
export function createRelistLog(clock: Clock, log: Log): RelistLog {
  let isFailing = false;
  let isOverdue = false;
  let reason: unknown;
  let cancel: (() => void) | undefined;

  function pending(error?: unknown): void {
    reason = error ?? reason;
    cancel ??= clock.wakeAt(clock.now() + OVERDUE_MS, () => {
      isOverdue = true;
      log.error(
        reason === undefined ? {} : { err: reason },
        "cannot list the pods and containers of the runtime for three minutes; the status of pods may be out of date",
      );
    });
  }

  return {
    pending,
    failed(error) {
      if (!isFailing) log.warn({ err: error }, "cannot list the pods and containers of the runtime; retrying");
      isFailing = true;
      pending(error);
    },
    succeeded() {
      cancel?.();
      if (isFailing || isOverdue) log.info({}, "the container runtime answers List calls again");
      isFailing = false;
      isOverdue = false;
      reason = undefined;
      cancel = undefined;
    },
    stop: () => cancel?.(),
  };
}
