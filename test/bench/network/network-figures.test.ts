import { expect, test } from "bun:test";
import type { FloorRound } from "../cluster/cluster-rounds.ts";
import type { Round } from "../measure-rounds.ts";
import { markdownTable } from "../table.ts";
import { networkFigures } from "./network-figures.ts";
import { callsIn, cpuMsInStat, type NetworkResult } from "./network-rounds.ts";

const round = (...each: readonly number[]): Round => ({ each, wall: Math.max(...each) });
const times = <T>(count: number, of: (at: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, at) => of(at));
const singles = (readyMs: number, goneMs: number): readonly FloorRound[] =>
  times(60, (at) => ({ start: round(readyMs + (at % 3)), removal: round(goneMs + (at % 3)) }));
const batches = (readyMs: number, startCpuMs: number) =>
  times(5, (at) => ({ ready: round(readyMs + at, 2 * readyMs), gone: round(4_000), startCpuMs: startCpuMs + at }));

const result: NetworkResult = {
  singles: {
    kubelet: singles(240, 900),
    chain: singles(200, 160),
    delegate: singles(203, 170),
    builtin: singles(170, 140),
  },
  floorSingles: singles(150, 120),
  builtinCalls: { ADD: times(60, () => 1.5), DEL: times(60, () => 4) },
  batches: { kubelet: batches(10_000, 2_000), builtin: batches(4_000, 1_000) },
  networkCpuMs: { chain: times(5, () => 60), builtin: times(5, (at) => 18 + at) },
  removals: { floor: times(5, () => round(4_000)), builtin: times(5, () => round(5_000)) },
};

test("the built-in network is judged beside the chain, the kubelet and the floor", () => {
  expect(markdownTable(networkFigures(result), "network").split("\n").slice(2)).toMatchInlineSnapshot(`
    [
      "| ADD of the built-in network in the agent |  |  |  | 2 ms |  | 60 | ≤ 2 ms | reached: 2 (2–2) ms |",
      "| DEL of the built-in network in the agent |  |  |  | 4 ms |  | 60 | ≤ 3 ms | missed: 4 (4–4) ms |",
      "| CPU for the network of one sandbox, ADD and DEL |  |  | 60 ms | 20 ms |  | 5 | ≤ 0.35 × the chain's | not decided: 0.33 (0.30–0.37) × |",
      "| one pod, created → Ready: the chain by the agent less the chain by the runtime |  |  |  | 3 ms |  | 60 | ≤ 5 ms | reached: 3 (3–3) ms |",
      "| one pod, created → Ready | 151 ms | 241 ms | 201 ms | 171 ms | 0.71 (0.71–0.71) × | 60 | ≤ 0.80 × the kubelet's | reached |",
      "| one pod, created → Ready, less than with the chain | 151 ms | 241 ms | 201 ms | 171 ms | 0.71 (0.71–0.71) × | 60 | ≤ chain − 25 ms | reached: -30 (-30–-30) ms |",
      "| one pod, deleted → gone | 121 ms | 901 ms | 161 ms | 141 ms | 0.16 (0.16–0.16) × | 60 | ≤ 0.20 × the kubelet's | reached |",
      "| one pod, deleted → gone, over the floor | 121 ms | 901 ms | 161 ms | 141 ms | 0.16 (0.16–0.16) × | 60 | ≤ floor + 60 ms | reached: 20 (20–20) ms |",
      "| 100 pods at once, created → Ready, wall |  | 20.00 s |  | 8.00 s | 0.40 (0.40–0.40) × | 5 | ≤ 0.80 × the kubelet's | reached |",
      "| 100 pods at once, created → Ready, p50 |  | 10.00 s |  | 4.00 s | 0.40 (0.40–0.40) × | 5 | ≤ 0.45 × the kubelet's | reached |",
      "| 100 pods at once, deleted → gone, p50 |  | 4.00 s |  | 4.00 s | 1.00 (1.00–1.00) × | 5 |  |  |",
      "| CPU of the agent for 100 starts |  | 2.00 s |  | 1.00 s | 0.50 (0.50–0.50) × | 5 | ≤ 0.70 × the kubelet's | reached |",
      "| 100 pods deleted at once with grace 0, deleted → sandbox removed, p50 | 4.00 s |  |  | 5.00 s |  | 5 | ≤ 1.15 × the floor | missed: 1.25 (1.25–1.25) × |",
    ]
  `);
});

test("the calls of one verb are read from the agent's log", () => {
  const line = (verb: string, ms: number) =>
    `18:54:23.012 debug network ${verb}  namespace=default pod=web sandbox=2c9c interface=eth0 durationMs=${ms} plugins="${verb} berth 1 ms"\n`;
  const log = `${line("ADD", 1.4)}${line("DEL", 2.5)}18:54:23.1 debug runtime call  verb=Status durationMs=9\n${line("ADD", 3)}`;
  expect([callsIn(log, "ADD"), callsIn(log, "DEL")]).toEqual([[1.4, 3], [2.5]]);
});

test("the CPU time of a process includes its children that have ended, whatever its name is", () => {
  const before = ["S", ...times(10, String)].join(" ");
  expect(cpuMsInStat(`41 (a b) c) ${before} 3 4 50 60 20 0 9`)).toBe(1170);
});
