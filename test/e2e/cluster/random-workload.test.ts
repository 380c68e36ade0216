import { expect, test } from "bun:test";
import type { Pod, PodPhase } from "../../../proto/kubernetes/gen/types.ts";
import { seededRandom } from "../../random.ts";
import { barePod } from "./api-objects.ts";
import { findDeviation, podsWithoutPreStop } from "./expected-outcomes.ts";
import { createRandomPods, type RandomPod } from "./random-workload.ts";

const ready = (...types: readonly string[]) =>
  types.map((type) => ({ type, status: "True" as const, lastTransitionTime: "2026-01-01T00:00:00Z" }));
const runningPod = (restartCount: number, more: Partial<NonNullable<Pod["status"]>> = {}): Pod => ({
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
const endedPod = (phase: PodPhase, exitCode: number, reason = "Error"): Pod => ({
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
const none: readonly string[] = [];
const withDeadlineExceeded = (pod: Pod): Pod => ({ ...pod, status: { ...pod.status, reason: "DeadlineExceeded" } });
const preStopNotes = ["main began", "main drained", "main ended 0"];
const restartAllNotes = [
  "first ended 0",
  "side began",
  "main began",
  "main ended 88",
  "first ended 0",
  "main began",
  "main ended 0",
];
const withEphemeralContainer = (exitCode: number): Partial<NonNullable<Pod["status"]>> => ({
  ephemeralContainerStatuses: [
    { name: "debug", state: { terminated: { exitCode } }, ready: false, restartCount: 0, image: "", imageID: "" },
  ],
});
const rows: readonly [
  life: string,
  kind: RandomPod["kind"],
  pod: Pod | undefined,
  notes: readonly string[],
  alive: readonly string[],
  wrong: string | undefined,
][] = [
  ["that ended as reported", "once", endedPod("Failed", 3), ["main began", "main ended 3"], none, undefined],
  ["that could not start", "once", endedPod("Failed", 128), [], none, undefined],
  ["that was interrupted", "once", endedPod("Failed", 137), ["main began"], none, undefined],
  ["whose work ran twice", "once", endedPod("Failed", 3), ["main began", "main began"], none, "its work ran twice"],
  [
    "reported with another exit code",
    "once",
    endedPod("Failed", 1),
    ["main began", "main ended 3"],
    none,
    "its exit code should be 3",
  ],
  [
    "whose exit code the runtime has lost",
    "once",
    endedPod("Failed", 255, "Unknown"),
    ["main ended 0"],
    none,
    undefined,
  ],
  [
    "that succeeded and is reported as failed",
    "once",
    endedPod("Failed", 0),
    ["main ended 0"],
    none,
    "its phase should be Succeeded",
  ],
  ["that still runs", "sidecar", endedPod("Failed", 3), ["main ended 3"], ["p side"], "it runs but should have ended"],
  [
    "that started too early",
    "initialized",
    endedPod("Failed", 1),
    ["main began"],
    none,
    "it started before its init containers had completed",
  ],
  [
    "that was not restarted after its failure",
    "retries",
    endedPod("Failed", 4),
    ["main ended 4"],
    none,
    "it has not succeeded",
  ],
  ["that runs", "stays", runningPod(0), ["main began"], ["p main"], undefined],
  [
    "that runs and is not reported as ready",
    "readiness",
    runningPod(0, { conditions: ready("ContainersReady") }),
    ["main began"],
    ["p main"],
    "its Ready conditions are not True",
  ],
  [
    "whose restarts were not counted",
    "stays",
    runningPod(0),
    ["main began", "main began"],
    ["p main"],
    "it started 2 times",
  ],
  [
    "that failed its liveness probe and was restarted",
    "liveness",
    runningPod(1),
    ["main began", "main began"],
    ["p main"],
    undefined,
  ],
  [
    "that failed its liveness probe and was not restarted",
    "liveness",
    runningPod(0),
    ["main began"],
    ["p main"],
    "it was not restarted",
  ],
  ["in its crash loop", "crashes", runningPod(2), ["main began", "main began"], ["p main"], undefined],
  ["that is not restarted after a crash", "crashes", runningPod(0), ["main began"], none, "it is not in a crash loop"],
  ["that is gone", "stays", undefined, [], none, "it is gone"],
  ["that does not keep running", "stays", endedPod("Running", 0), [], none, "it does not run exactly once"],
  ["that was deleted", "deleted", undefined, [], none, undefined],
  ["that was deleted and still runs", "forced", undefined, [], ["p main"], "it is still there"],
  ["whose manifest was removed", "removed", undefined, ["main began"], none, undefined],
  ["whose mirror pod remains", "removed", runningPod(0), ["main began"], none, "it is still there"],
  ["from a manifest", "static", runningPod(0), ["main began"], ["p main"], undefined],
  ["from a manifest that is not listed", "static", undefined, [], none, "it is gone"],
  [
    "from its changed manifest",
    "changed",
    runningPod(0),
    ["main began", "main began", "main changed"],
    ["p main"],
    undefined,
  ],
  [
    "from its old manifest",
    "changed",
    runningPod(0),
    ["main began"],
    ["p main"],
    "it does not run the changed manifest",
  ],
  [
    "with a preStop hook at its deadline",
    "prestop",
    withDeadlineExceeded(endedPod("Failed", 0, "Completed")),
    preStopNotes,
    none,
    undefined,
  ],
  ["interrupted before its deadline", "prestop", endedPod("Failed", 137), ["main began"], none, undefined],
  [
    "with a preStop hook and without the reason DeadlineExceeded",
    "prestop",
    endedPod("Failed", 0, "Completed"),
    preStopNotes,
    none,
    "its reason is not DeadlineExceeded",
  ],
  [
    "with a preStop hook at its deadline, reported as Succeeded",
    "prestop",
    withDeadlineExceeded(endedPod("Succeeded", 0)),
    preStopNotes,
    none,
    "its phase should be Failed",
  ],
  ["with RestartAllContainers", "restartall", endedPod("Succeeded", 0, "Completed"), restartAllNotes, none, undefined],
  [
    "interrupted after RestartAllContainers",
    "restartall",
    endedPod("Failed", 137),
    restartAllNotes.slice(0, -1),
    none,
    undefined,
  ],
  [
    "that could not start after RestartAllContainers",
    "restartall",
    endedPod("Failed", 128, "StartError"),
    restartAllNotes.slice(0, 5),
    none,
    undefined,
  ],
  [
    "that ignores RestartAllContainers",
    "restartall",
    endedPod("Failed", 88),
    restartAllNotes.slice(0, 4),
    none,
    "its containers were not restarted",
  ],
  [
    "with RestartAllContainers in the wrong order",
    "restartall",
    endedPod("Succeeded", 0),
    restartAllNotes.filter((_, at) => at !== 4),
    none,
    "it started before its init containers had completed",
  ],
  [
    "with RestartAllContainers twice",
    "restartall",
    endedPod("Succeeded", 0),
    [...restartAllNotes, ...restartAllNotes.slice(4)],
    none,
    "its containers were restarted twice",
  ],
  [
    "with an ephemeral container",
    "debugged",
    runningPod(0, withEphemeralContainer(3)),
    ["main began", "debug began", "debug ended 3"],
    ["p main"],
    undefined,
  ],
  [
    "whose ephemeral container could not start",
    "debugged",
    runningPod(0, withEphemeralContainer(128)),
    ["main began"],
    ["p main"],
    undefined,
  ],
  [
    "whose ephemeral container is reported with another exit code",
    "debugged",
    runningPod(0, withEphemeralContainer(0)),
    ["main began", "debug began", "debug ended 3"],
    ["p main"],
    "its exit code should be 3",
  ],
  [
    "whose ephemeral container is reported as completed without a note",
    "debugged",
    runningPod(0, withEphemeralContainer(0)),
    ["main began"],
    ["p main"],
    "it is reported with exit code 0 without a note",
  ],
  [
    "whose ephemeral container ran twice",
    "debugged",
    runningPod(0, withEphemeralContainer(3)),
    ["main began", "debug began", "debug began"],
    ["p main"],
    "its ephemeral container ran twice",
  ],
  [
    "whose ephemeral container does not end",
    "debugged",
    runningPod(0),
    ["main began"],
    ["p main"],
    "its ephemeral container has not ended",
  ],
];
for (const [life, kind, pod, notes, alive, wrong] of rows)
  test(`a random pod ${life}: ${wrong ?? "no deviation"}`, () => {
    const randomPod = { name: "p", kind, pod: barePod("p"), isStatic: false, change: undefined };
    const found = findDeviation(randomPod, pod, notes, new Map(alive.map((of) => [of, 1])));
    expect(found?.split(";")[0]).toBe(wrong && `p: ${wrong}`);
  });

test("a missing preStop hook is found unless the agent has logged that it failed", () => {
  const preStop = { exec: { command: ["true"] } };
  const startTime = "2026-01-01T00:00:00Z";
  const podWithHook = (name: string, finishedAt: string): Pod => ({
    metadata: { name },
    spec: { containers: [{ name: "main", lifecycle: { preStop } }], activeDeadlineSeconds: 12 },
    status: {
      ...withDeadlineExceeded(endedPod("Failed", 137)).status,
      startTime,
      containerStatuses: [
        {
          ...{ name: "main", ready: false, restartCount: 0, image: "", imageID: "" },
          state: { terminated: { exitCode: 137, finishedAt } },
        },
      ],
    },
  });
  const names = ["prestop", "failed", "left-out", "never-began"];
  const pods = [
    ...names.map((name) => podWithHook(name, "2026-01-01T00:00:12Z")),
    podWithHook("cut-short", "2026-01-01T00:00:11Z"),
  ];
  const notes = new Map(names.map((name) => [name, name === "never-began" ? [] : ["main began"]]));
  notes.set("prestop", ["main began", "main drained"]).set("cut-short", ["main began"]);
  const log = "warn the preStop hook has failed: the runtime is away  pod=default/failed uid=1\n";
  expect(podsWithoutPreStop(pods, notes, log)).toEqual(["left-out"]);
});

test("random pods and their later changes are reproducible by their seed, independent of the count", () => {
  const podsOf = (count: number, seed: number) => createRandomPods(count, seededRandom(seed), "/notes");
  expect(podsOf(40, 7)).toEqual(podsOf(40, 7));
  expect(podsOf(40, 7).slice(0, 20)).toEqual([...podsOf(20, 7)]);
  expect(podsOf(40, 8)).not.toEqual(podsOf(40, 7));
});
