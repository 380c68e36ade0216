import { expect, test } from "bun:test";
import type { Probe } from "../../../proto/kubernetes/gen/types.ts";
import {
  afterProbe,
  beginProbe,
  firstProbeAt,
  healthOfStates,
  isAsked,
  nextProbeAt,
  type ProbeKind,
  type ProbeOutcome,
} from "./probe.ts";

const words: Readonly<Record<string, ProbeOutcome["result"]>> = {
  "+": "success",
  "-": "failure",
  "!": "error",
  "~": "warning",
};

/** The verdict after each of the answers: `+` for success, `-` for failure, `!` for none, `~` for a warning; `.` when it is over. */
function verdicts(kind: ProbeKind, probe: Probe, answers: string): string {
  let state = beginProbe(kind, undefined);
  const after = [...answers].map((answer) => {
    state = afterProbe(kind, probe, state, { result: words[answer] ?? "error", message: "" });
    return `${state.verdict[0]}${state.isOver ? "." : ""}`;
  });
  return after.join(" ");
}

const rows: readonly [sentence: string, kind: ProbeKind, probe: Probe, answers: string, verdicts: string][] = [
  [
    "ready with the first success, unready with the third failure in a row",
    "readiness",
    {},
    "-+--+---+",
    "f s s s s s s f s",
  ],
  [
    "thresholds are counted in a row",
    "readiness",
    { successThreshold: 2, failureThreshold: 2 },
    "+-++-+--",
    "f f f s s s s f",
  ],
  ["what could not be asked breaks no row", "readiness", { failureThreshold: 2 }, "+-!-", "s s s f"],
  ["a warning is a success", "readiness", {}, "~", "s"],
  [
    "alive until the third failure in a row, and then never asked again",
    "liveness",
    {},
    "+--+---+",
    "s s s s s s f. f.",
  ],
  ["started with the first success, and then never asked again", "startup", {}, "--+-", "u u s. s."],
  [
    "not started after all its failures, and then never asked again",
    "startup",
    { failureThreshold: 2 },
    "--+",
    "u f. f.",
  ],
];
for (const [sentence, kind, probe, answers, expected] of rows)
  test(`${kind}: ${sentence}: ${answers}`, () => {
    expect(verdicts(kind, probe, answers)).toBe(expected);
  });

test("what the probes of a container together say", () => {
  const state = (kind: ProbeKind, answers: string) => {
    let now = beginProbe(kind, undefined);
    for (const answer of answers)
      now = afterProbe(kind, { failureThreshold: 1 }, now, { result: words[answer] ?? "error", message: "" });
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
    const { isStarted, isReady, failed = "-" } = healthOfStates(states);
    const asked = (["startup", "liveness", "readiness"] as const).filter((kind) => isAsked(kind, states)).join(", ");
    return `${JSON.stringify(answers)} → started ${isStarted}, ready ${isReady}, failed ${failed}; asks ${asked || "nothing"}`;
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

test("an instance that an agent before this one has told of stays what it was, until its probes say otherwise", () => {
  const told = { isStarted: true, isReady: true };
  expect(beginProbe("startup", told)).toMatchObject({ verdict: "success", isOver: true });
  expect(beginProbe("readiness", told)).toMatchObject({ verdict: "success", isOver: false });
  expect(beginProbe("readiness", { isStarted: true, isReady: false }).verdict).toBe("failure");
  expect(beginProbe("liveness", told).verdict).toBe("success");
});

const first: readonly [
  sentence: string,
  probe: Probe,
  scene: Partial<Parameters<typeof firstProbeAt>[1]>,
  at: number,
][] = [
  ["a container that has just started is asked at once", {}, {}, 100],
  ["or when its initial delay is over", { initialDelaySeconds: 5 }, {}, 5_000],
  ["which counts from its start", { initialDelaySeconds: 5 }, { now: 9_000 }, 9_000],
  [
    "a start that is still to come, since the clock was set back, is now",
    { initialDelaySeconds: 5 },
    { startedAt: 1e6 },
    100,
  ],
  [
    "an agent that finds it running asks within a period",
    { periodSeconds: 10 },
    { isFoundRunning: true, now: 60_000 },
    65_000,
  ],
];
for (const [sentence, probe, scene, at] of first)
  test(sentence, () => {
    expect(firstProbeAt(probe, { startedAt: 0, now: 100, isFoundRunning: false, lot: 0.5, ...scene })).toBe(at);
  });

const next: readonly [sentence: string, dueAt: number, now: number, at: number][] = [
  ["a quick answer keeps the beat", 1_000, 1_050, 11_000],
  ["a slow answer keeps it too", 1_000, 9_000, 11_000],
  ["beats that were missed are left out", 1_000, 35_000, 41_000],
  ["a clock that was set back does not silence it", 1_000_000, 1_000, 11_000],
  ["after the first one, at any moment, the beat is that of all others", 1_240, 1_245, 11_000],
  ["a slow answer to that one does not make the next one follow at once", 1_240, 11_100, 21_000],
];
for (const [sentence, dueAt, now, at] of next)
  test(sentence, () => {
    expect(nextProbeAt({}, dueAt, now)).toBe(at);
  });
