import { createGrowingKeySet } from "../actions/key-map.ts";
import { type Action, type ActionKey, actionKeyOf, failureKeyOf, recordOf } from "./action.ts";
import { pullErrorShownUntil, retryTimeOf } from "./backoff.ts";
import type { FailureRecord, PodMemory } from "./memory.ts";

/** The actions to perform now, and when to decide again if nothing happens before. */
export interface Plan {
  readonly actions: readonly Action[];
  readonly lookAgainAt: number | undefined;
  /** The first failure of what the pod needs next: to start, to run on, or to end. */
  readonly blockedReason: BlockedReason | undefined;
}

/** The failure that blocks the start or the end of a pod, in Kubernetes' words. */
export interface BlockedReason {
  readonly reason: string;
  readonly message: string;
}

/**
 * Collects the actions of one decision. This is the one place that applies the retry back-off: a caller proposes
 * an action and learns whether it may be performed now; the plan records when it may be retried.
 */
export function createPlanBuilder(memory: PodMemory, now: number) {
  const actions: Action[] = [];
  const planned = createGrowingKeySet<ActionKey>();
  let lookAgainAt: number | undefined;
  let blockedReason: BlockedReason | undefined;

  function waitUntil(at: number): void {
    lookAgainAt = Math.min(at, lookAgainAt ?? at);
  }

  /** Plans the action unless it is in progress. Returns false, and records the retry time, while it is in back-off. */
  function propose(action: Action): boolean {
    const failure = memory.failures.get(failureKeyOf(action));
    const { isInProgress } = recordOf(action);
    if (failure !== undefined && !failure.isOutage)
      blockedReason ??= { reason: failure.reason, message: failure.message };
    if (isInProgress?.(memory, action)) return true;
    if (failure !== undefined && isInBackoff(action, failure)) return false;
    // Two containers with the same image share one pull.
    if (planned.add(actionKeyOf(action))) actions.push(action);
    return true;
  }

  function isInBackoff(action: Action, failure: FailureRecord): boolean {
    const { backoff } = recordOf(action).failure(action);
    const due = retryTimeOf(backoff, failure, now);
    if (due <= now) return false;
    const errorShownUntil = pullErrorShownUntil(failure, now);
    waitUntil(backoff === "pull" && errorShownUntil > now ? errorShownUntil : due);
    return true;
  }

  return {
    propose,
    waitUntil,
    result: (): Plan => ({ actions, lookAgainAt, blockedReason }),
  };
}

export type PlanBuilder = ReturnType<typeof createPlanBuilder>;
