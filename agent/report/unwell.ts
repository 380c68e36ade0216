import type { PodUid } from "../../proto/ids.ts";
import { statusNamed } from "../../proto/kubernetes/containers.ts";
import type { PodStatus } from "../../proto/kubernetes/gen/types.ts";
import type { Unwell } from "../decide/container/probe.ts";

/** What probes have said of each pod's containers that were not as they should be. */
export interface UnwellContainers {
  /** Returns whether this is news. `status` is the pod's, as it was told last. */
  heard(uid: PodUid, said: Unwell, status: PodStatus | undefined): boolean;
  /** What was said last by each probe, of the instances that the status is about: of those before them it is past. */
  of(uid: PodUid, status: PodStatus): readonly Unwell[];
  finished(uid: PodUid): void;
}

export function createUnwellContainers(): UnwellContainers {
  const pods = new Map<PodUid, Map<string, Unwell & { readonly restartCount: number }>>();
  return {
    heard(uid, said, status) {
      const words = pods.get(uid) ?? new Map<string, Unwell & { readonly restartCount: number }>();
      const key = `${said.container} ${said.kind}`;
      const [known, restartCount] = [words.get(key), restartsOf(status, said.container)];
      pods.set(uid, words.set(key, { ...said, restartCount }));
      return known?.message !== said.message || known.restartCount !== restartCount;
    },
    of: (uid, status) =>
      [...(pods.get(uid)?.values() ?? [])].filter(
        ({ container, restartCount }) => restartCount === restartsOf(status, container),
      ),
    finished: (uid) => void pods.delete(uid),
  };
}

function restartsOf(status: PodStatus | undefined, container: string): number {
  return statusNamed(status, container)?.restartCount ?? 0;
}
