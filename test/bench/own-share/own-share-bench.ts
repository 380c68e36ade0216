import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { startTraceCollector } from "../../fakes/trace-collector.ts";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { createPodNames, podShape } from "../bench-pod.ts";
import { connectApi } from "../cluster/api-client.ts";
import { watchApi } from "../cluster/api-watch.ts";
import { type AuditEvent, createAuditLog, describeRequest, kindOf } from "../cluster/audit-log.ts";
import { type ClusterBenchOptions, withNodes } from "../cluster/cluster-bench.ts";
import { alternate, type ClusterSubjects, deletePods, type PerAgent, startPods } from "../cluster/cluster-rounds.ts";
import { type ComparedNode, createBerthNode } from "../cluster/compared-node.ts";
import { type PassedCall, type RuntimeProxy, startRuntimeProxy } from "./runtime-proxy.ts";
import { runtimeSteps } from "./start-timeline.ts";
import type { StartTimeline, Step } from "./step.ts";
import { type SentTrace, tracedSteps } from "./traced-steps.ts";

export interface OwnShareEffort {
  readonly starts: number;
  /** How many starts of Berth are traced, after those that are measured: a trace costs time itself. */
  readonly tracedStarts: number;
}

export const thoroughOwnShareEffort: OwnShareEffort = { starts: 200, tracedStarts: 60 };
/** The fewest repetitions that decide anything. */
export const publishedOwnShareEffort: OwnShareEffort = { starts: 60, tracedStarts: 20 };
/** Shows that everything runs; decides nothing. */
export const quickOwnShareEffort: OwnShareEffort = { starts: 3, tracedStarts: 3 };

export const describeOwnShareEffort = ({ starts, tracedStarts }: OwnShareEffort): string =>
  `One pod ${starts} times, and ${tracedStarts} times with a trace, through a proxy on the runtime's socket that both agents have and that costs time itself; kubelet ${builtVersion().split("-")[0]} and berth alternated who began, as two nodes of one cluster. ${podShape}`;

export interface OwnShareResult {
  readonly starts: PerAgent<readonly StartTimeline[]>;
  /** Further starts of Berth, with its own steps. */
  readonly traced: readonly StartTimeline[];
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
    const callsOf = (nodeName: string) => proxies.get(nodeName)?.calls ?? [];
    const nodeOptions = { ...options, folder, connect };
    const starts = await withNodes(plane, nodeOptions, version, async (members) => {
      await Promise.all([members.kubelet.start(), members.berth.start()]);
      return await Promise.race([measureStarts({ ...shared, members }, callsOf, effort), interruption]);
    });
    return { starts, traced: await traceStarts(plane, shared, callsOf, nodeOptions) };
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

type CallsOf = (nodeName: string) => readonly PassedCall[];

async function measureStarts(
  subjects: ClusterSubjects,
  callsOf: CallsOf,
  { starts }: OwnShareEffort,
): Promise<OwnShareResult["starts"]> {
  const { members, audit, print } = subjects;
  const start = (member: ComparedNode) => measureStart(subjects, member);
  print("one pod through a proxy of the runtime, a warm-up turn");
  await alternate(members, 1, start);
  print(`one pod through a proxy of the runtime, ${starts} times each`);
  const measured = await alternate(members, starts, start);
  const timelines = async (side: keyof PerAgent<unknown>) => {
    const { nodeName } = members[side];
    const records = { calls: callsOf(nodeName), events: await audit.eventsOf(nodeName), spans: [], dirs: [] };
    return measured[side].map((one) => timelineOf(one, records));
  };
  return { kubelet: await timelines("kubelet"), berth: await timelines("berth") };
}

async function measureStart(subjects: Omit<ClusterSubjects, "members">, member: ComparedNode): Promise<MeasuredStart> {
  const [name = ""] = subjects.names(1);
  const createdAt = Date.now();
  const [shownAt, { wall }] = await Promise.all([
    subjects.watch.pod(name, "unready"),
    startPods(subjects, member, [name]),
  ]);
  await pause(SETTLE_MS);
  await deletePods(subjects, [name]);
  return { name, nodeName: member.nodeName, createdAt, shownAt, readyAt: createdAt + wall };
}

/** Starts pods on a node of its own, whose agent sends a trace of each start. */
async function traceStarts(
  plane: ControlPlane,
  subjects: Omit<ClusterSubjects, "members">,
  callsOf: CallsOf,
  {
    folder,
    version,
    connect,
    binary,
    effort,
    interruption,
  }: Omit<ClusterBenchOptions, "effort"> & {
    readonly effort: OwnShareEffort;
    readonly connect: (nodeName: string, endpoint: string) => Promise<string>;
  },
): Promise<readonly StartTimeline[]> {
  subjects.print(`one pod with a trace of its start, ${effort.tracedStarts} times`);
  const collector = await startTraceCollector();
  const configuration = { tracing: { endpoint: collector.endpoint, samplingRatePerMillion: 1_000_000 } };
  const node = await createBerthNode({ plane, folder, version, connect, configuration }, binary, { program: "traced" });
  const trace = async (): Promise<readonly StartTimeline[]> => {
    await node.start();
    const measured: MeasuredStart[] = [];
    // The first one is a warm-up.
    for (let count = 0; count <= effort.tracedStarts; count++) measured.push(await measureStart(subjects, node));
    // It sends the spans that it still has.
    await node.stop();
    const { nodeName } = node;
    const { agentRoot, podLogs } = bedPaths(join(folder, nodeName));
    const events = await subjects.audit.eventsOf(nodeName);
    const records = { calls: callsOf(nodeName), events, spans: collector.spans(), dirs: [agentRoot, podLogs] };
    return measured.slice(1).map((one) => timelineOf(one, records));
  };
  try {
    return await Promise.race([trace(), interruption]);
  } finally {
    await node.end();
    collector.stop();
  }
}

interface Records extends SentTrace {
  readonly calls: readonly PassedCall[];
  readonly events: readonly AuditEvent[];
}

function timelineOf(one: MeasuredStart, { calls, events, ...trace }: Records): StartTimeline {
  const { name, createdAt, shownAt, readyAt } = one;
  const traced = tracedSteps(trace, name, one);
  const steps = [...runtimeSteps(calls, name, one), ...apiSteps(events, one), ...traced];
  return {
    // The agent's watch may show the pod before the benchmark's.
    shownMs: Math.min(shownAt - createdAt, ...traced.map(({ from }) => from)),
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
