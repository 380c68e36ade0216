import { type Action, laneOf, subjectOf } from "./action.ts";
import { type Failure, type PodMemory, pullAgainAt, pullNewsUntil, retryAt } from "./memory.ts";

/** Actions to take now, and when to look again if nothing happens before. */
export interface Plan {
  readonly actions: readonly Action[];
  readonly lookAgainAt: number | undefined;
  /** Why the last try of something that has to end has failed. */
  readonly obstacle: Obstacle | undefined;
}

/** What is in the way, in the words that users know. */
export interface Obstacle {
  readonly reason: string;
  readonly message: string;
}

/**
 * Collects a plan. It is the one place that knows that a failed subject has to wait: whoever proposes an action learns
 * whether it may be taken now, and the plan remembers when it may be tried again.
 */
export function createPlan(memory: PodMemory, now: number) {
  const actions: Action[] = [];
  let lookAgainAt: number | undefined;
  let obstacle: Obstacle | undefined;

  function waitUntil(at: number): void {
    lookAgainAt = Math.min(at, lookAgainAt ?? at);
  }

  /** Takes the action into the plan, unless it is under way; false, and a due time noted, when its last failure is too young. */
  function propose(action: Action): boolean {
    const failure = memory.failures.get(subjectOf(action));
    const lane = laneOf(action);
    if (failure !== undefined && !failure.isOutage && (lane === "end" || lane === "stop"))
      obstacle ??= { reason: failure.reason, message: failure.message };
    const isOfStop = action.kind === "runPreStop" || action.kind === "stopContainer";
    if (isOfStop && memory.stopping.has(action.id)) return true;
    if (failure !== undefined && mustWait(action, failure)) return false;
    // Two containers of one image are one pull.
    if (action.kind !== "pullImage" || !actions.some((a) => a.kind === "pullImage" && a.image === action.image))
      actions.push(action);
    return true;
  }

  function mustWait(action: Action, failure: Failure): boolean {
    const isPull = action.kind === "pullImage";
    const due = isPull ? pullAgainAt(failure, now) : retryAt(failure, now);
    if (due <= now) return false;
    const newsUntil = pullNewsUntil(failure, now);
    waitUntil(isPull && newsUntil > now ? newsUntil : due);
    return true;
  }

  return {
    propose,
    waitUntil,
    result: (): Plan => ({ actions, lookAgainAt, obstacle }),
  };
}

export type PlanInProgress = ReturnType<typeof createPlan>;
