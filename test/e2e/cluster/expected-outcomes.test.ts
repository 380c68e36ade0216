import { expect, test } from "bun:test";
import type { Pod, PodPhase } from "../../../proto/kubernetes/gen/types.ts";
import { barePod } from "./api-objects.ts";
import { type Evidence, judge, podsWithoutPreStop, type Verdict } from "./expected-outcomes.ts";
import { readHookFailures } from "./hook-failures.ts";
import type { Kill } from "./kills.ts";
import type { Kind, RandomPod } from "./random-workload.ts";

const ready = (...types: readonly string[]) =>
  types.map((type) => ({ type, status: "True" as const, lastTransitionTime: "2026-01-01T00:00:00Z" }));
const runningPod = (restartCount: number, more: Partial<NonNullable<Pod["status"]>> = {}): Pod => ({
  metadata: { uid: "uid-p", creationTimestamp: "2026-01-01T00:00:00Z" },
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
  metadata: { uid: "uid-p", creationTimestamp: "2026-01-01T00:00:00Z" },
  spec: { containers: [] },
  status: {
    phase,
    containerStatuses: [
      {
        name: "main",
        state: { terminated: { exitCode, reason, finishedAt: "2026-01-01T00:00:20Z" } },
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
  outcome: string,
][] = [
  ["that ended as reported", "once", endedPod("Failed", 3), ["main began", "main ended 3"], none, "reached"],
  ["that could not start", "once", endedPod("Failed", 128), [], none, "never began"],
  ["that was interrupted", "once", endedPod("Failed", 137), ["main began"], none, "interrupted"],
  [
    "whose work ran twice",
    "once",
    endedPod("Succeeded", 0),
    ["main began", "main ended 0", "main began", "main ended 0"],
    none,
    "its work ran twice",
  ],
  [
    "whose work began twice",
    "once",
    endedPod("Succeeded", 0),
    ["main began", "main began", "main ended 0"],
    none,
    "no kill explains that it ran twice",
  ],
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
    "exit code lost",
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
  ["that runs", "stays", runningPod(0), ["main began"], ["p main"], "reached"],
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
    "no kill explains that it ran twice",
  ],
  [
    "that failed its liveness probe and was restarted",
    "liveness",
    runningPod(1),
    ["main began", "main began"],
    ["p main"],
    "reached",
  ],
  [
    "that failed its liveness probe and was not restarted",
    "liveness",
    runningPod(0),
    ["main began"],
    ["p main"],
    "it was not restarted",
  ],
  ["in its crash loop", "crashes", runningPod(2), ["main began", "main began"], ["p main"], "reached"],
  ["that is not restarted after a crash", "crashes", runningPod(0), ["main began"], none, "it is not in a crash loop"],
  ["that is gone", "stays", undefined, [], none, "it is gone"],
  ["that does not keep running", "stays", endedPod("Running", 0), [], none, "it does not run exactly once"],
  ["that was deleted", "deleted", undefined, [], none, "reached"],
  ["that was deleted and still runs", "forced", undefined, [], ["p main"], "it is still there"],
  ["whose manifest was removed", "removed", undefined, ["main began"], none, "reached"],
  ["whose mirror pod remains", "removed", runningPod(0), ["main began"], none, "it is still there"],
  ["from a manifest", "static", runningPod(0), ["main began"], ["p main"], "reached"],
  ["from a manifest that is not listed", "static", undefined, [], none, "it is gone"],
  [
    "from its changed manifest",
    "changed",
    runningPod(0),
    ["main began", "main began", "main changed"],
    ["p main"],
    "reached",
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
    "reached",
  ],
  ["interrupted before its deadline", "prestop", endedPod("Failed", 137), ["main began"], none, "interrupted"],
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
  ["with RestartAllContainers", "restartall", endedPod("Succeeded", 0, "Completed"), restartAllNotes, none, "reached"],
  [
    "interrupted after RestartAllContainers",
    "restartall",
    endedPod("Failed", 137),
    restartAllNotes.slice(0, -1),
    none,
    "interrupted",
  ],
  [
    "that could not start after RestartAllContainers",
    "restartall",
    endedPod("Failed", 128, "StartError"),
    restartAllNotes.slice(0, 5),
    none,
    "never began",
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
    "reached",
  ],
  [
    "whose ephemeral container could not start",
    "debugged",
    runningPod(0, withEphemeralContainer(128)),
    ["main began"],
    ["p main"],
    "never began",
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
    ["main began", "debug began", "debug ended 3", "debug began", "debug ended 3"],
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
/** A kill, by seconds since the creation of the pods. */
const kill = (what: Kill["what"], from: number, until: number): Kill => ({
  what,
  fromMs: Date.parse("2026-01-01T00:00:00Z") + from * 1000,
  untilMs: Date.parse("2026-01-01T00:00:00Z") + until * 1000,
});
const judged = (kind: Kind, evidence: Omit<Evidence, "runningInstances">, alive: readonly string[] = none) =>
  judge(
    { name: "p", kind, pod: barePod("p"), isStatic: false, change: undefined },
    { ...evidence, runningInstances: new Map(alive.map((of) => [of, 1])) },
  );
const summaryOf = (verdict: Verdict) => {
  if (verdict.outcome === "excused") return verdict.rule;
  return verdict.outcome === "reached" ? "reached" : verdict.sentence.split(";")[0]?.replace("p: ", "");
};

test("a random pod fails with its init container, and not with the container that did not exist yet", () => {
  const failed = endedPod("Failed", 137, "ContainerStatusUnknown");
  const terminated = { exitCode: 128, reason: "StartError", finishedAt: "2026-01-01T00:00:20Z" };
  const first = { name: "first", state: { terminated }, ready: false, restartCount: 1, image: "", imageID: "" };
  const pod = { ...failed, status: { ...failed.status, initContainerStatuses: [first] } };
  const kills = [kill("agent", 19.5, 20)];
  const call = { class: "start", name: "StartContainer", podUid: "uid-p", container: "first" } as const;
  const cancelled = { ...call, containerId: undefined, fromMs: kills[0]!.fromMs, untilMs: kills[0]!.untilMs };
  const interruptions = { kills, calls: { interrupted: [], failed: [cancelled] }, hookFailures: [] };
  const notes = restartAllNotes.slice(0, 5);
  expect(summaryOf(judged("restartall", { pod, notes, interruptions }))).toBe("never began");
});

for (const [life, kind, pod, notes, alive, outcome] of rows)
  test(`a random pod ${life}: ${outcome}`, () => {
    const kills = [kill("runtime", 19, 21)];
    const own = ["main", "debug"].map((container) => ({
      ...({ class: "start", name: "StartContainer", podUid: "uid-p", container, containerId: undefined } as const),
      ...{ fromMs: kills[0]?.fromMs ?? 0, untilMs: kills[0]?.untilMs ?? 0 },
    }));
    const interruptions = { kills, calls: { interrupted: own, failed: [] }, hookFailures: [] };
    expect(summaryOf(judged(kind, { pod, notes, interruptions }, alive))).toBe(outcome);
  });

test("a missing preStop hook is found unless it failed while the runtime was away", () => {
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
  const names = ["prestop", "failed", "failed-later", "left-out", "never-began"];
  const pods = [
    ...names.map((name) => podWithHook(name, "2026-01-01T00:00:12Z")),
    podWithHook("cut-short", "2026-01-01T00:00:11Z"),
  ];
  const notes = new Map(names.map((name) => [name, name === "never-began" ? [] : ["main began"]]));
  notes.set("prestop", ["main began", "main drained"]).set("cut-short", ["main began"]);
  const failures = readHookFailures(
    [
      "00:00:12.100 warn  the preStop hook has failed: the runtime is away  pod=default/failed uid=1",
      "00:00:19.000 warn  the preStop hook has failed: the runtime is away  pod=default/failed-later uid=2",
    ].join("\n"),
  );
  const missing = podsWithoutPreStop(pods, notes, failures, [kill("runtime", 12, 13)]);
  expect(missing).toEqual(["failed-later", "left-out"]);
});
