import { expect, test } from "bun:test";
import type { Probe } from "../../../proto/kubernetes/gen/types.ts";
import {
  firstProbeAt,
  healthOfStates,
  initialProbeState,
  isProbeActive,
  nextProbeAt,
  nextProbeState,
  type ProbeKind,
  type ProbeOutcome,
} from "./probe.ts";

const words: Readonly<Record<string, ProbeOutcome["result"]>> = {
  "+": "success",
  "-": "failure",
  "!": "error",
  "~": "warning",
};

/** The result after each run: `+` success, `-` failure, `!` error, `~` warning; `.` when the probe has ended. */
function results(kind: ProbeKind, probe: Probe, answers: string): string {
  let state = initialProbeState(kind, undefined);
  const after = [...answers].map((answer) => {
    state = nextProbeState(kind, probe, state, { result: words[answer] ?? "error", message: "" });
    return `${state.result[0]}${state.hasEnded ? "." : ""}`;
  });
  return after.join(" ");
}

const rows: readonly [sentence: string, kind: ProbeKind, probe: Probe, answers: string, results: string][] = [
  [
    "ready after the first success, unready after the third failure in a row",
    "readiness",
    {},
    "-+--+---+",
    "f s s s s s s f s",
  ],
  [
    "thresholds count results in a row",
    "readiness",
    { successThreshold: 2, failureThreshold: 2 },
    "+-++-+--",
    "f f f s s s s f",
  ],
  ["an error does not interrupt a row", "readiness", { failureThreshold: 2 }, "+-!-", "s s s f"],
  ["a warning is a success", "readiness", {}, "~", "s"],
  ["alive until the third failure in a row, then the probe ends", "liveness", {}, "+--+---+", "s s s s s s f. f."],
  ["started after the first success, then the probe ends", "startup", {}, "--+-", "u u s. s."],
  ["not started after all its failures, then the probe ends", "startup", { failureThreshold: 2 }, "--+", "u f. f."],
];
for (const [sentence, kind, probe, answers, expected] of rows)
  test(`${kind}: ${sentence}: ${answers}`, () => {
    expect(results(kind, probe, answers)).toBe(expected);
  });

test("the health of a container follows from all its probes", () => {
  const state = (kind: ProbeKind, answers: string) => {
    let now = initialProbeState(kind, undefined);
    for (const answer of answers)
      now = nextProbeState(kind, { failureThreshold: 1 }, now, { result: words[answer] ?? "error", message: "" });
    return now;
  };
  const table = [
    {},
    { startup: "" },
    { startup: "+" },
    { startup: "-" },
    { liveness: "" },
    { liveness: "-" },
    { readiness: "" },
    { readiness: "+" },
    { startup: "", readiness: "" },
    { startup: "+", readiness: "" },
    { startup: "+", readiness: "+", liveness: "+" },
    { startup: "+", liveness: "-", readiness: "+" },
  ].map((answers) => {
    const states = Object.fromEntries(
      Object.entries(answers).map(([kind, given]) => [kind, state(kind as ProbeKind, given)]),
    );
    const { isStarted, isReady, failedProbe = "-" } = healthOfStates(states);
    const asked = (["startup", "liveness", "readiness"] as const)
      .filter((kind) => isProbeActive(kind, states))
      .join(", ");
    return `${JSON.stringify(answers)} → started ${isStarted}, ready ${isReady}, failed ${failedProbe}; asks ${asked || "nothing"}`;
  });
  expect(`\n${table.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    {} → started true, ready true, failed -; asks nothing
    {"startup":""} → started false, ready false, failed -; asks startup
    {"startup":"+"} → started true, ready true, failed -; asks nothing
    {"startup":"-"} → started false, ready false, failed startup; asks nothing
    {"liveness":""} → started true, ready true, failed -; asks liveness
    {"liveness":"-"} → started true, ready true, failed liveness; asks nothing
    {"readiness":""} → started true, ready false, failed -; asks readiness
    {"readiness":"+"} → started true, ready true, failed -; asks readiness
    {"startup":"","readiness":""} → started false, ready false, failed -; asks startup
    {"startup":"+","readiness":""} → started true, ready false, failed -; asks readiness
    {"startup":"+","readiness":"+","liveness":"+"} → started true, ready true, failed -; asks liveness, readiness
    {"startup":"+","liveness":"-","readiness":"+"} → started true, ready true, failed liveness; asks readiness
    "
  `);
});

test("an instance that an earlier agent has reported keeps its health until its probes say otherwise", () => {
  const reported = { isStarted: true, isReady: true };
  expect(initialProbeState("startup", reported)).toMatchObject({ result: "success", hasEnded: true });
  expect(initialProbeState("readiness", reported)).toMatchObject({ result: "success", hasEnded: false });
  expect(initialProbeState("readiness", { isStarted: true, isReady: false }).result).toBe("failure");
  expect(initialProbeState("liveness", reported).result).toBe("success");
});

const first: readonly [
  sentence: string,
  probe: Probe,
  fixture: Partial<Parameters<typeof firstProbeAt>[1]>,
  at: number,
][] = [
  ["a container that has just started is probed at once", {}, {}, 100],
  ["the first probe waits for the initial delay", { initialDelaySeconds: 5 }, {}, 5_000],
  ["the initial delay counts from the container's start", { initialDelaySeconds: 5 }, { now: 9_000 }, 9_000],
  [
    "a start in the future means that the clock was set back, and counts as now",
    { initialDelaySeconds: 5 },
    { startedAt: 1e6 },
    100,
  ],
  [
    "a container that was running before the agent is probed within one period",
    { periodSeconds: 10 },
    { wasProbedBefore: true, now: 60_000 },
    65_000,
  ],
];
for (const [sentence, probe, input, at] of first)
  test(sentence, () => {
    expect(firstProbeAt(probe, { startedAt: 0, now: 100, wasProbedBefore: false, random: 0.5, ...input })).toBe(at);
  });

const next: readonly [sentence: string, dueAt: number, now: number, at: number][] = [
  ["a quick probe keeps the rhythm", 1_000, 1_050, 11_000],
  ["a slow probe keeps the rhythm", 1_000, 9_000, 11_000],
  ["missed runs are skipped", 1_000, 35_000, 41_000],
  ["a clock that was set back does not stop the probe", 1_000_000, 1_000, 11_000],
  ["after a first run at any moment the rhythm aligns with the steps", 1_240, 1_245, 11_000],
  ["a slow first run is not followed by the next one at once", 1_240, 11_100, 21_000],
];
for (const [sentence, dueAt, now, at] of next)
  test(sentence, () => {
    expect(nextProbeAt({}, dueAt, now)).toBe(at);
  });
