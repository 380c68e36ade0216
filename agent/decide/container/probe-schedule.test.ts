import { expect, test } from "bun:test";
import type { Probe } from "../../../proto/kubernetes/gen/types.ts";
import { initialProbeState, nextProbeState, type ProbeKind, type ProbeState } from "./probe.ts";
import { firstTry, nextTry, type ProbeSeriesInput, type ProbeTry, probeSeries } from "./probe-schedule.ts";

interface Course extends Partial<ProbeSeriesInput> {
  readonly kind?: ProbeKind;
  /** How long each try takes. */
  readonly lastsMs?: number;
  /** The probe succeeds from here on; never if undefined. */
  readonly succeedsFrom?: number;
  /** When the agent schedules the first try. */
  readonly agentStartsAt?: number;
  readonly state?: ProbeState;
}

/** The tries of a probe until `untilMs`, each at the time when it starts. Early failures do not change the state. */
function* triesOf(probe: Probe, untilMs: number, course: Course = {}): Generator<ProbeTry & { state: ProbeState }> {
  const { kind = "readiness", lastsMs = 0, succeedsFrom = Number.POSITIVE_INFINITY, agentStartsAt = 0 } = course;
  const input = { startedAt: 0, notBefore: undefined, now: agentStartsAt, earlyProbes: true, ...course };
  const series = probeSeries(kind, probe, input);
  let state = course.state ?? initialProbeState(kind, undefined);
  let next = firstTry(probe, series, state, agentStartsAt);
  while (next.at <= untilMs) {
    const now = next.at + lastsMs;
    const result = next.at >= succeedsFrom ? "success" : "failure";
    if (result === "success" || !next.isEarly) state = nextProbeState(kind, probe, state, { result, message: "" });
    yield { ...next, state };
    if (state.hasEnded) return;
    next = nextTry(probe, series, state, { triedAt: next.at, now });
  }
}

/** In seconds: the early tries, then behind the bar those that count. */
function formatTries(probe: Probe, untilSeconds: number, course?: Course): string {
  const tries = [...triesOf(probe, untilSeconds * 1000, course)];
  const seconds = (isEarly: boolean) => tries.filter((each) => each.isEarly === isEarly).map(({ at }) => at / 1000);
  return `${seconds(true)
    .map((second) => Number(second.toFixed(2)))
    .join(" ")} | ${seconds(false).join(" ")}`;
}

const tcp: Probe = { tcpSocket: { port: 80 } };
const exec: Probe = { exec: { command: ["true"] } };
const ready = initialProbeState("readiness", { isStarted: true, isReady: true });

const rows: readonly [sentence: string, probe: Probe, course: Course, tries: string][] = [
  [
    "early tries come ever more rarely until the first period is over; then one a period",
    tcp,
    {},
    "0.1 0.2 0.3 0.4 0.5 0.6 0.72 0.86 1.04 1.24 1.49 1.79 2.15 2.58 3.1 3.72 4.46 5.35 6.42 7.7 9.24 | 10 20",
  ],
  ["the distance of commands doubles", exec, {}, "0.1 0.2 0.4 0.8 1.6 3.2 6.4 | 10 20"],
  ["the startup probe has early tries, too", exec, { kind: "startup" }, "0.1 0.2 0.4 0.8 1.6 3.2 6.4 | 10 20"],
  ["liveness is never tried early", tcp, { kind: "liveness" }, " | 10 20"],
  [
    "the period counts from the end of the initial delay",
    { ...exec, initialDelaySeconds: 5, periodSeconds: 3 },
    {},
    "5.1 5.2 5.4 5.8 6.6 | 8 11 14 17 20 23",
  ],
  [
    "liveness counts from the end of the initial delay",
    { ...tcp, initialDelaySeconds: 5 },
    { kind: "liveness" },
    " | 15 25",
  ],
  ["no early try follows the first success", tcp, { succeedsFrom: 700 }, "0.1 0.2 0.3 0.4 0.5 0.6 0.72 | 10 20"],
  [
    "with a success threshold the further successes come on the grid",
    { ...tcp, successThreshold: 3 },
    { succeedsFrom: 0 },
    "0.1 | 10 20",
  ],
  [
    "readiness behind a startup probe is tried at its success, and counts from there",
    exec,
    { notBefore: 4_000, agentStartsAt: 4_000 },
    "4 4.1 4.2 4.4 4.8 5.6 7.2 10.4 | 14 24",
  ],
  [
    "the initial delay holds after the startup probe has succeeded, too",
    { ...exec, initialDelaySeconds: 6 },
    { notBefore: 4_000, agentStartsAt: 4_000 },
    "6.1 6.2 6.4 6.8 7.6 9.2 12.4 | 16",
  ],
  ["without early probes there is one try after the start", tcp, { earlyProbes: false }, "0.1 | 10 20"],
  ["a slow early try is followed by a pause", exec, { lastsMs: 1_000 }, "0.1 1.15 2.3 4.6 9.2 | 10.2 20"],
  [
    "an early try that lasts beyond the first period is followed by the try that counts",
    exec,
    { lastsMs: 5_000 },
    "0.1 5.15 | 10.15 20",
  ],
  [
    "a counted try that becomes due during another one follows at once",
    { ...tcp, failureThreshold: 9 },
    { kind: "liveness", lastsMs: 10_010 },
    " | 10 20.01",
  ],
  [
    "of several counted tries that become due during another one only one follows at once",
    { ...tcp, periodSeconds: 2, failureThreshold: 9 },
    { kind: "liveness", lastsMs: 5_000 },
    " | 2 7 12 17 22",
  ],
  [
    "counted tries move to the next step, except for the first one",
    tcp,
    { startedAt: 1_240, agentStartsAt: 1_300, kind: "liveness" },
    " | 11.24 21.25",
  ],
  ["another agent continues the early tries within the first period", exec, { agentStartsAt: 5_000 }, "5 | 10 20"],
  ["another agent continues the grid", tcp, { agentStartsAt: 17_000 }, " | 20"],
  ["another agent tries a ready container only on the grid", tcp, { agentStartsAt: 5_000, state: ready }, " | 10 20"],
  [
    "a start in the future means that the clock was set back, and counts as now",
    { ...tcp, initialDelaySeconds: 5 },
    { startedAt: 1e6, kind: "liveness" },
    " | 10 20",
  ],
];
for (const [sentence, probe, course, tries] of rows)
  test(sentence, () => {
    expect(formatTries(probe, 25, course)).toBe(tries);
  });

