import { expect, test } from "bun:test";
import type { Probe } from "../../../proto/kubernetes/gen/types.ts";
import {
  healthOfStates,
  initialProbeState,
  isProbeActive,
  nextProbeState,
  type ProbeKind,
  type ProbeOutcome,
  withEarlierHealth,
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

test("an instance that an earlier agent has probed keeps its health until a result counts", () => {
  const ready = { isStarted: true, isReady: true };
  expect(initialProbeState("startup", ready)).toMatchObject({ result: "success", hasEnded: true });
  expect(initialProbeState("readiness", ready)).toMatchObject({ result: "success", hasEnded: false });
  expect(initialProbeState("readiness", { isStarted: true, isReady: false }).result).toBe("failure");
  expect(initialProbeState("liveness", ready).result).toBe("success");
});

test("what an earlier agent has found may become known after the first results, and applies until one counts", () => {
  const answers = ["", "-", "--", "---", "+", "+--", "---+"];
  const rows = answers.map((given) => {
    let state = initialProbeState("readiness", undefined);
    for (const answer of given)
      state = nextProbeState("readiness", {}, state, { result: words[answer] ?? "error", message: "" });
    const known = withEarlierHealth("readiness", state, { isStarted: true, isReady: true });
    const after = nextProbeState("readiness", {}, known, { result: "failure", message: "" });
    return `${given}: ${state.result}, then ${known.result}; ${after.result} after one more failure`;
  });
  expect(`\n${rows.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    : failure, then success; success after one more failure
    -: failure, then success; success after one more failure
    --: failure, then success; failure after one more failure
    ---: failure, then failure; failure after one more failure
    +: success, then success; success after one more failure
    +--: success, then success; failure after one more failure
    ---+: success, then success; success after one more failure
    "
  `);
  const unstarted = initialProbeState("startup", undefined);
  expect(withEarlierHealth("startup", unstarted, { isStarted: true, isReady: false }).hasEnded).toBe(true);
});
