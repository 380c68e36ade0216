import type { ObservedPod } from "../../agent/decide/pod/observed.ts";
import type { PodUid } from "../../proto/ids.ts";

/** A pod that has left nothing on the node. */
export function emptyObservedPod(uid: PodUid, namespace: string, name: string): ObservedPod {
  return {
    uid,
    namespace,
    name,
    sandboxes: [],
    containers: [],
    images: new Map(),
    loggedAttempts: new Map(),
    removedAttempts: new Map(),
    resources: [],
    pendingPostStartHooks: new Set(),
    endedPreStopHooks: new Set(),
    probeMarks: [],
    health: new Map(),
  };
}