/** Every 7 ms from 0.2 to 8 s. */
const listeningTimes = Array.from({ length: 1115 }, (_, at) => 200 + 7 * at);
const waits: readonly [kind: string, probe: Probe, lastsMs: number, most: (listensAtMs: number) => number][] = [
  ["HTTP", { httpGet: { port: 80 } }, 5, (listensAt) => 200 + 0.2 * listensAt],
  ["TCP", tcp, 1, (listensAt) => 200 + 0.2 * listensAt],
  ["gRPC", { grpc: { port: 80 } }, 10, (listensAt) => 200 + 0.2 * listensAt],
  ["exec", exec, 150, (listensAt) => 300 + listensAt],
];
for (const [name, probe, lastsMs, most] of waits)
  test(`${name}: a server that listens after any time from 0.2 to 8 s is found soon, at any phase of the steps`, () => {
    const late = listeningTimes.flatMap((listensAt) => {
      const startedAt = (listensAt * 31) % 250;
      const course = { startedAt, agentStartsAt: startedAt + 20, lastsMs, succeedsFrom: startedAt + listensAt };
      const found = [...triesOf(probe, 60_000, course)].find(({ state }) => state.result === "success");
      const waitMs = (found?.at ?? Infinity) + lastsMs - startedAt - listensAt;
      return waitMs <= most(listensAt) ? [] : [`${listensAt} ms: found after ${waitMs} ms`];
    });
    expect(late).toEqual([]);
  });

test("with successThreshold 2 a container is ready one period after its start", () => {
  const probe = { ...tcp, successThreshold: 2 };
  const readyAfter = listeningTimes.map((listensAt) => {
    const startedAt = (listensAt * 31) % 250;
    const course = { startedAt, agentStartsAt: startedAt + 20, succeedsFrom: startedAt + listensAt };
    const tries = [...triesOf(probe, 60_000, course)];
    return (tries.find(({ state }) => state.result === "success")?.at ?? 0) - startedAt;
  });
  expect(new Set(readyAfter)).toEqual(new Set([10_000]));
});

test("a container has failureThreshold × periodSeconds after its start and initial delay before failures have an effect", () => {
  for (const kind of ["startup", "liveness"] as const)
    for (const failureThreshold of [1, 3, 30])
      for (const periodSeconds of [1, 5, 10])
        for (const initialDelaySeconds of [0, 1, 7])
          for (const lastsMs of [0, 90, 950, 1_000])
            for (const startedAt of [0, 1, 249, 250, 251, 1_240]) {
              const probe = { ...exec, failureThreshold, periodSeconds, initialDelaySeconds };
              const course = { kind, startedAt, agentStartsAt: startedAt + 20, lastsMs };
              const failed = [...triesOf(probe, 1e6, course)].find(({ state }) => state.result === "failure");
              const budgetMs = (initialDelaySeconds + failureThreshold * periodSeconds) * 1000;
              const inEffectAt = (failed?.at ?? 0) - startedAt;
              expect(inEffectAt).toBeGreaterThanOrEqual(budgetMs);
              // An early try that has not ended yet delays the first one that counts.
              expect(inEffectAt).toBeLessThan(budgetMs + 250 + (kind === "startup" ? lastsMs : 0));
            }
});
