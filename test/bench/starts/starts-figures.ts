import { pair } from "../cluster/cluster-figures.ts";
import type { PerAgent } from "../cluster/cluster-rounds.ts";
import type { Figure } from "../figures.ts";
import { meanOf, percentileOf } from "../statistics.ts";
import type { LateServer } from "./late-servers.ts";
import { INIT_CONTAINERS, JOB } from "./short-containers.ts";
import type { StartsResult } from "./starts-bench.ts";

/** All figures of containers that need time and of short containers, in the order of the requirements. */
export function startsFigures(result: StartsResult): readonly Figure[] {
  const { servers, commands, soonServers, twice, jobs, initPods } = result;
  const readySeconds = (all: readonly LateServer[]) => all.map(({ readyMs }) => readyMs / 1000);
  const seconds = (all: readonly number[]) => all.map((ms) => ms / 1000);
  const soon = "a server that listens after 0.7 s";
  const job = `a Job of ${JOB.completions} pods that run \`true\`, ${JOB.parallelism} at a time`;
  return [
    ...waitFigures("a server that listens after 0.2 to 8 s", servers, { fixedMs: 200, share: 0.2 }),
    ...waitFigures("a command that succeeds after 0.2 to 8 s", commands, { fixedMs: 300, share: 1 }),
    pair(`${soon}, created → Ready, mean`, "s", soonServers, (all) => meanOf(readySeconds(all)), 0.25),
    pair(`${soon}, created → Ready, p50`, "s", soonServers, (all) => percentileOf(readySeconds(all), 0.5)),
    pair(
      `${soon}, successThreshold 2, created → Ready, p50`,
      "s",
      twice,
      (all) => percentileOf(readySeconds(all), 0.5),
      1,
    ),
    pair(`${job}, created → Complete, p50`, "s", jobs, (all) => percentileOf(seconds(all), 0.5), 0.55),
    pair(
      `${INIT_CONTAINERS} init containers that run \`true\`, created → Ready, p50`,
      "s",
      initPods,
      (all) => percentileOf(seconds(all), 0.5),
      0.35,
    ),
  ];
}

/** How long a container that can answer waits until it is Ready, and how much of what is allowed the longest wait takes. */
function waitFigures(
  what: string,
  late: PerAgent<readonly LateServer[]>,
  { fixedMs, share }: { readonly fixedMs: number; readonly share: number },
): readonly Figure[] {
  const waits = (all: readonly LateServer[]) => all.map(({ waitMs }) => waitMs);
  const shares = (all: readonly LateServer[]) =>
    all.map(({ waitMs, listensAfterMs }) => (100 * waitMs) / (fixedMs + share * listensAfterMs));
  const row = (which: string, of: number) =>
    pair(`${what}, then → Ready, ${which}`, "ms", late, (all) => percentileOf(waits(all), of));
  return [
    row("p10", 0.1),
    row("p50", 0.5),
    row("p90", 0.9),
    row("max", 1),
    {
      ...pair(
        `${what}, the longest wait in relation to ${fixedMs / 1000} s + ${share.toFixed(1)} × that time`,
        "%",
        late,
        (all) => percentileOf(shares(all), 1),
      ),
      target: { words: "100 %", atMost: 100 },
    },
  ];
}
