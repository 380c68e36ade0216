/** Planted faults that no suite has to find, by their text, and why. */
export const judged: Readonly<Record<string, string>> = {
  "agent/observed/probes/probe-timer.ts:31: `if (backMs <= 0) return;` → `if (backMs <= 1) return;`":
    "a clock set back by one millisecond delays a probe by one",
  'agent/decide/pod/outcome.ts:68: `return newest?.state !== "exited" || (newest.finishedAt < at && !isUnknownExit(newest));` → `return newest?.state !== "exited" || (newest.finishedAt <= at && !isUnknownExit(newest));`':
    "an exit in the very millisecond of the deadline may count as either",
  "agent/decide/status/container-status.ts:274: `const isOfRemoved = removedAttempt !== undefined && removedAttempt + 1 === (newest?.attempt ?? removedAttempt + 1);` → `const isOfRemoved = removedAttempt !== undefined || removedAttempt + 1 === (newest?.attempt ?? removedAttempt + 1);`":
    "an instance after the next one of a removed container has an exited predecessor, which counts before",
};
