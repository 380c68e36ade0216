import { expect, test } from "bun:test";
import { markdownTable } from "../table.ts";
import type { LateServer } from "./late-servers.ts";
import type { StartsResult } from "./starts-bench.ts";
import { startsFigures } from "./starts-figures.ts";

const late = (...all: readonly (readonly [listensAfterMs: number, waitMs: number])[]): readonly LateServer[] =>
  all.map(([listensAfterMs, waitMs]) => ({ listensAfterMs, waitMs, readyMs: 200 + listensAfterMs + waitMs }));
const groups = (...all: readonly (readonly [listensAfterMs: number, waitMs: number])[]) =>
  Array.from({ length: 5 }, (_, at) => late(...all.map(([listens, wait]) => [listens, wait + at] as const)));

const result: StartsResult = {
  servers: { kubelet: groups([500, 9_500], [8_000, 2_000]), berth: groups([500, 100], [8_000, 1_797]) },
  commands: { kubelet: groups([500, 9_500]), berth: groups([1_000, 1_200]) },
  soonServers: { kubelet: groups([700, 1_100], [700, 10_100]), berth: groups([700, 100], [700, 200]) },
  twice: { kubelet: groups([700, 11_100]), berth: groups([700, 9_500]) },
  jobs: { kubelet: [18_000, 18_100, 18_200, 18_300, 18_400], berth: [8_600, 8_700, 8_800, 8_900, 9_000] },
  initPods: { kubelet: [4_700, 4_800], berth: [1_100, 1_200] },
};

test("groups of late containers are pairs, and a wait is allowed in proportion to the time before it", () => {
  const rows = markdownTable(startsFigures(result), "starts").split("\n").slice(2);
  expect(rows).toMatchInlineSnapshot(`
    [
      "| a server that listens after 0.2 to 8 s, then → Ready, p50 |  | 5752 ms | 951 ms | 0.17 (0.16–0.17) × | 5 |  |  |",
      "| a server that listens after 0.2 to 8 s, then → Ready: later than 0.2 s + 0.2 × that time, of 10 |  | 10 | 1 | 0.10 × | 10 | ≤ 0 | missed |",
      "| a command that succeeds after 0.2 to 8 s, then → Ready, p50 |  | 9502 ms | 1202 ms | 0.13 (0.13–0.13) × | 5 |  |  |",
      "| a command that succeeds after 0.2 to 8 s, then → Ready: later than 0.3 s + 1.0 × that time, of 5 |  | 5 | 0 | 0.00 × | 5 | ≤ 0 | not decided |",
      "| a server that listens after 0.7 s, created → Ready, mean |  | 6.50 s | 1.05 s | 0.16 (0.16–0.16) × | 5 | ≤ 0.25 × the kubelet's | reached |",
      "| a server that listens after 0.7 s, created → Ready, p50 |  | 6.50 s | 1.05 s | 0.16 (0.16–0.16) × | 5 |  |  |",
      "| a server that listens after 0.7 s, successThreshold 2, created → Ready, p50 |  | 12.00 s | 10.40 s | 0.87 (0.87–0.87) × | 5 | ≤ 1.00 × the kubelet's | reached |",
      "| a Job of 40 pods that run \`true\`, 8 at a time, created → Complete |  | 18.20 s | 8.80 s | 0.48 (0.48–0.49) × | 5 | ≤ 0.55 × the kubelet's | reached |",
      "| 5 init containers that run \`true\`, created → Ready |  | 4.75 s | 1.15 s |  | 2 | ≤ 0.35 × the kubelet's | not decided |",
    ]
  `);
});
