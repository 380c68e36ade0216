import { pair } from "../cluster/cluster-figures.ts";
import { type Figure, limit, tailRows } from "../figures.ts";
import { cpuPercentOf } from "../idle-windows.ts";
import { medianOf, sumOf } from "../statistics.ts";
import type { ApiResult } from "./api-bench.ts";
import { SESSIONS, type SessionsAtOnce, STDOUT_MB } from "./exec-rounds.ts";
import { LINE_BYTES, LOG_MB, PAGES, SCRAPE_MS } from "./page-rounds.ts";
import { statsPassFigures } from "./stats-pass.ts";

/** All figures of the node's API, in the order of the requirements. */
export function apiFigures({
  execs,
  stdout,
  logs,
  sessions,
  pods,
  pages,
  scraped,
  statsPass,
}: ApiResult): readonly Figure[] {
  const exec = "exec of `true`, connection → status";
  return [
    { ...pair(exec, "ms", execs, medianOf, 1.05), isSingle: true },
    ...tailRows(`${exec}, p90`, "ms", { peer: execs.kubelet, berth: execs.berth }),
    pair(`exec, ${STDOUT_MB} MB of stdout`, "ms", stdout, medianOf, 1),
    ...logs.map((times, at) => pair(`a log of ${LOG_MB} MB, lines of ${LINE_BYTES[at]} B`, "ms", times, medianOf, 1)),
    ...sessionFigures(sessions),
    ...PAGES.flatMap((path): readonly Figure[] => {
      const times = pages[path];
      if (times === undefined) return [];
      return [{ ...pair(`${path} with ${pods} pods`, "ms", times, medianOf, 1), isSingle: true }];
    }),
    pair(
      `CPU of the agent, of one core, with ${pods} pods, all pages every ${SCRAPE_MS / 1000} s`,
      "%",
      scraped,
      (periods) => medianOf(periods.ofStarts.map(cpuPercentOf)),
      0.3,
    ),
    ...statsPassFigures(statsPass),
  ];
}

function sessionFigures(sessions: ApiResult["sessions"]): readonly Figure[] {
  const what = `${SESSIONS} exec sessions at once`;
  const keptShare = ({ pssBefore, pssAfter }: SessionsAtOnce) => (100 * pssAfter) / pssBefore;
  return [
    pair(`${what}, wall`, "s", sessions, (turns) => medianOf(turns.map(({ wallMs }) => wallMs / 1000))),
    {
      ...pair(`${what}: those that failed`, "", sessions, (turns) => sumOf(turns.map(({ failed }) => failed))),
      goal: { kind: "total", atMost: 0 },
    },
    {
      ...pair(`${what}: PSS 10 s later, of that before`, "%", sessions, (turns) => medianOf(turns.map(keptShare))),
      goal: limit(110),
    },
  ];
}
