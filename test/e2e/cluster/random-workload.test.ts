import { expect, test } from "bun:test";
import type { Pod, PodPhase } from "../../../proto/kubernetes/gen/types.ts";
import { randomOf } from "../../random.ts";
import { barePod } from "./api-objects.ts";
import { whatIsWrong, withoutTheirHook } from "./expected-outcomes.ts";
import { livesAtRandom, type RandomLife } from "./random-workload.ts";

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
const late = (pod: Pod): Pod => ({ ...pod, status: { ...pod.status, reason: "DeadlineExceeded" } });
const drained = ["main began", "main drained", "main ended 0"];
const renewed = [
  "first ended 0",
  "side began",
  "main began",
  "main ended 88",
  "first ended 0",
  "main began",
  "main ended 0",
];
const looked = (exitCode: number): Partial<NonNullable<Pod["status"]>> => ({
  ephemeralContainerStatuses: [
    { name: "look", state: { terminated: { exitCode } }, ready: false, restartCount: 0, image: "", imageID: "" },
  ],
});
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
  ["whose manifest is gone", "withdrawn", undefined, ["main began"], nobody, undefined],
  ["whose mirror stays", "withdrawn", runs(0), ["main began"], nobody, "it is still there"],
  ["of a manifest", "static", runs(0), ["main began"], ["p main"], undefined],
  ["of a manifest that is gone", "static", undefined, [], nobody, "it is gone"],
  ["of its new manifest", "rewritten", runs(0), ["main began", "main began", "main changed"], ["p main"], undefined],
  ["of its old manifest", "rewritten", runs(0), ["main began"], ["p main"], "it is not the one of the new manifest"],
  ["drained at its deadline", "drained", late(ended("Failed", 0, "Completed")), drained, nobody, undefined],
  ["cut short before its deadline", "drained", ended("Failed", 137), ["main began"], nobody, undefined],
  [
    "drained without a reason",
    "drained",
    ended("Failed", 0, "Completed"),
    drained,
    nobody,
    "it does not say why it ended",
  ],
  ["drained, and shown as done", "drained", late(ended("Succeeded", 0)), drained, nobody, "it should be Failed"],
  ["that began anew", "renewed", ended("Succeeded", 0, "Completed"), renewed, nobody, undefined],
  ["cut short after it began anew", "renewed", ended("Failed", 137), renewed.slice(0, -1), nobody, undefined],
  ["that could not begin anew", "renewed", ended("Failed", 128, "StartError"), renewed.slice(0, 5), nobody, undefined],
  ["that does not begin anew", "renewed", ended("Failed", 88), renewed.slice(0, 4), nobody, "it was not begun anew"],
  [
    "that began anew in the wrong order",
    "renewed",
    ended("Succeeded", 0),
    renewed.filter((_, at) => at !== 4),
    nobody,
    "it began before it was initialized",
  ],
  [
    "that began anew again",
    "renewed",
    ended("Succeeded", 0),
    [...renewed, ...renewed.slice(4)],
    nobody,
    "it began anew twice",
  ],
  ["looked into", "looked", runs(0, looked(3)), ["main began", "look began", "look ended 3"], ["p main"], undefined],
  ["into which nobody could look", "looked", runs(0, looked(128)), ["main began"], ["p main"], undefined],
  [
    "looked into with another code",
    "looked",
    runs(0, looked(0)),
    ["main began", "look began", "look ended 3"],
    ["p main"],
    "it should have ended with 3",
  ],
  ["looked into without a word of it", "looked", runs(0, looked(0)), ["main began"], ["p main"], "its end is nobody's"],
  [
    "looked into again",
    "looked",
    runs(0, looked(3)),
    ["main began", "look began", "look began"],
    ["p main"],
    "it was looked into twice",
  ],
  ["looked into for ever", "looked", runs(0), ["main began"], ["p main"], "who looks into it has not ended"],
];
for (const [life, kind, pod, notes, alive, wrong] of verdicts)
  test(`a life ${life}: ${wrong ?? "all is well"}`, () => {
    const made = { name: "p", kind, pod: barePod("p"), isStatic: false, later: undefined };
    const found = whatIsWrong(made, pod, notes, new Map(alive.map((of) => [of, 1])));
    expect(found?.split(";")[0]).toBe(wrong && `p: ${wrong}`);
  });

test("a hook that was left out is found, but where the agent has said that it failed", () => {
  const preStop = { exec: { command: ["true"] } };
  const startTime = "2026-01-01T00:00:00Z";
  const lifeOf = (name: string, finishedAt: string): Pod => ({
    metadata: { name },
    spec: { containers: [{ name: "main", lifecycle: { preStop } }], activeDeadlineSeconds: 12 },
    status: {
      ...late(ended("Failed", 137)).status,
      startTime,
      containerStatuses: [
        {
          ...{ name: "main", ready: false, restartCount: 0, image: "", imageID: "" },
          state: { terminated: { exitCode: 137, finishedAt } },
        },
      ],
    },
  });
  const names = ["drained", "failed", "left-out", "never-began"];
  const pods = [
    ...names.map((name) => lifeOf(name, "2026-01-01T00:00:12Z")),
    lifeOf("cut-short", "2026-01-01T00:00:11Z"),
  ];
  const notes = new Map(names.map((name) => [name, name === "never-began" ? [] : ["main began"]]));
  notes.set("drained", ["main began", "main drained"]).set("cut-short", ["main began"]);
  const log = "warn the preStop hook has failed: the runtime is away  pod=default/failed uid=1\n";
  expect(withoutTheirHook(pods, notes, log)).toEqual(["left-out"]);
});

test("lives follow from their seed, and whatever their number what is done to them does too", () => {
  const livesOf = (count: number, seed: number) => livesAtRandom(count, randomOf(seed), "/notes");
  expect(livesOf(40, 7)).toEqual(livesOf(40, 7));
  expect(livesOf(40, 7).slice(0, 20)).toEqual([...livesOf(20, 7)]);
  expect(livesOf(40, 8)).not.toEqual(livesOf(40, 7));
});
