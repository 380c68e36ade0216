import type { ContainerId } from "../../../proto/ids.ts";
import { containerNamed, sidecarsOf } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { graceEndsAt, type Termination } from "../pod/desired.ts";
import type { ObservedContainer } from "../pod/observed.ts";
import type { PlanBuilder } from "../pod/plan.ts";

/** The minimum grace period that the kubelet passes to the runtime. */
export const MIN_STOP_GRACE_SECONDS = 2;

/** How to stop a container. */
interface StopOptions {
  /** Undefined for a pod without a source: its hooks are unknown. */
  readonly pod: Pod | undefined;
  readonly gracePeriodSeconds: number;
  readonly usedGraceSeconds?: number;
  readonly why: string;
  /** The message of the `Killing` event, where it is not the default one. */
  readonly eventMessage?: string | undefined;
  readonly isSandboxReplacement?: true;
  /** The containers whose `preStop` hook has already run. */
  readonly preStopDone?: ReadonlySet<ContainerId>;
}

/**
 * Plans to stop a container, its `preStop` hook first; with a grace period of zero the hook is skipped. Returns whether
 * the plan has it.
 * https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/
 */
export function planStop(plan: PlanBuilder, container: ObservedContainer, stop: StopOptions): boolean {
  const { name, id } = container;
  const { gracePeriodSeconds, usedGraceSeconds, why, eventMessage, isSandboxReplacement } = stop;
  return plan.propose({
    kind: "stopContainer",
    name,
    id,
    gracePeriodSeconds: Math.max(gracePeriodSeconds, MIN_STOP_GRACE_SECONDS),
    ...(mustRunPreStop(container, stop) && { preStop: true, ...(usedGraceSeconds && { usedGraceSeconds }) }),
    why,
    ...(eventMessage && { eventMessage }),
    ...(isSandboxReplacement && { isSandboxReplacement }),
  });
}

/**
 * Plans to stop the pod's running containers: all at once, except for the sidecars, which stop one by one. All hooks
 * start at once, as with the kubelet; hooks and waiting use the same grace period. When it is over, all containers are
 * stopped without waiting.
 */
export function planStops(
  plan: PlanBuilder,
  running: readonly ObservedContainer[],
  termination: Termination,
  options: Pick<StopOptions, "pod" | "isSandboxReplacement" | "preStopDone">,
  now: number,
): void {
  const { pod, isSandboxReplacement } = options;
  const stoppable = pod === undefined || graceEndsAt(termination) <= now ? running : stoppableContainers(pod, running);
  const stop: StopOptions = {
    ...options,
    gracePeriodSeconds: remainingGraceSeconds(termination, now),
    usedGraceSeconds: usedGraceSeconds(termination, now),
    why: termination.why,
  };
  const { gracePeriodSeconds, why } = stop;
  for (const container of running) {
    const { name, id } = container;
    if (stoppable.includes(container)) planStop(plan, container, stop);
    else if (mustRunPreStop(container, stop))
      plan.propose({
        kind: "runPreStop",
        name,
        id,
        gracePeriodSeconds,
        ...(stop.usedGraceSeconds && { usedGraceSeconds: stop.usedGraceSeconds }),
        why,
        ...(isSandboxReplacement && { isSandboxReplacement }),
      });
  }
  if (stoppable.length < running.length) plan.waitUntil(graceEndsAt(termination));
}

/**
 * The rest of the grace period that started when the termination was requested. A restart of the agent or a failure of
 * the runtime does not extend it. A hook that has not run yet always gets one second, as with the kubelet.
 */
function remainingGraceSeconds(termination: Termination, now: number): number {
  const { gracePeriodSeconds } = termination;
  return Math.max(gracePeriodSeconds - usedGraceSeconds(termination, now), Math.min(gracePeriodSeconds, 1));
}

/** A request in the future means that the clock was set back: then nothing of the grace period counts as used. */
function usedGraceSeconds({ requestedAt }: Termination, now: number): number {
  return Math.max(0, Math.floor((now - requestedAt) / 1000));
}

/**
 * Whether a `preStop` hook has to run before the stop. A hook that the end of an agent has interrupted runs again: the
 * runtime has killed its command.
 */
function mustRunPreStop(
  { name, id }: ObservedContainer,
  { pod, gracePeriodSeconds, preStopDone }: StopOptions,
): boolean {
  const hook = pod && containerNamed(pod, name)?.lifecycle?.preStop;
  return hook !== undefined && gracePeriodSeconds > 0 && preStopDone?.has(id) !== true;
}

/**
 * The running containers that may be stopped now. A sidecar is stopped when all app containers and the sidecars behind
 * it have ended. Run-to-completion init containers and ephemeral containers do not delay a sidecar.
 * https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination-with-sidecars
 */
function stoppableContainers({ spec }: Pod, running: readonly ObservedContainer[]): readonly ObservedContainer[] {
  const isRunning = ({ name }: Container) => running.some((container) => container.name === name);
  const sidecars = sidecarsOf(spec);
  const next = spec.containers.some(isRunning) ? undefined : sidecars.findLast(isRunning);
  return running.filter(({ name }) => name === next?.name || !sidecars.some((sidecar) => sidecar.name === name));
}
