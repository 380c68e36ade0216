import type { Completed, Removed, TerminationCause } from "../termination/termination-cause.ts";
import { type PodMemory, type PodOutcome, unstoppedSandboxes } from "./memory.ts";
import { mayBeRunning, type ObservedPod, type ObservedSandbox } from "./observed.ts";
import { type PodResource, resourcesToRemove } from "./resources.ts";

/**
 * The stage of a pod's life, each with the data that belongs to it:
 *
 *     syncing
 *        │  it is deleted, its manifest is gone or changed, no source has it,
 *        │  its containers are done, its deadline has passed, the node rejects or ends it
 *        ▼
 *   terminating   containers ──► stops ──► networks ──┬──► resources: volumes, ids ──► terminated
 *                                                     │                                  │  its source removes it
 *                                                     └──► sandboxes ──► resources: ◄────┘  (from its sandboxes on)
 *                                                                volumes, ids, directories
 *                                                                            │
 *                                                                            ▼
 *                                                                        finished
 *
 * `remaining` names what the termination has to clean up next; resources.ts has the order of the resources. A completed
 * pod keeps its exited containers, for their logs and exit codes, and releases the rest, as with the kubelet. A removed
 * pod keeps nothing; only then its API object may be deleted for good.
 *
 * The stage is not remembered: it follows from why the pod has to end and from what the node shows. The reason to end
 * is never withdrawn (a termination and a request of the node are checkpointed, an outcome is final) and removed things
 * do not come back, so there is no way back to syncing. A pod that is created again under the same uid waits until the
 * first one has finished.
 */
export type Stage =
  | { readonly kind: "syncing" }
  | {
      readonly kind: "terminating";
      readonly cause: TerminationCause;
      readonly remaining: "containers" | "stops" | "networks";
    }
  | { readonly kind: "terminating"; readonly cause: Removed; readonly remaining: "sandboxes" }
  | {
      readonly kind: "terminating";
      readonly cause: TerminationCause;
      readonly remaining: "resources";
      /** The resources to remove now. */
      readonly resources: readonly PodResource[];
    }
  | { readonly kind: "terminated"; readonly cause: Completed }
  | { readonly kind: "finished"; readonly cause: Removed };

export type TerminationStage = Exclude<Stage, { readonly kind: "syncing" }>;

/** The part of the stage that status reporting depends on. */
export type StageKind = Stage["kind"];

/** The stage of a pod, from the cause of its termination, if there is one, and from what is left of it on the node. */
export function stageOf(cause: TerminationCause | undefined, observed: ObservedPod, memory: PodMemory): Stage {
  return cause === undefined ? { kind: "syncing" } : terminationStageOf(cause, observed, memory);
}

/** The stage of a pod that has to end. */
export function terminationStageOf(
  cause: TerminationCause,
  observed: ObservedPod,
  memory: PodMemory,
): TerminationStage {
  if (observed.containers.some(mayBeRunning)) return { kind: "terminating", cause, remaining: "containers" };
  // A stop in progress may still be running the preStop hook, and a cancelled mount may still be made.
  if (memory.stopping.size + memory.mountingVolumes.size > 0) return { kind: "terminating", cause, remaining: "stops" };
  if (sandboxesToStop(cause, observed, memory).length > 0) return { kind: "terminating", cause, remaining: "networks" };
  const { sandboxes, containers } = observed;
  if (cause.kind !== "ended" && sandboxes.length + containers.length > 0)
    return { kind: "terminating", cause, remaining: "sandboxes" };
  const resources = resourcesToRemove(observed.resources, cause.kind === "ended");
  if (resources.length > 0) return { kind: "terminating", cause, remaining: "resources", resources };
  return cause.kind === "ended" ? { kind: "terminated", cause } : { kind: "finished", cause };
}

/** The sandboxes to stop. Removing a sandbox stops it too, so a removed pod stops only the ready ones. */
export function sandboxesToStop(
  { kind }: Pick<TerminationCause, "kind">,
  observed: ObservedPod,
  memory: PodMemory,
): readonly ObservedSandbox[] {
  const unstopped = unstoppedSandboxes(observed, memory);
  return kind === "ended" ? unstopped : unstopped.filter(({ ready }) => ready);
}

/** The outcome of a pod that has completed. */
export function outcomeOfStage(stage: Stage): PodOutcome | undefined {
  return stage.kind !== "syncing" && stage.cause.kind !== "orphaned" ? stage.cause.outcome : undefined;
}

/** Whether all containers have stopped for good: the status is final. */
export function haveContainersStopped(stage: Stage): boolean {
  return stage.kind !== "syncing" && !(stage.kind === "terminating" && stage.remaining === "containers");
}
