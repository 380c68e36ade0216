import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import type { DesiredNow } from "./desired.ts";
import type { Outcome } from "./memory.ts";
import { mayRun, newestOf, type ObservedPod } from "./observed.ts";
import { shouldRestart } from "./restart.ts";
import { sandboxNeed } from "./sandbox.ts";
import { unsupportedFeatures } from "./support.ts";

/** Whether the pod has come to its end by itself, and how. Undefined while it still has something to do. */
export function outcomeOf({ pod, acceptedAt }: DesiredNow, observed: ObservedPod, now: number): Outcome | undefined {
  const features = unsupportedFeatures(pod);
  if (features.length > 0)
    return {
      phase: "Failed",
      reason: "PodFeatureUnsupported",
      message: `Pod was rejected: Pod requires node features that are not available: ${features.join(", ")}`,
      at: now,
    };
  const deadline = deadlineOf(pod, acceptedAt);
  if (deadline !== undefined && deadline <= now)
    return {
      phase: "Failed",
      reason: "DeadlineExceeded",
      message: "Pod was active on the node longer than the specified deadline",
      at: now,
    };
  return outcomeOfContainers(pod, observed, now);
}

/** When `activeDeadlineSeconds` ends the pod, counted from `status.startTime`; epoch milliseconds. */
export function deadlineOf({ spec }: Pod, acceptedAt: number): number | undefined {
  return spec.activeDeadlineSeconds === undefined ? undefined : acceptedAt + spec.activeDeadlineSeconds * 1000;
}

function outcomeOfContainers(pod: Pod, observed: ObservedPod, now: number): Outcome | undefined {
  const newest = pod.spec.containers.map(({ name }) => newestOf(observed, name));
  const exits = newest.filter((container) => container?.state === "exited");
  const areAllDone = exits.length === newest.length && !exits.some((exit) => shouldRestart(pod, exit));
  if (!areAllDone && !isBeyondRepair(pod, observed)) return undefined;
  const haveAllSucceeded = areAllDone && exits.every(({ exitCode }) => exitCode === 0);
  return { phase: haveAllSucceeded ? "Succeeded" : "Failed", at: now };
}

/** A pod that must not restart does not get a second sandbox once one of its containers has run in the first. */
function isBeyondRepair(pod: Pod, observed: ObservedPod): boolean {
  if (pod.spec.restartPolicy !== "Never" || observed.containers.length === 0) return false;
  return sandboxNeed(pod, observed).kind === "create" && !observed.containers.some(mayRun);
}
