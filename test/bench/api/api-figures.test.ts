import { expect, test } from "bun:test";
import { markdownTable } from "../table.ts";
import type { ApiResult } from "./api-bench.ts";
import { apiFigures } from "./api-figures.ts";
import { logScript } from "./page-rounds.ts";

const times = (count: number, make: (at: number) => number) => Array.from({ length: count }, (_, at) => make(at));
const both = (kubelet: number, berth: number, count = 5) => ({
  kubelet: times(count, (at) => kubelet + at),
  berth: times(count, (at) => berth + at),
});
const memory = { rssBytes: 0, pssBytes: 70e6, anonymousBytes: 30e6 };
const windows = (cpuMs: number) => times(5, () => 0).map(() => ({ lastedMs: 60_000, cpuMs, diskBytes: 0, memory }));
const turns = (pssAfter: number, failures: readonly number[]) =>
  failures.map((failed) => ({ failed, wallMs: 9_000, pssBefore: 70e6, pssAfter }));

const result: ApiResult = {
  execs: both(80, 82, 60),
  stdout: both(900, 800),
  logs: [both(500, 400), both(200, 300)],
  sessions: { kubelet: turns(90e6, [0, 0, 0, 0, 0]), berth: turns(84e6, [0, 1, 0, 2, 0]) },
  pods: 100,
  pages: {
    "/metrics/cadvisor": both(30, 20, 60),
    "/stats/summary": both(30, 40, 60),
    "/metrics/resource": both(3, 2, 59),
  },
  scraped: { kubelet: { ofStarts: windows(3_000) }, berth: { ofStarts: windows(600) } },
  statsPass: { resources: times(60, () => 6), summary: times(60, () => 16) },
};

test("the table of the node's API", () => {
  const rows = markdownTable(apiFigures(result), "api").split("\n").slice(2);
  expect(rows).toMatchInlineSnapshot(`
    [
      "| exec of \`true\`, connection → status |  | 110 ms | 112 ms | 1.02 (1.02–1.02) × | 60 | ≤ 1.05 × the kubelet's | reached |",
      "| exec, 200 MB of stdout |  | 902 ms | 802 ms | 0.89 (0.89–0.89) × | 5 | ≤ 1.00 × the kubelet's | reached |",
      "| a log of 50 MB, lines of 100 B |  | 502 ms | 402 ms | 0.80 (0.80–0.80) × | 5 | ≤ 1.00 × the kubelet's | reached |",
      "| a log of 50 MB, lines of 4000 B |  | 202 ms | 302 ms | 1.50 (1.49–1.50) × | 5 | ≤ 1.00 × the kubelet's | missed |",
      "| 200 exec sessions at once, wall |  | 9.00 s | 9.00 s | 1.00 (1.00–1.00) × | 5 |  |  |",
      "| 200 exec sessions at once: those that failed |  | 0 | 3 |  | 5 | ≤ 0 | missed |",
      "| 200 exec sessions at once: PSS 10 s later, of that before |  | 128.57 % | 120.00 % | 0.93 (0.93–0.93) × | 5 | ≤ 110 % | missed: 120.00 (120.00–120.00) % |",
      "| /metrics/cadvisor with 100 pods |  | 60 ms | 50 ms | 0.83 (0.81–0.85) × | 60 | ≤ 1.00 × the kubelet's | reached |",
      "| /stats/summary with 100 pods |  | 60 ms | 70 ms | 1.17 (1.15–1.19) × | 60 | ≤ 1.00 × the kubelet's | missed |",
      "| /metrics/resource with 100 pods |  | 32 ms | 31 ms | 0.97 (0.96–0.97) × | 59 | ≤ 1.00 × the kubelet's | not decided |",
      "| CPU of the agent, of one core, with 100 pods, all pages every 15 s |  | 5.00 % | 1.00 % | 0.20 (0.20–0.20) × | 5 | ≤ 0.30 × the kubelet's | reached |",
      "| one pass over the cgroups of 100 pods, resources |  |  | 6 ms |  | 60 | ≤ 15 ms | reached: 6 (6–6) ms |",
      "| one pass over the cgroups of 100 pods, summary |  |  | 16 ms |  | 60 | ≤ 15 ms | missed: 16 (16–16) ms |",
    ]
  `);
});

test("a log has the size that its rows name", () => {
  expect(logScript(100)).toMatch(/^yes x{99} \| head -n 500000; echo the end; exec sleep 1000000$/);
});
