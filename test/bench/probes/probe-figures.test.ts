import { expect, test } from "bun:test";
import type { Periods, UsageWindow } from "../idle-windows.ts";
import { markdownTable } from "../table.ts";
import type { ProbeResult } from "./probe-bench.ts";
import { probeFigures } from "./probe-figures.ts";
import type { ProbingCost } from "./probe-rounds.ts";

const steady = Array.from({ length: 100 }, () => 20);
const growing = Array.from({ length: 100 }, (_, at) => 10 * at);

const round = (each: readonly number[]) => ({ each, wall: Math.max(...each) });
const windows = (cpuMs: number, pssBytes = 0): Periods<UsageWindow> => {
  const memory = { rssBytes: 0, anonymousBytes: pssBytes / 2, pssBytes };
  const window = (_: unknown, at: number) => ({ lastedMs: 10_000, cpuMs: cpuMs + at, diskBytes: 0, memory });
  return { ofStarts: Array.from({ length: 5 }, window) };
};
const cost = (unprobed: number, tcp: number, http: number, exec: number): ProbingCost => ({
  unprobed: windows(unprobed),
  probed: { tcp: windows(tcp), http: windows(http), exec: windows(exec) },
  counted: { tcp: 2500, http: 2499 },
});
const pods = (ready: readonly number[], gone: number, startCpuMs: number) =>
  Array.from({ length: 5 }, (_, at) => ({ ready: round(ready), gone: round([gone]), startCpuMs: startCpuMs + at }));

const result: ProbeResult = {
  probedPods: {
    kubelet: { rounds: pods([20_000, 30_000], 16_000, 4000), rest: windows(500, 120e6) },
    berth: { rounds: pods([6_000, 18_000], 12_000, 3300), rest: windows(100, 75e6) },
  },
  probing: { kubelet: cost(200, 500, 600, 700), berth: cost(20, 180, 200, 240) },
  readiness: { agents: { kubelet: [60, 50, 300, 70, 80], berth: [12, 9, 21, 10, 11] }, floor: [6, 5, 7, 6, 6] },
  floods: {
    limited: { lastedMs: 20_000, ages: steady, shown: 1000 },
    unlimited: { lastedMs: 20_000, ages: growing, shown: 9000 },
  },
};

test("the cost of probes is the difference to as many pods without probes, and a queue must not grow", () => {
  const rows = markdownTable(probeFigures(result), "probes").split("\n").slice(2);
  expect(rows).toMatchInlineSnapshot(`
    [
      "| CPU of the agent, of one core, for 50 TCP probes a second |  | 3.00 % | 1.60 % | 0.53 (0.53–0.53) × | 5 | ≤ 0.50 × the kubelet's | missed |",
      "| CPU of the agent, of one core, with 50 pods with TCP probes |  | 5.02 % | 1.82 % | 0.36 (0.36–0.37) × | 5 |  |  |",
      "| TCP probes a second |  | 50 | 50 |  | 1 |  |  |",
      "| CPU of the agent, of one core, for 50 HTTP probes a second |  | 4.00 % | 1.80 % | 0.45 (0.45–0.45) × | 5 |  |  |",
      "| CPU of the agent, of one core, with 50 pods with HTTP probes |  | 6.02 % | 2.02 % | 0.34 (0.33–0.34) × | 5 |  |  |",
      "| HTTP probes a second |  | 50 | 50 |  | 1 |  |  |",
      "| CPU of the agent, of one core, for 5 exec probes a second |  | 5.00 % | 2.20 % | 0.44 (0.44–0.44) × | 5 |  |  |",
      "| CPU of the agent, of one core, with 50 pods with exec probes |  | 7.02 % | 2.42 % | 0.34 (0.34–0.35) × | 5 |  |  |",
      "| a probe's answer → readiness in the API | 6 ms | 70 ms | 11 ms | 0.14 (0.07–0.20) × | 5 | ≤ 20 ms | not decided: 11 (9–21) ms |",
      "| 30 pods with probes and hooks, created → Ready, wall |  | 30.00 s | 18.00 s | 0.60 (0.60–0.60) × | 5 | ≤ 0.65 × the kubelet's | reached |",
      "| 30 pods with probes and hooks, created → Ready, p50 |  | 20.00 s | 6.00 s | 0.30 (0.30–0.30) × | 5 | ≤ 0.33 × the kubelet's | reached |",
      "| 30 pods with probes and hooks, deleted → gone, wall |  | 16.00 s | 12.00 s | 0.75 (0.75–0.75) × | 5 |  |  |",
      "| 30 pods with probes and hooks, CPU of the agent for their starts |  | 4.00 s | 3.30 s | 0.83 (0.82–0.83) × | 5 | ≤ 0.80 × the kubelet's | missed |",
      "| 30 pods with probes and hooks, CPU of the agent, of one core, while they run |  | 5.02 % | 1.02 % | 0.20 (0.20–0.21) × | 5 | ≤ 0.50 × the kubelet's | reached |",
      "| 30 pods with probes and hooks, PSS while they run |  | 120.0 MB | 75.0 MB | 0.63 (0.63–0.63) × | 5 | ≤ 0.70 × the kubelet's | reached |",
      "| 30 pods with probes and hooks, anonymous memory while they run |  | 60.0 MB | 37.5 MB | 0.63 (0.63–0.63) × | 5 |  |  |",
      "| 500 status changes a second on 100 pods, 50 requests a second, as by default: age of the oldest unreported one, p50 from 20 % to 60 % of the time |  |  | 20 ms |  | 1 |  |  |",
      "| 500 status changes a second on 100 pods, 50 requests a second, as by default: age of the oldest unreported one, p50 from 60 % on |  |  | 20 ms |  | 1 |  |  |",
      "| 500 status changes a second on 100 pods, 50 requests a second, as by default: reported per second |  |  | 50 |  | 1 |  |  |",
      "| 500 status changes a second on 100 pods, no limit of requests: age of the oldest unreported one, p50 from 20 % to 60 % of the time |  |  | 395 ms |  | 1 |  |  |",
      "| 500 status changes a second on 100 pods, no limit of requests: age of the oldest unreported one, p50 from 60 % on |  |  | 795 ms |  | 1 |  |  |",
      "| 500 status changes a second on 100 pods, no limit of requests: reported per second |  |  | 450 |  | 1 |  |  |",
    ]
  `);
});
