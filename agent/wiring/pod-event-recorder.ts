import type { Log } from "../../host/log/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import type { PodEvent } from "../decide/events/pod-event.ts";
import { fullNameOf } from "../decide/pod/desired.ts";
import type { PodEventSource } from "./cluster/cluster.ts";

/** Returns the function that records an Event of a pod. A standalone node has no events: the log shows them too. */
export function createPodEventRecorder(
  log: Log,
  podEvents: Pick<PodEventSource, "emit">,
): (pod: Pod, event: PodEvent) => void {
  return (pod, event) => {
    const [uid, name] = [pod.metadata.uid as PodUid, fullNameOf(pod)];
    const level = event.type === "Normal" ? "info" : "warn";
    log[level]({ pod: name, uid, reason: event.reason }, event.message);
    podEvents.emit(uid, name, event);
  };
}
