import { expect, test } from "bun:test";
import type { Pod, PodPhase } from "../../../proto/kubernetes/gen/types.ts";
import { type RandomLife, whatIsWrong } from "./lives-at-random.ts";
import { barePod } from "./objects.ts";

const ready = (...types: readonly string[]) =>
  types.map((type) => ({ type, status: "True" as const, lastTransitionTime: "2026-01-01T00:00:00Z" }));
const runs = (restartCount: number, more: Partial<NonNullable<Pod["status"]>> = {}): Pod => ({
  metadata: {},
  spec: { containers: [] },
  status: {
    phase: "Running",
    conditions: ready("Ready", "ContainersReady"),
    containerStatuses: [
      {
        name: "main",
        state: { running: {} },
        lastState: restartCount === 0 ? {} : { terminated: { exitCode: 1 } },
        ready: true,
        restartCount,
        image: "",
        imageID: "",
      },
    ],
    ...more,
  },
});
const ended = (phase: PodPhase, exitCode: number, reason = "Error"): Pod => ({
  metadata: {},
  spec: { containers: [] },
  status: {
    phase,
    containerStatuses: [
      {
        name: "main",
        state: { terminated: { exitCode, reason } },
        ready: false,
        restartCount: 0,
        image: "",
        imageID: "",
      },
    ],
  },
});
const nobody: readonly string[] = [];
const verdicts: readonly [
  life: string,
  kind: RandomLife["kind"],
  pod: Pod | undefined,
  notes: readonly string[],
  alive: readonly string[],
  wrong: string | undefined,
][] = [
  ["that ended as it is shown", "once", ended("Failed", 3), ["main began", "main ended 3"], nobody, undefined],
  ["that could not begin", "once", ended("Failed", 128), [], nobody, undefined],
  ["that was cut short", "once", ended("Failed", 137), ["main began"], nobody, undefined],
  [
    "that did its work twice",
    "once",
    ended("Failed", 3),
    ["main began", "main began"],
    nobody,
    "its work was done twice",
  ],
  [
    "shown with another code",
    "once",
    ended("Failed", 1),
    ["main began", "main ended 3"],
    nobody,
    "it should have ended with 3",
  ],
  ["of which the runtime forgot the end", "once", ended("Failed", 255, "Unknown"), ["main ended 0"], nobody, undefined],
  [
    "that succeeded and is shown as failed",
    "once",
    ended("Failed", 0),
    ["main ended 0"],
    nobody,
    "it should be Succeeded",
  ],
  ["that still runs", "served", ended("Failed", 3), ["main ended 3"], ["p side"], "it runs, and should have ended"],
  ["begun too early", "initialized", ended("Failed", 1), ["main began"], nobody, "it began before it was initialized"],
  ["that gave up", "tries", ended("Failed", 4), ["main ended 4"], nobody, "it has not come to its success"],
  ["that runs", "stays", runs(0), ["main began"], ["p main"], undefined],
  [
    "that runs, and is not called ready",
    "warms",
    runs(0, { conditions: ready("ContainersReady") }),
    ["main began"],
    ["p main"],
    "its conditions do not say that it is ready",
  ],
  ["whose restarts were not counted", "stays", runs(0), ["main began", "main began"], ["p main"], "it began 2 times"],
  ["that was found dead", "restarts", runs(1), ["main began", "main began"], ["p main"], undefined],
  ["that nobody has found dead", "restarts", runs(0), ["main began"], ["p main"], "it was not restarted"],
  ["in its loop", "crashes", runs(2), ["main began", "main began"], ["p main"], undefined],
  ["that is not begun again", "crashes", runs(0), ["main began"], nobody, "it is not in its loop"],
  ["that is gone", "stays", undefined, [], nobody, "it is gone"],
  ["that does not stay", "stays", ended("Running", 0), [], nobody, "it does not run once"],
  ["that was deleted", "deleted", undefined, [], nobody, undefined],
  ["that was deleted and runs", "forced", undefined, [], ["p main"], "it is still there"],
];
for (const [life, kind, pod, notes, alive, wrong] of verdicts)
  test(`a life ${life}: ${wrong ?? "all is well"}`, () => {
    const made = { name: "p", kind, pod: barePod("p"), deletedAtMs: undefined };
    const found = whatIsWrong(made, pod, notes, new Map(alive.map((of) => [of, 1])));
    expect(found?.split(";")[0]).toBe(wrong && `p: ${wrong}`);
  });
