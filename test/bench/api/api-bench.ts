import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { script } from "../../e2e/manifest.ts";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { benchPod, createPodNames, podShape } from "../bench-pod.ts";
import { connectApi } from "../cluster/api-client.ts";
import { watchApi } from "../cluster/api-watch.ts";
import { type ClusterBenchOptions, withNodes } from "../cluster/cluster-bench.ts";
import { alternate, type ClusterSubjects, type PerAgent, restartOf, startPods } from "../cluster/cluster-rounds.ts";
import type { ComparedNode } from "../cluster/compared-node.ts";
import { measurePeriods, type Periods, type UsageWindow } from "../idle-windows.ts";
import {
  measureExec,
  measureSessionsAtOnce,
  measureStdout,
  SESSIONS,
  type SessionsAtOnce,
  STDOUT_MB,
} from "./exec-rounds.ts";
import { connectNodeApi, connectOnceReady, type NodeApi } from "./node-api.ts";
import {
  LINE_BYTES,
  LOG_MB,
  logScript,
  measureLog,
  measurePages,
  measureScraped,
  type PageTimes,
  SCRAPE_MS,
  waitForLog,
} from "./page-rounds.ts";
import { measureStatsPass, type StatsPassTimes } from "./stats-pass.ts";

export interface ApiEffort {
  readonly execs: number;
  /** How often the output of a container and each log are read. */
  readonly transfers: number;
  readonly sessionTurns: number;
  /** The number of pods on each node while pages are read. */
  readonly pods: number;
  readonly pageReads: number;
  readonly betweenReadsMs: number;
  /** The starts of both agents after each of which pages are scraped for `windowMs`. */
  readonly periods: number;
  readonly windowMs: number;
}

export const thoroughApiEffort: ApiEffort = {
  ...{ execs: 200, transfers: 15, sessionTurns: 7 },
  ...{ pods: 100, pageReads: 200, betweenReadsMs: 1_000, periods: 7, windowMs: 120_000 },
};
/** The fewest repetitions that decide anything. */
export const publishedApiEffort: ApiEffort = {
  ...{ execs: 60, transfers: 5, sessionTurns: 5 },
  ...{ pods: 100, pageReads: 60, betweenReadsMs: 1_000, periods: 5, windowMs: 60_000 },
};
/** Shows that everything runs; decides nothing. */
export const quickApiEffort: ApiEffort = {
  ...{ execs: 3, transfers: 1, sessionTurns: 1 },
  ...{ pods: 50, pageReads: 3, betweenReadsMs: 100, periods: 1, windowMs: 10_000 },
};

export function describeApiEffort(effort: ApiEffort): string {
  const { execs, transfers, sessionTurns, pods, pageReads, periods, windowMs } = effort;
  const streams = `exec of \`true\` ${execs} times, ${STDOUT_MB} MB of stdout and logs of ${LOG_MB} MB ${transfers} times, ${SESSIONS} sessions at once ${sessionTurns} times`;
  const pages = `with ${pods} more pods each page ${pageReads} times, and all pages every ${SCRAPE_MS / 1000} s for ${windowMs / 1000} s after each of ${periods} starts of both agents`;
  return `By a client with a certificate, directly at each node's port: ${streams}; ${pages}; kubelet ${builtVersion().split("-")[0]} and berth alternated who began, as two nodes of one cluster. ${podShape}`;
}

/** Times in milliseconds; the samples at the same place are a pair. */
export interface ApiResult {
  readonly execs: PerAgent<readonly number[]>;
  readonly stdout: PerAgent<readonly number[]>;
  /** In the order of the lengths of lines. */
  readonly logs: readonly PerAgent<readonly number[]>[];
  readonly sessions: PerAgent<readonly SessionsAtOnce[]>;
  readonly pods: number;
  readonly pages: PageTimes;
  readonly scraped: PerAgent<Periods<UsageWindow>>;
  readonly statsPass: StatsPassTimes;
}

/** Measures the APIs of the agent and the reference kubelet as nodes of one cluster. Always cleans up. */
export async function benchApi(
  options: Omit<ClusterBenchOptions, "effort"> & { readonly effort: ApiEffort },
): Promise<ApiResult> {
  const { folder: parent, version, effort, interruption } = options;
  const folder = join(parent, "api");
  await mkdir(folder, { recursive: true });
  console.log(`passes over a copied tree of cgroup v2, ${effort.pageReads} times each`);
  // Before there are pods: this process stands for each pod's, and its network namespace has every interface of the node.
  const statsPass = await measureStatsPass(effort.pageReads);
  const plane = await startControlPlane({ stateDir: join(folder, "plane"), print: console.log });
  const api = connectApi(plane);
  try {
    const shared = { api, watch: await watchApi(api), names: createPodNames(), print: console.log };
    const nodes = { ...options, folder, configuration: withoutRotation };
    return await withNodes(plane, nodes, version, async (members) => {
      await Promise.all([members.kubelet.start(), members.berth.start()]);
      const subjects = { ...shared, members };
      const measure = async () => {
        const streamed = await startStreamedPods(subjects);
        const connect = ({ nodeName }: ComparedNode) => connectNodeApi(nodeName, api, plane);
        const apis = { kubelet: await connect(members.kubelet), berth: await connect(members.berth) };
        try {
          const measured = await measureApis(subjects, apis, streamed, effort);
          const connectAgain = (member: ComparedNode) => connectNewAgent(member, () => connect(member));
          const scraped = await measureScrapes(subjects, connectAgain, Object.keys(measured.pages), effort);
          return { ...measured, scraped, statsPass };
        } finally {
          apis.kubelet.close();
          apis.berth.close();
        }
      };
      return await Promise.race([measure(), interruption]);
    });
  } finally {
    api.close();
    await plane.stop();
  }
}

