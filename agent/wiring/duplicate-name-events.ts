import type { PodUid } from "../../proto/ids.ts";
import { duplicateNameEvent } from "../decide/events/pod-events.ts";
import { fullNameOf, type SourceKind } from "../decide/pod/desired.ts";
import type { PodEventRecorder } from "../report/events/pod-event-recorder.ts";
import type { DuplicateNameSource } from "./cluster.ts";

/** Records one event for each pod with a duplicate name, once for as long as the duplicate exists. */
export function createDuplicateNameEvents({
  recordEvent,
}: Pick<PodEventRecorder, "recordEvent">): DuplicateNameSource["emit"] {
  const reported = new Map<SourceKind, ReadonlySet<string | undefined>>();
  return (kind, duplicates) => {
    const before = reported.get(kind);
    reported.set(kind, new Set(duplicates.map(({ metadata }) => metadata.uid)));
    for (const pod of duplicates)
      if (before?.has(pod.metadata.uid) !== true)
        recordEvent(pod.metadata.uid as PodUid, fullNameOf(pod), duplicateNameEvent(pod, kind));
  };
}
