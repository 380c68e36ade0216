import type { SandboxId } from "../../../proto/ids.ts";
import { subjectOf } from "./action.ts";
import type { PodMemory } from "./memory.ts";
import { mayRun, type ObservedPod } from "./observed.ts";
import type { PlanInProgress } from "./plan.ts";
import { type EndingStage, networksLeft } from "./stage.ts";
import { proposeStops } from "./stop.ts";

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
    case "containers": {
      const pod = ending.kind === "orphaned" ? undefined : ending.pod;
      const { preStopped } = memory;
      proposeStops(plan, observed.containers.filter(mayRun), ending, { pod, preStopped }, now);
      return;
    }
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
