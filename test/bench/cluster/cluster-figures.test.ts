import { expect, test } from "bun:test";
import { markdownTable } from "../table.ts";
import type { ClusterResult } from "./cluster-bench.ts";
import { clusterFigures } from "./cluster-figures.ts";
import type { NodeIdle, NodeIdleWindow } from "./cluster-rounds.ts";

const round = (each: readonly number[]) => ({ each, wall: Math.max(...each) });

const memoryOf = (pssBytes: number) => ({ rssBytes: 0, pssBytes, anonymousBytes: pssBytes / 2 });
const quiet = { leaseRenewals: 6, statusReports: 0, watches: 1, others: [] };

function idle(cpuMs: number, pssBytes: number, more: Partial<NodeIdleWindow["requests"]> = {}): NodeIdle {
  const ofStarts = [0, 1, 2, 3, 4].map((at) => ({
    ...{ lastedMs: 60_000, cpuMs: cpuMs + at, diskBytes: 0, memory: memoryOf(pssBytes) },
    requests: { ...quiet, ...(at === 3 && more) },
  }));
  return { ofStarts };
}

const times = <T>(count: number, make: (at: number) => T): readonly T[] =>
  Array.from({ length: count }, (_, at) => make(at));
const single = (readyMs: number, goneMs: number) =>
  times(60, (at) => ({ readyMs: readyMs + (at % 5), goneMs: goneMs + at }));
const batch = (ready: readonly number[], gone: readonly number[], startCpuMs: number) =>
  times(5, (at) => ({
    ...{ ready: round(ready.map((ms) => ms + 50 * at)), gone: round(gone), startCpuMs: startCpuMs + at },
  }));

const result: ClusterResult = {
  starts: { kubelet: [900, 800, 1000, 900, 900], berth: [310, 290, 280, 290, 295] },
  idleEmpty: { kubelet: idle(600, 80e6), berth: idle(60, 70e6, { others: ["get nodes"] }) },
  idleFull: { kubelet: idle(1800, 110e6), berth: idle(60, 70e6, { statusReports: 2 }) },
  singles: { kubelet: single(160, 1000), berth: single(150, 190) },
  usualSingles: { kubelet: single(400, 1100), berth: single(200, 200) },
  floor: {
    singles: times(60, (at) => ({ start: round([140]), removal: round([150 + at]) })),
    batches: times(5, () => ({ start: round([3000, 6000]), removal: round([1000, 1500]) })),
  },
  batches: {
    kubelet: batch([10_000, 14_000], [3000], 2300),
    berth: batch([4000, 9000], [2000], 1700),
  },
  exits: {
    "1.6": { kubelet: [600, 900, 700, 800, 500], berth: [10, 30, 12, 13, 14] },
    "2.1": { kubelet: [600, 900, 700, 800, 500], berth: [31, 61, 25, 22, 23] },
  },
};

