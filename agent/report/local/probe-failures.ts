import type { PodUid } from "../../../proto/ids.ts";
import { statusNamed } from "../../../proto/kubernetes/containers.ts";
import type { PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { ProbeFailure } from "../../decide/container/probe.ts";

/** The latest probe failures of each pod's containers, for `berth pods`. */
export interface ProbeFailures {
  /** Records a probe failure; returns whether it is new. `status` is the pod's last reported status. */
  record(uid: PodUid, failure: ProbeFailure, status: PodStatus | undefined): boolean;
  /** The latest failure of each probe, only for the container instances that the status describes. */
  of(uid: PodUid, status: PodStatus): readonly ProbeFailure[];
  onPodRemoved(uid: PodUid): void;
}

export function createProbeFailures(): ProbeFailures {
  const pods = new Map<PodUid, Map<string, ProbeFailure & { readonly restartCount: number }>>();
  return {
    record(uid, failure, status) {
      const failures = pods.get(uid) ?? new Map<string, ProbeFailure & { readonly restartCount: number }>();
      const key = `${failure.container} ${failure.kind}`;
      const [known, restartCount] = [failures.get(key), restartsOf(status, failure.container)];
      pods.set(uid, failures.set(key, { ...failure, restartCount }));
      return known?.message !== failure.message || known.restartCount !== restartCount;
    },
    of: (uid, status) =>
      [...(pods.get(uid)?.values() ?? [])].filter(
        ({ container, restartCount }) => restartCount === restartsOf(status, container),
      ),
    onPodRemoved: (uid) => void pods.delete(uid),
  };
}

function restartsOf(status: PodStatus | undefined, container: string): number {
  return statusNamed(status, container)?.restartCount ?? 0;
}
