import { pair } from "../cluster/cluster-figures.ts";
import type { PerAgent } from "../cluster/cluster-rounds.ts";
import type { Figure } from "../figures.ts";
import { meanOf, median, medianOf, sumOf } from "../statistics.ts";
import type { LateServer } from "./late-servers.ts";
import { INIT_CONTAINERS, JOB } from "./short-containers.ts";
import type { LateGroups, StartsResult } from "./starts-bench.ts";

/** All figures of containers that need time and of short containers, in the order of the requirements. */
export function startsFigures(result: StartsResult): readonly Figure[] {
  const { servers, commands, soonServers, twice, jobs, initPods } = result;
  const ready = (group: readonly LateServer[]) => group.map(({ readyMs }) => readyMs / 1000);
  const soon = "a server that listens after 0.7 s";
  const job = `a Job of ${JOB.completions} pods that run \`true\`, ${JOB.parallelism} at a time`;
  const inSeconds = (all: readonly number[]) => medianOf(all.map((ms) => ms / 1000));
  const grouped = (what: string, groups: PerAgent<LateGroups>, read: GroupValue, most?: number) =>
    pair(what, "s", groups, (all) => medianOf(all.map(read)), most);
  return [
    ...waitFigures("a server that listens after 0.2 to 8 s", servers, { fixedMs: 200, share: 0.2 }),
    ...waitFigures("a command that succeeds after 0.2 to 8 s", commands, { fixedMs: 300, share: 1 }),
    grouped(`${soon}, created → Ready, mean`, soonServers, (group) => meanOf(ready(group)).value, 0.25),
    grouped(`${soon}, created → Ready, p50`, soonServers, (group) => median(ready(group))),
    grouped(`${soon}, successThreshold 2, created → Ready, p50`, twice, (group) => median(ready(group)), 1),
    pair(`${job}, created → Complete`, "s", jobs, inSeconds, 0.55),
    {
      ...pair(`${INIT_CONTAINERS} init containers that run \`true\`, created → Ready`, "s", initPods, inSeconds, 0.35),
      isSingle: true,
    },
  ];
}

type GroupValue = (group: readonly LateServer[]) => number;

/** How long a container that can answer waits until it is Ready, and how many wait longer than they should. */
function waitFigures(
  what: string,
  groups: PerAgent<LateGroups>,
  { fixedMs, share }: { readonly fixedMs: number; readonly share: number },
): readonly Figure[] {
  const isLate = ({ waitMs, listensAfterMs }: LateServer) => waitMs > fixedMs + share * listensAfterMs;
  const count = groups.berth.flat().length;
  const late = (all: LateGroups) => sumOf(all.flat().map((one) => (isLate(one) ? 1 : 0)));
  const allowed = `${fixedMs / 1000} s + ${share.toFixed(1)} × that time`;
  return [
    pair(`${what}, then → Ready, p50`, "ms", groups, (all) =>
      medianOf(all.map((group) => median(group.map(({ waitMs }) => waitMs)))),
    ),
    {
      ...pair(`${what}, then → Ready: later than ${allowed}, of ${count}`, "", groups, late),
      ...{ isSingle: true, goal: { kind: "total", atMost: 0 } },
    },
  ];
}
