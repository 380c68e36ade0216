/** Planted faults that no suite has to find, by path and text without the line (`faultOf`), and why. */
export const judged: Readonly<Record<string, string>> = {
  "agent/observed/pods/termination-message.ts: `const LOG_END_BYTES = 32_768;` → `const LOG_END_BYTES = 32769;`":
    "one byte more of a log's end than is enough for any message",
  "agent/decide/stats/summary.ts: `startTime: formatTime(used.startedAtMs ?? 0),` → `startTime: formatTime(used.startedAtMs ?? 1),`":
    "the first and the second millisecond of 1970 are one second, and both mean an unknown time",
  "agent/decide/status/previous-status.ts: `if (time === undefined || time === null) return undefined;` → `if (time === undefined && time === null) return undefined;`":
    "the parser refuses what is no text, and a time that it refuses is unknown, too",
  "agent/decide/node/node-status.ts: `...(swapBytes > 0 ? { swap: { capacity: swapBytes } } : {}),` → `...(swapBytes > 1 ? { swap: { capacity: swapBytes } } : {}),`":
    "no machine has a single byte of swap",
  "agent/observed/probes/probe-runs.ts: `if (probe === undefined || series === undefined || next === undefined) return;` → `if (probe === undefined || series === undefined && next === undefined) return;`":
    "a schedule that has a next try has a series",
  "agent/observed/probes/probe-timer.ts: `if (backMs <= 0) return;` → `if (backMs <= 1) return;`":
    "a clock set back by one millisecond delays a probe by one",
  'agent/decide/pod/outcome.ts: `return newest?.state !== "exited" || (newest.finishedAt < at && !isUnknownExit(newest));` → `return newest?.state !== "exited" || (newest.finishedAt <= at && !isUnknownExit(newest));`':
    "an exit in the very millisecond of the deadline may count as either",
  "agent/decide/status/container-status.ts: `const isOfRemoved = removedAttempt !== undefined && removedAttempt + 1 === (newest?.attempt ?? removedAttempt + 1);` → `const isOfRemoved = removedAttempt !== undefined || removedAttempt + 1 === (newest?.attempt ?? removedAttempt + 1);`":
    "an instance after the next one of a removed container has an exited predecessor, which counts before",
  "agent/decide/container/missing-containers.ts: `finishedAt: 0,` → `finishedAt: 1,`":
    "the first and the second millisecond of 1970 are one second, and both mean an unknown time",
  "agent/decide/events/event-correlation.ts: `const AGGREGATE_INTERVAL_MS = 600_000;` → `const AGGREGATE_INTERVAL_MS = 600001;`":
    "one millisecond of ten minutes",
  "agent/decide/volumes/trust-anchors.ts: `.toSorted(([one], [other]) => (one < other ? -1 : 1))` → `.toSorted(([one], [other]) => (one < other ? -2 : 1))`":
    "every negative number sorts alike",
  "agent/observed/probes/probe-timer.ts: `if (dueAt !== undefined && dueAt < (prober.timer?.at ?? Number.POSITIVE_INFINITY)) setTimer(prober, dueAt);` → `if (dueAt !== undefined && dueAt <= (prober.timer?.at ?? Number.POSITIVE_INFINITY)) setTimer(prober, dueAt);`":
    "a timer for the moment of the present timer replaces it",
  "agent/observed/probes/prober.ts: `if (!isRelevant || prober.isStopped) return;` → `if (!isRelevant && prober.isStopped) return;`":
    "a pod without probes has nothing to update, and after the stop no timer is set",
  "agent/observed/volumes/volume-stats.ts: `const [blocks = 0, free = 0, available = 0, blockBytes = 0, inodes = 0, inodesFree = 0] = numbers;` → `const [blocks = 0, free = 0, available = 0, blockBytes = 1, inodes = 0, inodesFree = 0] = numbers;`":
    "fewer than six numbers are refused, so that no default is used",
};
