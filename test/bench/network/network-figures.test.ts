import { expect, test } from "bun:test";
import type { FloorRound } from "../cluster/cluster-rounds.ts";
import type { Periods } from "../idle-windows.ts";
import type { Round } from "../measure-rounds.ts";
import { markdownTable } from "../table.ts";
import { networkFigures } from "./network-figures.ts";
import type { IdleWindow } from "./network-idle.ts";
import type { NetworkResult } from "./network-rounds.ts";

const round = (...each: readonly number[]): Round => ({ each, wall: Math.max(...each) });
const times = <T>(count: number, of: (at: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, at) => of(at));
const singles = (readyMs: number, goneMs: number): readonly FloorRound[] =>
  times(60, (at) => ({ start: round(readyMs + (at % 3)), removal: round(goneMs + (at % 3)) }));
const batches = (readyMs: number, startCpuMs: number) =>
  times(5, (at) => ({ ready: round(readyMs + at, 2 * readyMs), gone: round(4_000), startCpuMs: startCpuMs + at }));

const callTimes = (runSandbox: number) =>
  times(60, () => ({ runSandbox, stopSandbox: 50, ADD: 1.5, DEL: 4, pluginADD: 1, pluginDEL: 3 }));
const idle = (wakeUps: number, diskBytes: number): Periods<IdleWindow> => ({
  ofStarts: times(5, () => ({ lastedMs: 6_000, cpuMs: 6, wakeUps, diskBytes, startedProcesses: 0 })),
});
const cpu = (runtimeChildren: number) => times(5, () => ({ agent: 5, agentChildren: 0, runtime: 10, runtimeChildren }));
const idleNodes = { kubelet: idle(900, 4096), chain: idle(20, 0), builtin: idle(21, 0) };

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
  networkCpuParts: { chain: cpu(45), builtin: cpu(5) },
  hostFloorSingles: singles(120, 90),
  calls: { kubelet: callTimes(80), chain: callTimes(80), delegate: callTimes(84), builtin: callTimes(50) },
  removals: { floor: times(5, () => round(4_000)), builtin: times(5, () => round(5_000)) },
  idleEmpty: idleNodes,
  idleWithPods: { ...idleNodes, builtin: idle(21, 8) },
};

