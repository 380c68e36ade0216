import type { SandboxId } from "../../../proto/ids.ts";
import { failureKeyOf } from "../pod/action.ts";
import type { PodMemory } from "../pod/memory.ts";
import { mayBeRunning, type ObservedPod } from "../pod/observed.ts";
import type { PlanBuilder } from "../pod/plan.ts";
import type { PodResource } from "../pod/resources.ts";
import { sandboxesToStop, type TerminationStage } from "../pod/stage.ts";
import { planStops } from "./stop.ts";

/**
 * Terminates a pod from any state, step by step, as drawn in stage.ts. Each step follows from what is observed, so
 * after the agent's death at any point its successor continues.
 */
export function planTermination(
  plan: PlanBuilder,
  stage: TerminationStage,
  observed: ObservedPod,
  memory: PodMemory,
  now: number,
): void {
  if (stage.kind !== "terminating") return;
  const { cause, remaining } = stage;
  const { why } = cause;
  switch (remaining) {
    case "containers": {
      const pod = cause.kind === "orphaned" ? undefined : cause.pod;
      const { preStopDone } = memory;
      planStops(plan, observed.containers.filter(mayBeRunning), cause, { pod, preStopDone }, now);
      return;
    }
    case "networks":
      for (const { id } of sandboxesToStop(cause, observed, memory)) plan.propose({ kind: "stopSandbox", id, why });
      return;
    case "sandboxes":
      planSandboxRemoval(plan, why, observed, memory);
      return;
    case "resources":
      for (const resource of stage.resources) plan.propose({ kind: "removeResource", resource, why });
      planLeastCpu(plan, stage.resources, observed, memory);
      return;
    case "stops":
      return;
  }
}

/** The weight of the least CPU shares that the kernel knows. */
const LEAST_CPU_WEIGHT = 1;

/**
 * A cgroup that waits for a volume which cannot be removed gets the least share of the CPU: a process may still use the
 * volume. Rule: the kubelet's ReduceCPULimits.
 */
function planLeastCpu(
  plan: PlanBuilder,
  resources: readonly PodResource[],
  { cgroup }: ObservedPod,
  { failures }: PodMemory,
): void {
  const cannotBeRemoved = (resource: PodResource) =>
    (resource.of === "volume" || resource.of === "subPaths") &&
    failures.has(failureKeyOf({ kind: "removeResource", resource, why: "" }));
  if (!resources.some(cannotBeRemoved) || cgroup?.cpuWeight === undefined || cgroup.cpuWeight === LEAST_CPU_WEIGHT)
    return;
  const limits = { cpuWeight: LEAST_CPU_WEIGHT };
  plan.propose({ kind: "writePodCgroup", limits, why: "it is removed after the pod's volumes" });
}

/**
 * Removing a sandbox removes its containers. A container whose sandbox is already gone, or whose sandbox could not be
 * removed (perhaps because of the container), is removed by an action of its own.
 */
function planSandboxRemoval(plan: PlanBuilder, why: string, observed: ObservedPod, memory: PodMemory): void {
  const sandboxes = new Set(observed.sandboxes.map(({ id }) => id));
  const hasFailed = (id: SandboxId) => memory.failures.has(failureKeyOf({ kind: "removeSandbox", id, why }));
  const orphanedContainers = observed.containers.filter(({ sandboxId: id }) => !sandboxes.has(id) || hasFailed(id));
  for (const { name, id } of orphanedContainers) plan.propose({ kind: "removeContainer", name, id, why });
  for (const id of sandboxes) plan.propose({ kind: "removeSandbox", id, why });
}
