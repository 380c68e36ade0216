// What pods show of hooks, stops and exit codes.
import { notObservable, type ReferenceRow } from "./reference-row.ts";

export const terminationsRows: readonly ReferenceRow[] = [
  [
    127,
    "hooks",
    {
      "post-start": "state.terminated.message = hook\n",
      "post-start-fails": "event Warning FailedPostStartHook",
      "post-start-without-command": "event Warning FailedPostStartHook",
      "pre-stop-by-http": notObservable,
      "pre-stop-sleeps": notObservable,
      "pre-stop-outlasts-its-grace": "event Warning FailedPreStopHook",
    },
  ],
  [
    128,
    "order of stops",
    {
      "sidecars-stop-last": "gone initContainerStatuses[two].state.terminated.message = main\ntwo\n",
      "sidecar-ignores-sigterm": "initContainerStatuses[side].state.terminated.exitCode = 137",
      "liveness-ends-it": "state.terminated.exitCode = 137",
      "pre-stop-outlasts-its-grace": "end of main = after its grace period",
    },
  ],
  [
    129,
    "exit codes and reasons",
    {
      "out-of-memory": "state.terminated.reason = OOMKilled",
      "exits-137": ["state.terminated.exitCode = 137", "state.terminated.reason = Error"],
      "kills-itself": "settled containerStatuses[main].state.terminated.exitCode = 1",
      "ends-by-signal": "settled containerStatuses[main].state.terminated.exitCode = 1",
    },
  ],
];
