import { setTimeout as pause } from "node:timers/promises";
import { pollUntil } from "../../bed/poll-until.ts";
import type { PerAgent } from "../cluster/cluster-rounds.ts";
import { measureWindow, type UsageWindow } from "../idle-windows.ts";
import { orderOf, takeTurns } from "../turns.ts";
import type { NodeApi } from "./node-api.ts";

/** The size of a log's lines together, without the runtime's marks. */
export const LOG_MB = 50;

/** How long the lines of the two measured logs are, with their ends. */
export const LINE_BYTES = [100, 4000] as const;

/** What is measured by itself. */
export const PAGES = [
  "/metrics/cadvisor",
  "/stats/summary",
  "/stats/summary?only_cpu_and_memory=true",
  "/metrics/resource",
] as const;

/** What is scraped besides them. */
const SCRAPED = ["/metrics", "/metrics/probes"];

/** Times between two scrapes, and from the start of a window to the first one. */
export const SCRAPE_MS = 15_000;
const FIRST_SCRAPE_MS = 5_000;

/** Without the pages that one of the agents cannot answer. */
export type PageTimes = Readonly<Partial<Record<(typeof PAGES)[number], PerAgent<readonly number[]>>>>;

const SIDES = ["kubelet", "berth"] as const;
const LAST_LINE = "the end\n";

/** A shell script that writes such a log and then waits. */
export const logScript = (lineBytes: number): string =>
  `yes ${"x".repeat(lineBytes - 1)} | head -n ${(LOG_MB * 1e6) / lineBytes}; echo ${LAST_LINE.trim()}; exec sleep 1000000`;

const logPath = (pod: string) => `/containerLogs/default/${pod}/main`;

/** Resolves once the log of the pod is complete. */
export async function waitForLog(api: NodeApi, pod: string): Promise<void> {
  await pollUntil(`the log of ${pod}`, 120_000, async () => {
    const { bytes } = await api.download(`${logPath(pod)}?tailLines=1`);
    return bytes === LAST_LINE.length || undefined;
  });
}

/** Returns the time in which a client receives the log of the pod, in milliseconds. Throws unless all of it arrives. */
export async function measureLog(api: NodeApi, pod: string): Promise<number> {
  const { ms, bytes } = await api.download(logPath(pod));
  const expected = LOG_MB * 1e6 + LAST_LINE.length;
  if (bytes !== expected) throw new Error(`the log of ${pod} brought ${bytes} of ${expected} B`);
  return ms;
}

/**
 * Reads each page `turns` times, `betweenMs` after the turn before. An agent that has not measured for long has to measure
 * twice, so there is a turn before the first one. A page that fails then is left out: on some machines the kubelet does not
 * find the file system of its root directory.
 */
export async function measurePages(apis: PerAgent<NodeApi>, turns: number, betweenMs: number): Promise<PageTimes> {
  const turnsOf = (path: string, count: number) =>
    takeTurns(SIDES, count, async (side) => {
      await pause(betweenMs);
      const { ms } = await apis[side].readPage(path);
      return ms;
    });
  const measured = new Map<string, PerAgent<readonly number[]>>();
  for (const path of PAGES) {
    try {
      await turnsOf(path, 1);
    } catch (error) {
      console.warn(`left out: ${String(error)}`);
      continue;
    }
    measured.set(path, await turnsOf(path, turns));
  }
  return Object.fromEntries(measured) as PageTimes;
}

/** The usage of both agents for `windowMs` while `pages` and those of the agents' own metrics are read every 15 s. */
export async function measureScraped(
  apis: PerAgent<NodeApi>,
  pids: PerAgent<number>,
  pages: readonly string[],
  windowMs: number,
): Promise<PerAgent<UsageWindow>> {
  const from = performance.now();
  const scrape = async () => {
    for (let turn = 0; FIRST_SCRAPE_MS + turn * SCRAPE_MS < windowMs; turn++) {
      await pause(Math.max(0, from + FIRST_SCRAPE_MS + turn * SCRAPE_MS - performance.now()));
      for (const side of orderOf(SIDES, turn))
        for (const path of [...pages, ...SCRAPED]) await apis[side].readPage(path);
    }
  };
  const [window] = await Promise.all([measureWindow({ ...pids }, windowMs), scrape()]);
  return window;
}