/** The measured logs stay in one file. */
const withoutRotation = { containerLogMaxSize: "500Mi" };

type Subjects = Omit<ClusterSubjects, "audit">;

/** The pod of a node in which commands run, and those with the logs. */
interface StreamedPods {
  readonly exec: string;
  readonly logs: readonly string[];
}

async function startStreamedPods(subjects: Subjects): Promise<PerAgent<StreamedPods>> {
  const { members, names } = subjects;
  const start = async (member: ComparedNode): Promise<StreamedPods> => {
    const [exec = "", ...logs] = names(1 + LINE_BYTES.length);
    await startPods(subjects, member, [exec]);
    for (const [at, name] of logs.entries()) {
      const command = script(logScript(LINE_BYTES[at] ?? Number.NaN));
      const containers = benchPod("").spec.containers.map((container) => ({ ...container, command }));
      await startPods(subjects, member, [name], { containers });
    }
    return { exec, logs };
  };
  return { kubelet: await start(members.kubelet), berth: await start(members.berth) };
}

async function measureApis(
  subjects: Subjects,
  apis: PerAgent<NodeApi>,
  streamed: PerAgent<StreamedPods>,
  effort: ApiEffort,
): Promise<Omit<ApiResult, "statsPass" | "scraped">> {
  const { members, names, print } = subjects;
  const { execs: execTurns, transfers, sessionTurns, pods, pageReads, betweenReadsMs } = effort;
  const perSide = <T>(turns: number, measure: (api: NodeApi, pod: StreamedPods, pid: number) => Promise<T>) =>
    alternate(members, turns, (member) => {
      const side = member === members.berth ? "berth" : "kubelet";
      return measure(apis[side], streamed[side], member.pid);
    });
  for (const side of ["kubelet", "berth"] as const)
    for (const pod of streamed[side].logs) await waitForLog(apis[side], pod);
  print(`exec of true, ${execTurns} times each, after a warm-up turn`);
  await perSide(1, ({ server }, { exec }) => measureExec(server, exec));
  const execs = await perSide(execTurns, ({ server }, { exec }) => measureExec(server, exec));
  print(`${STDOUT_MB} MB of stdout, and logs of ${LOG_MB} MB, ${transfers} times each`);
  const stdout = await perSide(transfers, ({ server }, { exec }) => measureStdout(server, exec));
  const logs: PerAgent<readonly number[]>[] = [];
  for (const at of LINE_BYTES.keys())
    logs.push(await perSide(transfers, (api, pod) => measureLog(api, pod.logs[at] ?? "")));
  print(`${SESSIONS} exec sessions at once, ${sessionTurns} times each`);
  const sessions = await perSide(sessionTurns, ({ server }, { exec }, pid) => measureSessionsAtOnce(server, exec, pid));
  print(`${pods} pods on each node; each page, ${pageReads} times each`);
  await startPods(subjects, members.kubelet, names(pods));
  await startPods(subjects, members.berth, names(pods));
  const pages = await measurePages(apis, pageReads, betweenReadsMs);
  return { execs, stdout, logs, sessions, pods, pages };
}

/** A newly started agent has looked at its pods by then. */
const SETTLE_MS = 10_000;

/** The usage of newly started agents while pages are scraped. The pods keep running. */
async function measureScrapes(
  { members, print }: Subjects,
  connect: (member: ComparedNode) => Promise<NodeApi>,
  pages: readonly string[],
  { periods, windowMs }: ApiEffort,
): Promise<ApiResult["scraped"]> {
  print(`all pages every ${SCRAPE_MS / 1000} s, ${periods} × ${windowMs / 1000} s`);
  return await measurePeriods(["kubelet", "berth"], periods, restartOf(members), async () => {
    const apis = { kubelet: await connect(members.kubelet), berth: await connect(members.berth) };
    try {
      await pause(SETTLE_MS);
      const pids = { kubelet: members.kubelet.pid, berth: members.berth.pid };
      return await measureScraped(apis, pids, pages, windowMs);
    } finally {
      apis.kubelet.close();
      apis.berth.close();
    }
  });
}

const CONNECT_TIMEOUT_MS = 60_000;

function connectNewAgent({ nodeName }: ComparedNode, connect: () => Promise<NodeApi>): Promise<NodeApi> {
  return connectOnceReady(`the API of ${nodeName}`, CONNECT_TIMEOUT_MS, connect);
}
