import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { startControlPlane } from "../../upstream/control-plane.ts";
import { builtVersion } from "../../upstream/programs.ts";
import { createPodNames, podShape } from "../bench-pod.ts";
import { connectApi } from "../cluster/api-client.ts";
import { watchApi } from "../cluster/api-watch.ts";
import { type AuditEvent, createAuditLog, describeRequest, kindOf } from "../cluster/audit-log.ts";
import { type ClusterBenchOptions, withNodes } from "../cluster/cluster-bench.ts";
import { alternate, type ClusterSubjects, deletePods, type PerAgent, startPods } from "../cluster/cluster-rounds.ts";
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
      const callsOf = (nodeName: string) => proxies.get(nodeName)?.calls ?? [];
      return await Promise.race([measureStarts({ ...shared, members }, callsOf, effort), interruption]);
    });
  } finally {
    for (const proxy of proxies.values()) await proxy.close();
    api.close();
    await plane.stop();
  }
}

/** After a start both agents finish their work, and the API server writes its audit log. */
const SETTLE_MS = 1_000;

interface MeasuredStart {
  readonly name: string;
  readonly nodeName: string;
  readonly createdAt: number;
  readonly shownAt: number;
  readonly readyAt: number;
}

async function measureStarts(
  subjects: ClusterSubjects,
  callsOf: (nodeName: string) => readonly PassedCall[],
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
    return measured[side].map((one) => timelineOf(one, callsOf(nodeName), events));
  };
  return { starts: { kubelet: await timelines("kubelet"), berth: await timelines("berth") } };
}

function timelineOf(one: MeasuredStart, calls: readonly PassedCall[], events: readonly AuditEvent[]): StartTimeline {
  const { name, createdAt, shownAt, readyAt } = one;
  const steps = [...runtimeSteps(calls, name, one), ...apiSteps(events, one)];
  return {
    shownMs: shownAt - createdAt,
    readyMs: readyAt - createdAt,
    steps: steps.toSorted((a, b) => a.from - b.from),
  };
}

/** The requests of a node during the start, except for those that every node repeats. Watches have no end. */
function apiSteps(events: readonly AuditEvent[], { createdAt, readyAt }: MeasuredStart): readonly Step[] {
  return events
    .filter((event) => kindOf(event) === "other")
    .map((event) => ({
      ...{ of: "api" as const, what: describeRequest(event) },
      from: Date.parse(event.requestReceivedTimestamp) - createdAt,
      until: Date.parse(event.stageTimestamp ?? event.requestReceivedTimestamp) - createdAt,
    }))
    .filter(({ from, until }) => until > 0 && from < readyAt - createdAt);
}
