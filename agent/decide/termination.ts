import type { SandboxId } from "../../proto/ids.ts";
import { subjectOf } from "./action.ts";
import { dueOf, type Termination } from "./desired.ts";
import type { PodMemory } from "./memory.ts";
import { mayRun, type ObservedPod } from "./observed.ts";
import type { PlanInProgress } from "./plan.ts";
import { type Ending, type EndingStage, networksLeft } from "./stage.ts";
import { proposeStops, stoppedInTurn } from "./stop.ts";

/**
 * Ends a pod from whatever state it is in, one step after the other, as drawn in stage.ts. Each step is decided from what is observed, so the
 * agent may die anywhere and the next one goes on.
 */
export function planEnding(
  plan: PlanInProgress,
  stage: EndingStage,
  observed: ObservedPod,
  memory: PodMemory,
  now: number,
): void {
  if (stage.kind !== "terminating") return;
  const { ending, left } = stage;
  const { why } = ending;
  switch (left) {
    case "containers":
      stopContainers(plan, ending, observed, memory, now);
      return;
    case "networks":
      for (const { id } of networksLeft(ending, observed, memory)) plan.propose({ kind: "stopSandbox", id, why });
      return;
    case "volumes":
      plan.propose({ kind: "removeVolumes", why });
      return;
    case "ids":
      plan.propose({ kind: "releaseIds", why });
      return;
    case "sandboxes":
      removeSandboxes(plan, why, observed, memory);
      return;
    case "files":
      plan.propose({ kind: "removePodFiles", why });
      return;
    case "stops":
      return;
  }
}

/** All at once, and then the sidecars one by one. */
function stopContainers(
  plan: PlanInProgress,
  ending: Ending,
  observed: ObservedPod,
  { preStopped }: PodMemory,
  now: number,
): void {
  const pod = ending.kind === "orphaned" ? undefined : ending.pod;
  const running = observed.containers.filter(mayRun);
  // When the grace is over nobody waits for anybody.
  const inTurn = pod === undefined || dueOf(ending) <= now ? running : stoppedInTurn(pod, running);
  proposeStops(plan, running, inTurn, { pod, gracePeriodSeconds: graceLeft(ending, now), why: ending.why, preStopped });
  if (inTurn.length < running.length) plan.waitUntil(dueOf(ending));
}

/**
 * Removing a sandbox removes the containers in it; those whose sandbox is gone already need a removal of their own, and so do those that may
 * be why their sandbox could not be removed.
 */
function removeSandboxes(plan: PlanInProgress, why: string, observed: ObservedPod, memory: PodMemory): void {
  const sandboxes = new Set(observed.sandboxes.map(({ id }) => id));
  const hasFailed = (id: SandboxId) => memory.failures.has(subjectOf({ kind: "removeSandbox", id, why }));
  const strays = observed.containers.filter(({ sandboxId: id }) => !sandboxes.has(id) || hasFailed(id));
  for (const { name, id } of strays) plan.propose({ kind: "removeContainer", name, id, why });
  for (const id of sandboxes) plan.propose({ kind: "removeSandbox", id, why });
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
