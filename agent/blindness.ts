import { asRpcError, CriError } from "../cri/error.ts";
import type { Log } from "../host/log.ts";
import type { PodUid } from "../proto/ids.ts";
import { blindEvent, type PodEvent } from "./decide/events/pod-events.ts";

/** Why pods cannot be looked at, or decided upon: who would look at a pod for the reason finds it in the log and by its events. */
export interface Blindness {
  /** Once a pod, until another reason comes or it was looked at; an outage is told by whoever follows the runtime. */
  tell(uid: PodUid, error: unknown): void;
  /** The pod was looked at, or is gone: the same reason is news again. */
  forget(uid: PodUid): void;
}

export function createBlindness(log: Log, tellPod: (uid: PodUid, event: PodEvent) => void): Blindness {
  const told = new Map<PodUid, string>();
  return {
    tell(uid, error) {
      const message = error instanceof Error ? error.message : String(error);
      const isOutage = error instanceof CriError && error.code === "UNAVAILABLE";
      const isNews = !isOutage && told.get(uid) !== message;
      told.set(uid, message);
      if (!isNews) return;
      log.warn({ uid, err: error }, "the pod cannot be looked at; trying again");
      tellPod(uid, blindEvent(error instanceof CriError ? asRpcError(error) : message));
    },
    forget: (uid) => void told.delete(uid),
  };
}
