import type { Clock } from "../../../host/clock.ts";
import { FilesError } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";

/** Logs whether the relists of the runtime and of the pod directories succeed. */
export interface RelistLog {
  /**
   * A list is pending from now on: there is no connection, or no list since the connect. `error` is undefined if
   * nothing failed.
   */
  pending(error?: unknown): void;
  failed(error: unknown): void;
  succeeded(): void;
  /** Logs nothing from now on. */
  stop(): void;
}

/** What a relist could not list, by its error. */
export function listOf(error: unknown): string {
  return error instanceof FilesError ? "the pod directories" : "the pods and containers of the runtime";
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
        `cannot list ${listOf(reason)} for three minutes; the status of pods may be out of date`,
      );
    });
  }

  return {
    pending,
    failed(error) {
      if (!isFailing) log.warn({ err: error }, `cannot list ${listOf(error)}; retrying`);
      isFailing = true;
      pending(error);
    },
    succeeded() {
      cancel?.();
      const isOfFiles = reason instanceof FilesError;
      if (isFailing || isOverdue)
        log.info(
          {},
          isOfFiles ? "the pod directories are listed again" : "the container runtime answers List calls again",
        );
      isFailing = false;
      isOverdue = false;
      reason = undefined;
      cancel = undefined;
    },
    stop: () => cancel?.(),
  };
}