test("each figure is judged by the interval of its pairs of the same run", () => {
  const rows = markdownTable(clusterFigures(result), "kubelet").split("\n").slice(2);
  expect(rows).toMatchInlineSnapshot(`
    [
      "| one pod, created → Ready | 140 ms | 162 ms | 152 ms | 0.94 (0.94–0.94) × | 60 | ≤ 0.90 × the kubelet's | missed |",
      "| 100 pods at once, created → Ready, wall | 6.00 s | 14.10 s | 9.10 s | 0.65 (0.64–0.65) × | 5 | ≤ 0.65 × the kubelet's | reached |",
      "| 100 pods at once, created → Ready, p50 | 3.00 s | 10.10 s | 4.10 s | 0.41 (0.40–0.41) × | 5 | ≤ 0.33 × the kubelet's | missed |",
      "| one pod, deleted → gone | 180 ms | 1030 ms | 220 ms | 0.21 (0.21–0.22) × | 60 | ≤ 0.20 × the kubelet's | missed |",
      "| one pod, deleted → gone, over the floor beside it |  | 850 ms | 40 ms | 0.05 (0.05–0.05) × | 60 | ≤ 60 ms | reached: 40 (40–40) ms |",
      "| 100 pods at once, deleted → gone, wall | 1.50 s | 3.00 s | 2.00 s | 0.67 (0.67–0.67) × | 5 |  |  |",
      "| 100 pods at once, deleted → gone, p50 | 1.00 s | 3.00 s | 2.00 s | 0.67 (0.67–0.67) × | 5 |  |  |",
      "| one usual pod, created → Ready |  | 402 ms | 202 ms | 0.50 (0.50–0.50) × | 60 | ≤ 0.60 × the kubelet's | reached |",
      "| one usual pod, deleted → gone |  | 1130 ms | 230 ms | 0.20 (0.20–0.21) × | 60 |  |  |",
      "| CPU of the agent for 100 starts |  | 2.30 s | 1.70 s | 0.74 (0.74–0.74) × | 5 | ≤ 0.80 × the kubelet's | reached |",
      "| idle without pods: CPU of the agent, of one core |  | 1.00 % | 0.10 % | 0.10 (0.10–0.11) × | 5 | ≤ 0.15 × the kubelet's | reached |",
      "| idle without pods: PSS |  | 80.0 MB | 70.0 MB | 0.88 (0.88–0.88) × | 5 | ≤ 0.75 × the kubelet's | missed |",
      "| idle without pods: anonymous memory |  | 40.0 MB | 35.0 MB | 0.88 (0.88–0.88) × | 5 |  |  |",
      "| idle without pods: to disk per minute |  | 0 B | 0 B |  | 5 | ≤ 0 B | reached |",
      "| idle without pods: lease renewals in 1 min |  | 6 | 6 | 1.00 × | 5 | ≤ 6 | reached |",
      "| idle without pods: node status reports in 1 min |  | 0 | 0 |  | 5 | ≤ 1 | reached |",
      "| idle without pods: other requests in 1 min |  | 0 | 1 |  | 5 | ≤ 0 | missed |",
      "| idle without pods: watches resumed in 1 min |  | 1 | 1 | 1.00 × | 5 |  |  |",
      "| idle with 100 pods: CPU of the agent, of one core |  | 3.00 % | 0.10 % | 0.03 (0.03–0.04) × | 5 | ≤ 0.10 × the kubelet's | reached |",
      "| idle with 100 pods: PSS |  | 110.0 MB | 70.0 MB | 0.64 (0.64–0.64) × | 5 | ≤ 0.70 × the kubelet's | reached |",
      "| idle with 100 pods: anonymous memory |  | 55.0 MB | 35.0 MB | 0.64 (0.64–0.64) × | 5 |  |  |",
      "| idle with 100 pods: to disk per minute |  | 0 B | 0 B |  | 5 | ≤ 0 B | reached |",
      "| idle with 100 pods: lease renewals in 1 min |  | 6 | 6 | 1.00 × | 5 | ≤ 6 | reached |",
      "| idle with 100 pods: node status reports in 1 min |  | 0 | 2 |  | 5 | ≤ 1 | missed |",
      "| idle with 100 pods: other requests in 1 min |  | 0 | 0 |  | 5 | ≤ 0 | reached |",
      "| idle with 100 pods: watches resumed in 1 min |  | 1 | 1 | 1.00 × | 5 |  |  |",
      "| process start → new node Ready |  | 900 ms | 290 ms | 0.33 (0.28–0.36) × | 5 | ≤ 300 ms | not decided: 290 (280–310) ms |",
      "| a container's exit → its status, containerd 1.6 |  | 700 ms | 13 ms | 0.02 (0.02–0.03) × | 5 | ≤ 20 ms | not decided: 13 (10–30) ms |",
      "| a container's exit → its status, containerd 2.1 |  | 700 ms | 25 ms | 0.05 (0.03–0.07) × | 5 | ≤ 20 ms | missed: 25 (22–61) ms |",
    ]
  `);
});

test("the requests of an idle node are those of the longest window, which alone decides nothing", () => {
  const [first] = idle(60, 70e6).ofStarts;
  const windowOf = (lastedMs: number, leaseRenewals: number) => ({
    ...{ ...first!, lastedMs },
    requests: { ...quiet, leaseRenewals },
  });
  const ofStarts = [...times(4, () => windowOf(30_000, 3)), windowOf(310_020, 31)];
  const figures = clusterFigures({ ...result, idleEmpty: { kubelet: { ofStarts }, berth: { ofStarts } } });
  const renewals = figures.filter(({ what }) => what.startsWith("idle without pods: lease renewals"));
  expect(markdownTable(renewals, "kubelet").split("\n").slice(2)).toEqual([
    "| idle without pods: lease renewals in 5 min |  | 31 | 31 |  | 1 | ≤ 32 | not decided |",
  ]);
});

test("two hundred samples of each side show a tail", () => {
  const pods = times(200, (at) => ({ readyMs: 100 + at, goneMs: 100 + at }));
  const floor = { ...result.floor, singles: times(200, () => ({ start: round([90]), removal: round([90]) })) };
  const figures = clusterFigures({ ...result, floor, singles: { kubelet: pods, berth: pods } });
  const tails = figures.filter(({ isTail }) => isTail).map(({ what, berth }) => [what, berth?.value]);
  expect(tails).toEqual([
    ["one pod, created → Ready, p90", 279],
    ["one pod, deleted → gone, p90", 279],
  ]);
});
