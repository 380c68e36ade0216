import type { ContainerId } from "../../../proto/ids.ts";
import { containerNamed, sidecarsOf } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { dueOf, type Termination } from "./desired.ts";
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
  /** The containers whose hook has run already. */
  readonly preStopped?: ReadonlySet<ContainerId>;
}

/**
 * Proposes to stop a container, its `preStop` hook first; without any grace there is no time for a hook. Returns whether it is taken.
 * https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
 */
export function proposeStop(plan: PlanInProgress, container: ObservedContainer, stop: Stop): boolean {
  const { name, id } = container;
  const { gracePeriodSeconds, why, event, isForSandbox } = stop;
  return plan.propose({
    kind: "stopContainer",
    name,
    id,
    gracePeriodSeconds: Math.max(gracePeriodSeconds, SHORTEST_GRACE_SECONDS),
    ...(isHookDue(container, stop) && { preStop: true }),
    why,
    ...(event && { event }),
    ...(isForSandbox && { isForSandbox }),
  });
}

/**
 * Proposes to stop the containers of a pod that run, all at once but for the sidecars, which go one by one. All hooks begin at once, as with the
 * kubelet, and what a hook and the waiting take is part of the one grace. When it is over nobody waits for anybody.
 */
export function proposeStops(
  plan: PlanInProgress,
  running: readonly ObservedContainer[],
  grant: Termination,
  how: Pick<Stop, "pod" | "isForSandbox" | "preStopped">,
  now: number,
): void {
  const { pod, isForSandbox } = how;
  const inTurn = pod === undefined || dueOf(grant) <= now ? running : stoppedInTurn(pod, running);
  const stop: Stop = { ...how, gracePeriodSeconds: graceLeft(grant, now), why: grant.why };
  const { gracePeriodSeconds, why } = stop;
  for (const container of running) {
    const { name, id } = container;
    if (inTurn.includes(container)) proposeStop(plan, container, stop);
    else if (isHookDue(container, stop))
      plan.propose({
        kind: "runPreStop",
        name,
        id,
        gracePeriodSeconds,
        why,
        ...(isForSandbox && { isForSandbox }),
      });
  }
  if (inTurn.length < running.length) plan.waitUntil(dueOf(grant));
}

/**
 * The grace that is left of what was granted when the ending was asked for: an agent that was restarted, or a runtime that
 * failed in between, does not grant it anew. A hook that has not been run yet always gets a moment, as with the kubelet.
 */
function graceLeft({ requestedAt, gracePeriodSeconds }: Termination, now: number): number {
  // A request in the future means that the clock was set back; nothing of the grace can be counted as used then.
  const usedSeconds = Math.max(0, Math.floor((now - requestedAt) / 1000));
  return Math.max(gracePeriodSeconds - usedSeconds, Math.min(gracePeriodSeconds, 1));
}

/** Whether a container has a hook that is to run before its stop; the agent that has run it may have died since, and then it runs again. */
function isHookDue({ name, id }: ObservedContainer, { pod, gracePeriodSeconds, preStopped }: Stop): boolean {
  const hook = pod && containerNamed(pod, name)?.lifecycle?.preStop;
  return hook !== undefined && gracePeriodSeconds > 0 && preStopped?.has(id) !== true;
}

/**
 * Those of the containers that run whose turn it is to be stopped. A sidecar is stopped when what it serves has ended: all app containers,
 * and the sidecars behind it. Init containers that run to their end, and those that were added to look into the pod, hold nobody up.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-with-sidecars
 */
function stoppedInTurn({ spec }: Pod, running: readonly ObservedContainer[]): readonly ObservedContainer[] {
  const runs = ({ name }: Container) => running.some((container) => container.name === name);
  const sidecars = sidecarsOf(spec);
  const next = spec.containers.some(runs) ? undefined : sidecars.findLast(runs);
  return running.filter(({ name }) => name === next?.name || !sidecars.some((sidecar) => sidecar.name === name));
}
