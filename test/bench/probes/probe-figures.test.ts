import { expect, test } from "bun:test";
import { markdownTable } from "../table.ts";
import type { ProbeResult } from "./probe-bench.ts";
import { probeFigures } from "./probe-figures.ts";

const steady = Array.from({ length: 100 }, () => 20);
const growing = Array.from({ length: 100 }, (_, at) => 10 * at);

const round = (each: readonly number[]) => ({ each, wall: Math.max(...each) });
const memory = { rssBytes: 0, anonymousBytes: 0 };

const result: ProbeResult = {
  equipped: {
    kubelet: {
      ready: round([20_000, 30_000]),
      gone: round([16_000]),
      startCpuMs: 4000,
      rest: { lastedMs: 20_000, cpuMs: 1000 },
      memory: { ...memory, pssBytes: 120e6 },
    },
    berth: {
      ready: round([6_000, 18_000]),
      gone: round([12_000]),
      startCpuMs: 3300,
      rest: { lastedMs: 20_000, cpuMs: 200 },
      memory: { ...memory, pssBytes: 75e6 },
    },
  },
  probing: {
    kubelet: { unasked: { lastedMs: 20_000, cpuMs: 400 }, asked: { lastedMs: 30_000, cpuMs: 1500 }, probes: 1500 },
    berth: { unasked: { lastedMs: 10_000, cpuMs: 20 }, asked: { lastedMs: 30_000, cpuMs: 540 }, probes: 1501 },
  },
  readiness: { agents: { kubelet: [60, 50, 300], berth: [12, 9, 21] }, floor: [6, 5, 7] },
  floods: {
    limited: { lastedMs: 20_000, ages: steady, shown: 1000 },
    unlimited: { lastedMs: 20_000, ages: growing, shown: 9000 },
  },
};

test("the cost of probes is the difference to as many pods without probes, and a queue must not grow", () => {
  const rows = markdownTable(probeFigures(result), "probes").split("\n").slice(2);
  expect(rows).toMatchInlineSnapshot(`
    [
      "| CPU of one core for 50 TCP probes a second |  | 3.00 % | 1.60 % | −1.40 %, 0.53 × | ≤ 0.50 × the kubelet's | missed |",
      "| CPU of one core with 50 such pods |  | 5.00 % | 1.80 % | −3.20 %, 0.36 × |  |  |",
      "| probes a second |  | 50 | 50 | +0, 1.00 × |  |  |",
      "| a probe's answer → readiness in the API, p50 | 6 ms | 60 ms | 12 ms | −48 ms, 0.20 × | ≤ 20 ms | reached |",
      "| a probe's answer → readiness in the API, p99 | 7 ms | 300 ms | 21 ms | −279 ms, 0.07 × |  |  |",
      "| 100 pods with probes and hooks, created → Ready, wall |  | 30.00 s | 18.00 s | −12.00 s, 0.60 × | ≤ 0.65 × the kubelet's | reached |",
      "| 100 pods with probes and hooks, created → Ready, p50 |  | 20.00 s | 6.00 s | −14.00 s, 0.30 × | ≤ 0.33 × the kubelet's | reached |",
      "| 100 pods with probes and hooks, deleted → gone, wall |  | 16.00 s | 12.00 s | −4.00 s, 0.75 × |  |  |",
      "| 100 pods with probes and hooks, CPU of the agent for their starts |  | 4.00 s | 3.30 s | −0.70 s, 0.82 × | ≤ 0.80 × the kubelet's | missed |",
      "| 100 pods with probes and hooks, CPU of one core afterwards |  | 5.00 % | 1.00 % | −4.00 %, 0.20 × | ≤ 0.50 × the kubelet's | reached |",
      "| 100 pods with probes and hooks, PSS afterwards |  | 120.0 MB | 75.0 MB | −45.0 MB, 0.63 × | ≤ 0.70 × the kubelet's | reached |",
      "| 500 status changes a second on 100 pods, 50 requests a second, as by default: age of the oldest unreported one, p50 of the last 40 % |  |  | 20 ms |  | ≤ 1.25 × the 20 ms of the 40 % before | reached |",
      "| 500 status changes a second on 100 pods, 50 requests a second, as by default: reported per second |  |  | 50 |  |  |  |",
      "| 500 status changes a second on 100 pods, no limit of requests: age of the oldest unreported one, p50 of the last 40 % |  |  | 790 ms |  |  |  |",
      "| 500 status changes a second on 100 pods, no limit of requests: reported per second |  |  | 450 |  |  |  |",
    ]
  `);
});
