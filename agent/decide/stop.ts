import { containerNamed, sidecarsOf } from "../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../proto/kubernetes/gen/types.ts";
import type { ObservedContainer } from "./observed.ts";
import type { PlanInProgress } from "./plan.ts";

/** The runtime always gets so long, whatever grace is asked for, as with the kubelet. */
const SHORTEST_GRACE_SECONDS = 2;

/** How a container is to be stopped. */
interface Stop {
  /** Undefined where nobody knows any more what the pod was: its hooks are forgotten with it. */
  readonly pod: Pod | undefined;
  readonly gracePeriodSeconds: number;
  readonly why: string;
  /** What users are told, where it is more than that the container is stopped. */
  readonly event?: string | undefined;
  readonly isForSandbox?: true;
}

/**
 * Proposes to stop a container, its `preStop` hook first; without any grace there is no time for a hook. Returns whether it is taken.
 * https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
 */
export function proposeStop(
  plan: PlanInProgress,
  { name, id }: ObservedContainer,
  { pod, gracePeriodSeconds, why, event, isForSandbox }: Stop,
): boolean {
  const hook = pod && containerNamed(pod, name)?.lifecycle?.preStop;
  return plan.propose({
    kind: "stopContainer",
    name,
    id,
    gracePeriodSeconds: Math.max(gracePeriodSeconds, SHORTEST_GRACE_SECONDS),
    ...(hook !== undefined && gracePeriodSeconds > 0 && { preStop: true }),
    why,
    ...(event && { event }),
    ...(isForSandbox && { isForSandbox }),
  });
}

/**
 * Those of the containers that run whose turn it is to be stopped. A sidecar is stopped when what it serves has ended: all app containers,
 * and the sidecars behind it. Init containers that run to their end, and those that were added to look into the pod, hold nobody up.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-with-sidecars
 */
export function stoppedInTurn({ spec }: Pod, running: readonly ObservedContainer[]): readonly ObservedContainer[] {
  const runs = ({ name }: Container) => running.some((container) => container.name === name);
  const sidecars = sidecarsOf(spec);
  const next = spec.containers.some(runs) ? undefined : sidecars.findLast(runs);
  return running.filter(({ name }) => name === next?.name || !sidecars.some((sidecar) => sidecar.name === name));
}
