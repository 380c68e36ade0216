import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type DesiredNow, dueOf, gracePeriodOf, type Termination } from "./desired.ts";
import { type Outcome, openSandboxes, type PodMemory } from "./memory.ts";
import { mayRun, type ObservedPod, type ObservedSandbox } from "./observed.ts";

/**
 * Where a pod is in its life, with what belongs to that and nothing else:
 *
 *     syncing
 *        │  it is deleted, its manifest is gone or another one, no source asks for it,
 *        │  its containers are done, its deadline has passed, the node does not take it
 *        ▼
 *   terminating   containers ──► stops ──► networks ──┬──► volumes ──► ids ──► terminated
 *                                                     │                            │  it is taken away
 *                                                     └──► sandboxes ──► files ◄───┘  (from its sandboxes on)
 *                                                                          │
 *                                                                          ▼
 *                                                                      finished
 *
 * `left` is what has to go next of a pod that ends. One that has ended by itself keeps its dead containers, for their logs and their exit
 * codes, and what nobody can read any more goes, as with the kubelet; one that nobody wants any more keeps nothing. Only then it may be
 * deleted for good in the API.
 *
 * Nothing of this is remembered: it follows from why the pod has to end and from what the node shows of it. What makes it end is never
 * withdrawn (a termination is recorded, an outcome is for good), and what has gone does not come back, so there is no way back to syncing. A
 * pod that is asked for again under the same uid waits for the end of this life, and then begins another one.
 */
export type Stage =
  | { readonly kind: "syncing" }
  | { readonly kind: "terminating"; readonly ending: Ending; readonly left: "containers" | "stops" | "networks" }
  | { readonly kind: "terminating"; readonly ending: EndedByItself; readonly left: "volumes" | "ids" }
  | { readonly kind: "terminating"; readonly ending: TakenAway; readonly left: "sandboxes" | "files" }
  | { readonly kind: "terminated"; readonly ending: EndedByItself }
  | { readonly kind: "finished"; readonly ending: TakenAway };

export type EndingStage = Exclude<Stage, { readonly kind: "syncing" }>;

/** All that whoever tells of a pod needs to know. */
export type StageKind = Stage["kind"];

/** Why and how a pod ends. */
export type Ending = EndedByItself | TakenAway;

type EndedByItself = Termination & { readonly kind: "ended"; readonly pod: Pod; readonly outcome: Outcome };

type TakenAway =
  /** It may have come to an end of its own before. */
  | (Termination & { readonly kind: "removed"; readonly pod: Pod; readonly outcome: Outcome | undefined })
  /** Nobody knows any more what it was: its sidecars and hooks are forgotten with it. */
  | (Termination & { readonly kind: "orphaned" });

/** The stage of a pod: from what makes it end, if anything does, and what of it is left. */
export function stageOf(ending: Ending | undefined, observed: ObservedPod, memory: PodMemory): Stage {
  return ending === undefined ? { kind: "syncing" } : stageOfEnding(ending, observed, memory);
}

/** The stage of a pod that has to end. */
export function stageOfEnding(ending: Ending, observed: ObservedPod, memory: PodMemory): EndingStage {
  if (observed.containers.some(mayRun)) return { kind: "terminating", ending, left: "containers" };
  // A stop that is under way may still run its hook.
  if (memory.stopping.size > 0) return { kind: "terminating", ending, left: "stops" };
  if (networksLeft(ending, observed, memory).length > 0) return { kind: "terminating", ending, left: "networks" };
  const { sandboxes, containers, hasFiles, hasVolumes, hasIds } = observed;
  if (ending.kind === "ended") {
    if (hasVolumes) return { kind: "terminating", ending, left: "volumes" };
    return hasIds ? { kind: "terminating", ending, left: "ids" } : { kind: "terminated", ending };
  }
  if (sandboxes.length + containers.length > 0) return { kind: "terminating", ending, left: "sandboxes" };
  return hasFiles ? { kind: "terminating", ending, left: "files" } : { kind: "finished", ending };
}

/** The sandboxes that are to be stopped; removing one stops it too, and only one that is ready has others who would notice. */
export function networksLeft(
  { kind }: Pick<Ending, "kind">,
  observed: ObservedPod,
  memory: PodMemory,
): readonly ObservedSandbox[] {
  const open = openSandboxes(observed, memory);
  return kind === "ended" ? open : open.filter(({ ready }) => ready);
}

/**
 * How the pod has to end, if it has to. It may end by itself and then be taken away too: it never gets more grace by that than
 * the earlier of both grants.
 */
export function endingOf({ pod, termination }: DesiredNow, outcome: Outcome | undefined): Ending | undefined {
  const byItself: EndedByItself | undefined = outcome && {
    kind: "ended",
    requestedAt: outcome.at,
    gracePeriodSeconds: gracePeriodOf(pod),
    why: outcome.message ?? outcome.why ?? "all its containers are done",
    pod,
    outcome,
  };
  if (termination === undefined) return byItself;
  const isLater = byItself !== undefined && dueOf(byItself) < dueOf(termination);
  return { ...(isLater ? byItself : termination), kind: "removed", why: termination.why, pod, outcome };
}

/** A pod that nobody asks for ends with the kubelet's grace of one second. */
export function orphanEnding(orphanedAt: number): Ending {
  return { kind: "orphaned", requestedAt: orphanedAt, gracePeriodSeconds: 1, why: "no source asks for this pod" };
}

/** How the pod has come to an end of its own, if it has. */
export function outcomeIn(stage: Stage): Outcome | undefined {
  return stage.kind !== "syncing" && stage.ending.kind !== "orphaned" ? stage.ending.outcome : undefined;
}

/** Whether nothing of the pod runs any more, for good: what is said of it now is the last word. */
export function isFinal(stage: Stage): boolean {
  return stage.kind !== "syncing" && !(stage.kind === "terminating" && stage.left === "containers");
}
