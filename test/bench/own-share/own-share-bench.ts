import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { createPodNames, podShape } from "../bench-pod.ts";
import { connectApi } from "../cluster/api-client.ts";
import { watchApi } from "../cluster/api-watch.ts";
import { type AuditEvent, createAuditLog, describeRequest, kindOf } from "../cluster/audit-log.ts";
import { type ClusterBenchOptions, withNodes } from "../cluster/cluster-bench.ts";
import { alternate, type ClusterSubjects, deletePods, type PerAgent, startPods } from "../cluster/cluster-rounds.ts";
import { agentLogSteps } from "./agent-log-steps.ts";
import { type PassedCall, type RuntimeProxy, startRuntimeProxy } from "./runtime-proxy.ts";
import { runtimeSteps, type StartTimeline, type Step } from "./start-timeline.ts";

export interface OwnShareEffort {
  readonly starts: number;
}

export const thoroughOwnShareEffort: OwnShareEffort = { starts: 200 };
/** The fewest repetitions that decide anything. */
export const publishedOwnShareEffort: OwnShareEffort = { starts: 60 };
/** Shows that everything runs; decides nothing. */
export const quickOwnShareEffort: OwnShareEffort = { starts: 3 };

export const describeOwnShareEffort = ({ starts }: OwnShareEffort): string =>
  `One pod ${starts} times, through a proxy on the runtime's socket that both agents have and that costs time itself; kubelet ${builtVersion().split("-")[0]} and berth alternated who began, as two nodes of one cluster. ${podShape}`;

export interface OwnShareResult {
  readonly starts: PerAgent<readonly StartTimeline[]>;
}

/** Measures which part of a start each agent takes for itself. Always cleans up. */
export async function benchOwnShare(
  options: Omit<ClusterBenchOptions, "effort"> & { readonly effort: OwnShareEffort },
): Promise<OwnShareResult> {
  const { folder: parent, version, effort, interruption } = options;
  const folder = join(parent, "own-share");
  await mkdir(folder, { recursive: true });
  const audit = await createAuditLog(folder);
  const flags = { "kube-apiserver": audit.flags };
  const plane = await startControlPlane({ stateDir: join(folder, "plane"), print: console.log, flags });
  const api = connectApi(plane);
  const proxies = new Map<string, RuntimeProxy>();
  const connect = async (nodeName: string, endpoint: string) => {
    const proxy = await startRuntimeProxy(endpoint, join(folder, `${nodeName}.sock`));
    proxies.set(nodeName, proxy);
    return proxy.endpoint;
  };
  try {
    const shared = { api, audit, watch: await watchApi(api), names: createPodNames(), print: console.log };
    return await withNodes(plane, { ...options, folder, connect }, version, async (members) => {
      await Promise.all([members.kubelet.start(), members.berth.start()]);
      const sources = {
        callsOf: (nodeName: string) => proxies.get(nodeName)?.calls ?? [],
        agentLog: bedPaths(join(folder, members.berth.nodeName)).agentLog,
      };
      return await Promise.race([measureStarts({ ...shared, members }, sources, effort), interruption]);
    });
  } finally {
    for (const proxy of proxies.values()) await proxy.close();
    api.close();
    await plane.stop();
  }
}

/** After a start the agent finishes its work. */
const SETTLE_MS = 400;

interface MeasuredStart {
  readonly name: string;
  readonly nodeName: string;
  readonly createdAt: number;
  readonly shownAt: number;
  readonly readyAt: number;
}

interface Sources {
  readonly callsOf: (nodeName: string) => readonly PassedCall[];
  readonly agentLog: string;
}

async function measureStarts(
  subjects: ClusterSubjects,
  { callsOf, agentLog }: Sources,
  { starts }: OwnShareEffort,
): Promise<OwnShareResult> {
  const { members, audit, print } = subjects;
  const start = async ({ nodeName }: (typeof members)["berth"]): Promise<MeasuredStart> => {
    const [name = ""] = subjects.names(1);
    const member = nodeName === members.berth.nodeName ? members.berth : members.kubelet;
    const createdAt = Date.now();
    const [shownAt, { wall }] = await Promise.all([
      subjects.watch.pod(name, "unready"),
      startPods(subjects, member, [name]),
    ]);
    await pause(SETTLE_MS);
    await deletePods(subjects, [name]);
    return { name, nodeName, createdAt, shownAt, readyAt: createdAt + wall };
  };
  print("one pod through a proxy of the runtime, a warm-up turn");
  await alternate(members, 1, start);
  print(`one pod through a proxy of the runtime, ${starts} times each`);
  const measured = await alternate(members, starts, start);
  const timelines = async (side: keyof PerAgent<unknown>) => {
    const { nodeName } = members[side];
    const events = await audit.eventsOf(nodeName);
    // The kubelet's log has no durations.
    const log = side === "berth" ? await readFile(agentLog, "utf8") : "";
    return measured[side].map((one) => timelineOf(one, { calls: callsOf(nodeName), events, log }));
  };
  return { starts: { kubelet: await timelines("kubelet"), berth: await timelines("berth") } };
}

interface Records {
  readonly calls: readonly PassedCall[];
  readonly events: readonly AuditEvent[];
  readonly log: string;
}

function timelineOf(one: MeasuredStart, { calls, events, log }: Records): StartTimeline {
  const { name, createdAt, shownAt, readyAt } = one;
  const runtime = runtimeSteps(calls, name, one);
  const steps = [...runtime, ...apiSteps(events, one), ...agentLogSteps(log, name, one, runtime)];
  return {
    shownMs: shownAt - createdAt,
    readyMs: readyAt - createdAt,
    steps: steps.toSorted((a, b) => a.from - b.from),
  };
}

/**
 * The requests of a node during the start, except for those that every node repeats. One that began before belongs to
 * the previous pod.
 */
function apiSteps(events: readonly AuditEvent[], { createdAt, readyAt }: MeasuredStart): readonly Step[] {
  return events
    .filter((event) => kindOf(event) === "other")
    .map((event) => ({
      ...{ of: "api" as const, what: describeRequest(event) },
      from: millisecondsOf(event.requestReceivedTimestamp) - createdAt,
      until: millisecondsOf(event.stageTimestamp ?? event.requestReceivedTimestamp) - createdAt,
    }))
    .filter(({ from }) => from >= 0 && from < readyAt - createdAt);
}

/** An audit log has microseconds, which a Date does not. */
function millisecondsOf(timestamp: string): number {
  const microseconds = /\.\d{3}(\d{3})/.exec(timestamp)?.[1] ?? "0";
  return Date.parse(timestamp) + Number(microseconds) / 1000;
}
