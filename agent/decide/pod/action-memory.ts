import { type Action, failureKeyOf, recordOf } from "./action.ts";
import type { ActionResult, FailureRecord, PodMemory } from "./memory.ts";

/** The memory after an action was started. */
export function recordStarted(memory: PodMemory, action: Action, now: number): PodMemory {
  return recordOf(action).memoryWhenStarted?.(memory, action, now) ?? memory;
}

/** The memory after a queued action (a pull) has started to run. */
export function recordDequeued(memory: PodMemory, action: Action, now: number): PodMemory {
  return recordOf(action).memoryWhenDequeued?.(memory, action, now) ?? memory;
}

/**
 * Clears the record of an action in progress. An action that was cancelled counts neither as a success nor as a
 * failure.
 */
export function clearInProgress(memory: PodMemory, action: Action): PodMemory {
  return recordOf(action).memoryWhenEnded?.(memory, action) ?? memory;
}

/** How often in a row actions of this failure key have failed. */
export function failureCount({ failures }: PodMemory, action: Action): number {
  return failures.get(failureKeyOf(action))?.count ?? 0;
}

/**
 * The memory after an action has ended. `failedBefore`: the failures in a row before a success that had no effect;
 * counting continues from there.
 */
export function recordResult(
  memory: PodMemory,
  action: Action,
  result: ActionResult,
  now: number,
  failedBefore = 0,
): PodMemory {
  const record = recordOf(action);
  const failureKey = failureKeyOf(action);
  const ended = clearInProgress(memory, action);
  if (!result.ok) {
    const count = Math.max(failureCount(memory, action), failedBefore) + 1;
    const { ok: _, ...failureFields } = result;
    const failure: FailureRecord = { ...failureFields, at: now, count };
    return { ...ended, failures: ended.failures.set(failureKey, failure) };
  }
  const failures = record.failure(action).isKeptBySuccess ? ended.failures : ended.failures.delete(failureKey);
  const cleared = failures === ended.failures ? ended : { ...ended, failures };
  return record.memoryWhenSucceeded?.(cleared, action, result) ?? cleared;
}
