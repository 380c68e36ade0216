import { expect, test } from "bun:test";
import { markdownTable } from "../table.ts";
import type { LateServer } from "./late-servers.ts";
import type { StartsResult } from "./starts-bench.ts";
import { startsFigures } from "./starts-figures.ts";

const late = (...all: readonly (readonly [listensAfterMs: number, waitMs: number])[]): readonly LateServer[] =>
  all.map(([listensAfterMs, waitMs]) => ({ listensAfterMs, waitMs, readyMs: 200 + listensAfterMs + waitMs }));

const result: StartsResult = {
  servers: { kubelet: late([500, 9_500], [8_000, 2_000]), berth: late([500, 100], [8_000, 1_900]) },
  commands: { kubelet: late([500, 9_500]), berth: late([1_000, 1_400]) },
  soonServers: { kubelet: late([700, 1_100], [700, 10_100]), berth: late([700, 100], [700, 200]) },
  twice: { kubelet: late([700, 11_100]), berth: late([700, 9_500]) },
  jobs: { kubelet: [18_000], berth: [8_600] },
  initPods: { kubelet: [4_700, 4_800], berth: [1_100, 1_200] },
};

test("a wait is allowed in proportion to the time before it, and the mean counts for servers that listen soon", () => {
  const rows = markdownTable(startsFigures(result), "starts").split("\n").slice(2);
  expect(rows).toMatchInlineSnapshot(`
    [
      "| a server that listens after 0.2 to 8 s, then → Ready, p10 |  | 2000 ms | 100 ms | −1900 ms, 0.05 × |  |  |",
      "| a server that listens after 0.2 to 8 s, then → Ready, p50 |  | 2000 ms | 100 ms | −1900 ms, 0.05 × |  |  |",
      "| a server that listens after 0.2 to 8 s, then → Ready, p90 |  | 9500 ms | 1900 ms | −7600 ms, 0.20 × |  |  |",
      "| a server that listens after 0.2 to 8 s, then → Ready, max |  | 9500 ms | 1900 ms | −7600 ms, 0.20 × |  |  |",
      "| a server that listens after 0.2 to 8 s, the longest wait in relation to 0.2 s + 0.2 × that time |  | 3166.67 % | 105.56 % | −3061.11 %, 0.03 × | ≤ 100 % | missed |",
      "| a command that succeeds after 0.2 to 8 s, then → Ready, p10 |  | 9500 ms | 1400 ms | −8100 ms, 0.15 × |  |  |",
      "| a command that succeeds after 0.2 to 8 s, then → Ready, p50 |  | 9500 ms | 1400 ms | −8100 ms, 0.15 × |  |  |",
      "| a command that succeeds after 0.2 to 8 s, then → Ready, p90 |  | 9500 ms | 1400 ms | −8100 ms, 0.15 × |  |  |",
      "| a command that succeeds after 0.2 to 8 s, then → Ready, max |  | 9500 ms | 1400 ms | −8100 ms, 0.15 × |  |  |",
      "| a command that succeeds after 0.2 to 8 s, the longest wait in relation to 0.3 s + 1.0 × that time |  | 1187.50 % | 107.69 % | −1079.81 %, 0.09 × | ≤ 100 % | missed |",
      "| a server that listens after 0.7 s, created → Ready, mean |  | 6.50 s | 1.05 s | −5.45 s, 0.16 × | ≤ 0.25 × the kubelet's | reached |",
      "| a server that listens after 0.7 s, created → Ready, p50 |  | 2.00 s | 1.00 s | −1.00 s, 0.50 × |  |  |",
      "| a server that listens after 0.7 s, successThreshold 2, created → Ready, p50 |  | 12.00 s | 10.40 s | −1.60 s, 0.87 × | ≤ 1.00 × the kubelet's | reached |",
      "| a Job of 40 pods that run \`true\`, 8 at a time, created → Complete, p50 |  | 18.00 s | 8.60 s | −9.40 s, 0.48 × | ≤ 0.55 × the kubelet's | reached |",
      "| 5 init containers that run \`true\`, created → Ready, p50 |  | 4.70 s | 1.10 s | −3.60 s, 0.23 × | ≤ 0.35 × the kubelet's | reached |",
    ]
  `);
});