test("the built-in network is judged beside the chain, the kubelet and the floor", () => {
  expect(markdownTable(networkFigures(result), "network").split("\n").slice(2)).toMatchInlineSnapshot(`
    [
      "| ADD of the built-in network in the agent |  |  |  | 2 ms |  | 60 | ≤ 2 ms | reached: 2 (2–2) ms |",
      "| DEL of the built-in network in the agent |  |  |  | 4 ms |  | 60 | ≤ 3 ms | missed: 4 (4–4) ms |",
      "| CPU of agent, runtime and their children for the network of one sandbox, ADD and DEL |  |  | 60 ms | 20 ms |  | 5 | ≤ 0.35 × the chain's | not decided: 0.33 (0.30–0.37) × |",
      "| of that: the agent |  |  | 5 ms | 5 ms |  | 5 |  |  |",
      "| of that: the agent's children |  |  | 0 ms | 0 ms |  | 5 |  |  |",
      "| of that: the runtime |  |  | 10 ms | 10 ms |  | 5 |  |  |",
      "| of that: the runtime's children |  |  | 45 ms | 5 ms |  | 5 |  |  |",
      "| one pod, created → Ready: the chain by the agent less the chain by the runtime |  |  |  | 3 ms |  | 60 | ≤ 5 ms | reached: 3 (3–3) ms |",
      "| ADD of the built-in network in the agent, the plugin alone |  |  |  | 1 ms |  | 60 |  |  |",
      "| DEL of the built-in network in the agent, the plugin alone |  |  |  | 3 ms |  | 60 |  |  |",
      "| RunPodSandbox of one pod |  | 80 ms | 80 ms | 50 ms | 0.63 (0.63–0.63) × | 60 |  |  |",
      "| RunPodSandbox of one pod: the chain by the agent less the chain by the runtime |  |  |  | 4 ms |  | 60 | ≤ 5 ms | reached: 4 (4–4) ms |",
      "| StopPodSandbox of one pod |  | 50 ms | 50 ms | 50 ms | 1.00 (1.00–1.00) × | 60 |  |  |",
      "| StopPodSandbox of one pod: the chain by the agent less the chain by the runtime |  |  |  | 0 ms |  | 60 |  |  |",
      "| one pod of the floor, less one of the host's network: start | 30 ms |  |  |  |  | 60 |  |  |",
      "| one pod of the floor, less one of the host's network: removal | 30 ms |  |  |  |  | 60 |  |  |",
      "| one pod, created → Ready | 151 ms | 241 ms | 201 ms | 171 ms | 0.71 (0.71–0.71) × | 60 | ≤ 0.80 × the kubelet's | reached |",
      "| one pod, created → Ready, less than with the chain | 151 ms | 241 ms | 201 ms | 171 ms | 0.71 (0.71–0.71) × | 60 | ≤ chain − 25 ms | reached: -30 (-30–-30) ms |",
      "| one pod, deleted → gone | 121 ms | 901 ms | 161 ms | 141 ms | 0.16 (0.16–0.16) × | 60 | ≤ 0.20 × the kubelet's | reached |",
      "| one pod, deleted → gone, over the floor | 121 ms | 901 ms | 161 ms | 141 ms | 0.16 (0.16–0.16) × | 60 | ≤ floor + 60 ms | reached: 20 (20–20) ms |",
      "| 100 pods at once, created → Ready, wall |  | 20.00 s |  | 8.00 s | 0.40 (0.40–0.40) × | 5 | ≤ 0.80 × the kubelet's | reached |",
      "| 100 pods at once, created → Ready, p50 |  | 10.00 s |  | 4.00 s | 0.40 (0.40–0.40) × | 5 | ≤ 0.45 × the kubelet's | reached |",
      "| 100 pods at once, deleted → gone, p50 |  | 4.00 s |  | 4.00 s | 1.00 (1.00–1.00) × | 5 |  |  |",
      "| CPU of the agent for 100 starts |  | 2.00 s |  | 1.00 s | 0.50 (0.50–0.50) × | 5 | ≤ 0.70 × the kubelet's | reached |",
      "| 100 pods deleted at once with grace 0, deleted → sandbox removed, p50 | 4.00 s |  |  | 5.00 s |  | 5 | ≤ 1.15 × the floor | missed: 1.25 (1.25–1.25) × |",
      "| idle without pods: CPU of the agent, of one core |  | 0.10 % | 0.10 % | 0.10 % | 1.00 (1.00–1.00) × | 5 |  |  |",
      "| idle without pods: wake-ups of threads a minute |  | 9000 | 200 | 210 | 0.02 (0.02–0.02) × | 5 | ≤ 1.10 × the chain's | reached: 1.05 (1.05–1.05) × |",
      "| idle without pods: to disk |  | 20480 B | 0 B | 0 B | 0.00 × | 5 | ≤ 0 B | reached |",
      "| idle without pods: page faults of processes that the agent has started |  | 0 | 0 | 0 |  | 5 | ≤ 0 | reached |",
      "| idle with 20 pods: CPU of the agent, of one core |  | 0.10 % | 0.10 % | 0.10 % | 1.00 (1.00–1.00) × | 5 |  |  |",
      "| idle with 20 pods: wake-ups of threads a minute |  | 9000 | 200 | 210 | 0.02 (0.02–0.02) × | 5 | ≤ 1.10 × the chain's | reached: 1.05 (1.05–1.05) × |",
      "| idle with 20 pods: to disk |  | 20480 B | 0 B | 40 B | 0.00 × | 5 | ≤ 0 B | missed |",
      "| idle with 20 pods: page faults of processes that the agent has started |  | 0 | 0 | 0 |  | 5 | ≤ 0 | reached |",
    ]
  `);
});
