import { CriError, formatRpcError } from "../../cri/error.ts";
import { createKeyedLogOnChange } from "../../host/async/log-once.ts";
import { messageOf } from "../../host/error-message.ts";
import type { Log } from "../../host/log/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { PodEvent } from "../decide/events/pod-event.ts";
import { syncFailedEvent } from "../decide/events/pod-events.ts";

/** Logs why a pod's sync fails, and records it as an event of the pod. */
export interface SyncErrorLog {
  /** Logs an error once per pod, until its message changes. Leaves out runtime outages, which `watchRuntime` logs. */
  report(uid: PodUid, error: unknown): void;
  /** The pod was synced, or is gone: the same error is logged again if it returns. */
  clear(uid: PodUid): void;
}

export function createSyncErrorLog(log: Log, recordEvent: (uid: PodUid, event: PodEvent) => void): SyncErrorLog {
  const logged = createKeyedLogOnChange<PodUid>();
  return {
    report(uid, error) {
      const message = messageOf(error);
      const isOutage = error instanceof CriError && error.code === "UNAVAILABLE";
      if (!logged.shouldLog(uid, message) || isOutage) return;
      log.warn({ uid, err: error }, "cannot sync the pod; retrying");
      recordEvent(uid, syncFailedEvent(error instanceof CriError ? formatRpcError(error) : message));
    },
    clear: logged.clear,
  };
}
