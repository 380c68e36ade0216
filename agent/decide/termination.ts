import type { SandboxId } from "../../proto/ids.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { subjectOf } from "./action.ts";
import { dueOf } from "./desired.ts";
import { openSandboxes, type PodMemory } from "./memory.ts";
import { mayRun, type ObservedPod } from "./observed.ts";
import type { PlanInProgress } from "./plan.ts";
import { proposeStop, stoppedInTurn } from "./stop.ts";

/** How a pod ends. */
export interface Ending {
  readonly requestedAt: number;
  readonly gracePeriodSeconds: number;
  readonly why: string;
  /** True when nobody wants to see the pod again; false keeps its dead containers for their logs and exit codes. */
  readonly removesAll: boolean;
  /** Undefined where nobody knows any more what the pod was: its sidecars and hooks are forgotten with it. */
  readonly pod: Pod | undefined;
}

/** `ended` when there is nothing left to do for the ending. */
export type EndingStage = "terminating" | "ended";

/**
 * Ends a pod from whatever state it is in, one step after the other:
 *
 *   containers may run ──► stop them, all at once, then sidecars one by one ──► sandboxes ready ──► stop them
 *                                                                          │
 *        ended ◄── remove the pod's files ◄── remove sandboxes and what is left ◄┤   (only if removesAll)
 *        ended ◄── release the pod's user ids ◄──────────────────────────────────┘   (if not)
 *
 * Each step is decided from what is observed, so the agent may die anywhere and the next one goes on.
 */
export function planEnding(
  plan: PlanInProgress,
  ending: Ending,
  observed: ObservedPod,
  memory: PodMemory,
  now: number,
): EndingStage {
  const { why, pod } = ending;
  const running = observed.containers.filter(mayRun);
  // When the grace is over nobody waits for anybody.
  const inTurn = pod === undefined || dueOf(ending) <= now ? running : stoppedInTurn(pod, running);
  for (const container of inTurn)
    proposeStop(plan, container, { pod, gracePeriodSeconds: graceLeft(ending, now), why });
  if (inTurn.length < running.length) plan.waitUntil(dueOf(ending));
  // A stop that is under way may still run its hook.
  if (running.length > 0 || memory.stopping.size > 0) return "terminating";

  const open = openSandboxes(observed, memory);
  const needStop = ending.removesAll ? open.filter(({ ready }) => ready) : open;
  for (const { id } of needStop) plan.propose({ kind: "stopSandbox", id, why });
  if (needStop.length > 0) return "terminating";
  if (!ending.removesAll && observed.hasIds) plan.propose({ kind: "releaseIds", why });
  if (!ending.removesAll) return observed.hasIds ? "terminating" : "ended";

  // Removing a sandbox removes the containers in it; those whose sandbox is gone already need a removal of their own, and so do
  // those that may be why their sandbox could not be removed.
  const sandboxes = new Set(observed.sandboxes.map(({ id }) => id));
  const hasFailed = (id: SandboxId) => memory.failures.has(subjectOf({ kind: "removeSandbox", id, why }));
  const strays = observed.containers.filter(({ sandboxId: id }) => !sandboxes.has(id) || hasFailed(id));
  for (const { name, id } of strays) plan.propose({ kind: "removeContainer", name, id, why });
  for (const id of sandboxes) plan.propose({ kind: "removeSandbox", id, why });
  if (strays.length > 0 || sandboxes.size > 0) return "terminating";

  if (observed.hasFiles) plan.propose({ kind: "removePodFiles", why });
  return observed.hasFiles ? "terminating" : "ended";
}

/**
 * The grace that is left of what was granted when the ending was asked for: an agent that was restarted, or a runtime that
 * failed in between, does not grant it anew. A hook that has not been run yet always gets a moment, as with the kubelet.
 */
function graceLeft({ requestedAt, gracePeriodSeconds }: Ending, now: number): number {
  // A request in the future means that the clock was set back; nothing of the grace can be counted as used then.
  const usedSeconds = Math.max(0, Math.floor((now - requestedAt) / 1000));
  return Math.max(gracePeriodSeconds - usedSeconds, Math.min(gracePeriodSeconds, 1));
}
