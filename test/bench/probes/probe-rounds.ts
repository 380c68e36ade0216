import { setTimeout as pause } from "node:timers/promises";
import type { Container, Probe } from "../../../proto/kubernetes/gen/types.ts";
import { benchPod } from "../bench-pod.ts";
import { podsPath } from "../cluster/api-watch.ts";
import {
  alternate,
  type ClusterSubjects,
  deletePods,
  type PerAgent,
  restartOf,
  startPods,
} from "../cluster/cluster-rounds.ts";
import { measurePeriods, measureWindow, type Periods, type UsageWindow } from "../idle-windows.ts";
import { type ProbeTarget, startHttpProbeTarget, startReadinessServer, startTcpProbeTarget } from "./probe-targets.ts";

/** The number of containers that are probed. */
export const PROBES = 50;

export interface ProbeEffort {
  /** The starts of both agents after each of which they run pods without probes, and probed ones, for `periodMs`. */
  readonly periods: number;
  readonly periodMs: number;
  /** The number of readiness changes. */
  readonly changes: number;
}

export type ProbeKind = "tcp" | "http" | "exec";

/**
 * How often each container is probed. An exec probe starts a process in the container, which the machine cannot do fifty
 * times a second for both agents.
 */
export const PERIOD_SECONDS: Readonly<Record<ProbeKind, number>> = { tcp: 1, http: 1, exec: 10 };

export interface ProbingCost {
  /** The usage with as many pods without probes. */
  readonly unprobed: Periods<UsageWindow>;
  readonly probed: Readonly<Record<ProbeKind, Periods<UsageWindow>>>;
  /** The number of probes that the servers counted in all windows together. */
  readonly counted: Readonly<Record<"tcp" | "http", number>>;
}

export interface ReadinessChanges {
  /** From the first changed probe answer to the pod's `Ready` condition in the API. */
  readonly agents: PerAgent<readonly number[]>;
  /** From a patch of that condition by the benchmark to the watch event. */
  readonly floor: readonly number[];
}

type Subjects = Omit<ClusterSubjects, "audit">;

/** Probes connect to the node's own address, to leave out the pod network. */
const host = "127.0.0.1";
/** A newly started agent has looked at its pods by then. */
const SETTLE_MS = 10_000;

/** Measures the usage with pods without probes and then with each kind of probes, on both nodes at the same time. */
export async function measureProbing(subjects: Subjects, effort: ProbeEffort): Promise<PerAgent<ProbingCost>> {
  const { members, print } = subjects;
  const often = `${effort.periods} × ${effort.periodMs / 1000} s`;
  print(`${PROBES} pods without probes, ${often}`);
  const unprobed = await withPods(
    subjects,
    () => ({}),
    () => measureNewAgents(members, effort),
  );
  const probe = async (kind: ProbeKind, start: () => Promise<ProbeTarget>) => {
    print(`${PROBES} pods with ${kind} probes, ${often}`);
    const targets = { kubelet: await start(), berth: await start() };
    try {
      const probes = (side: Side) => ({ readinessProbe: probeOf(kind, targets[side].port) });
      return await withPods(subjects, probes, async () => {
        const counted = { kubelet: 0, berth: 0 };
        const windows = await measureNewAgents(members, effort, async (work) => {
          const before = { kubelet: targets.kubelet.count, berth: targets.berth.count };
          const measured = await work();
          for (const side of AGENTS) counted[side] += targets[side].count - before[side];
          return measured;
        });
        return { windows, counted };
      });
    } finally {
      await Promise.all([targets.kubelet.close(), targets.berth.close()]);
    }
  };
  const tcp = await probe("tcp", startTcpProbeTarget);
  const http = await probe("http", startHttpProbeTarget);
  const exec = await probe("exec", startTcpProbeTarget);
  const costOf = (side: Side): ProbingCost => ({
    unprobed: unprobed[side],
    probed: { tcp: tcp.windows[side], http: http.windows[side], exec: exec.windows[side] },
    counted: { tcp: tcp.counted[side], http: http.counted[side] },
  });
  return { kubelet: costOf("kubelet"), berth: costOf("berth") };
}

const AGENTS = ["kubelet", "berth"] as const;
type Side = (typeof AGENTS)[number];

/** The usage of both agents in windows of `periodMs`, each after a start of both. Their pods keep running. `around` surrounds each window. */
export async function measureNewAgents(
  members: ClusterSubjects["members"],
  { periods, periodMs }: Pick<ProbeEffort, "periods" | "periodMs">,
  around: (window: () => Promise<PerAgent<UsageWindow>>) => Promise<PerAgent<UsageWindow>> = (window) => window(),
): Promise<PerAgent<Periods<UsageWindow>>> {
  return await measurePeriods(AGENTS, periods, restartOf(members), async () => {
    await pause(SETTLE_MS);
    return await around(() => measureWindow({ kubelet: members.kubelet.pid, berth: members.berth.pid }, periodMs));
  });
}

function probeOf(kind: ProbeKind, port: number): Probe {
  const period = { periodSeconds: PERIOD_SECONDS[kind] };
  switch (kind) {
    case "tcp":
      return { tcpSocket: { host, port }, ...period };
    case "http":
      return { httpGet: { host, port }, ...period };
    case "exec":
      return { exec: { command: ["true"] }, ...period };
  }
}

/** Runs `work` while each node runs pods with these probes. */
async function withPods<T>(
  subjects: Subjects,
  probes: (side: Side) => Pick<Container, "readinessProbe">,
  work: () => Promise<T>,
): Promise<T> {
  const { members } = subjects;
  const podsOf = { kubelet: subjects.names(PROBES), berth: subjects.names(PROBES) };
  const start = (side: Side) =>
    startPods(subjects, members[side], podsOf[side], { containers: [probedContainer(probes(side))] });
  await Promise.all([start("kubelet"), start("berth")]);
  const result = await work();
  await Promise.all([deletePods(subjects, podsOf.kubelet), deletePods(subjects, podsOf.berth)]);
  return result;
}

/**
 * Measures readiness changes of one pod per node, which is probed every second and becomes ready and unready in turn.
 */
export async function measureReadiness(subjects: Subjects, effort: ProbeEffort): Promise<ReadinessChanges> {
  const { members, watch, names, print } = subjects;
  print(`probe answer → pod readiness, ${effort.changes} times each`);
  const server = await startReadinessServer();
  try {
    const podOf = new Map([members.kubelet, members.berth].map((member) => [member, names(1)[0] ?? ""]));
    for (const [member, name] of podOf) {
      const httpGet = { host, port: server.port, path: `/${name}` };
      const readinessProbe = { httpGet, periodSeconds: 1, failureThreshold: 1 };
      const ready = startPods(subjects, member, [name], { containers: [probedContainer({ readinessProbe })] });
      await Promise.all([ready, server.setReady(name, true)]);
    }
    const [floorPod = ""] = names(1);
    await subjects.api.create(podsPath, unboundPod(floorPod));
    const floor: number[] = [];
    const agents = await alternate(members, effort.changes, async (member, turn) => {
      const isReady = turn % 2 === 1;
      const milestone = isReady ? "ready" : "unready";
      if (member === members.kubelet) {
        const shown = watch.pod(floorPod, milestone);
        const sentAt = Date.now();
        await subjects.api.patch(`${podsPath}/${floorPod}/status`, readyStatus(isReady));
        floor.push((await shown) - sentAt);
      }
      const name = podOf.get(member) ?? "";
      const [seen, answered] = await Promise.all([watch.pod(name, milestone), server.setReady(name, isReady)]);
      return seen - answered;
    });
    return { agents, floor };
  } finally {
    await server.close();
  }
}

const readyStatus = (isReady: boolean) => ({
  status: { conditions: [{ type: "Ready", status: isReady ? "True" : "False" }] },
});

/** A pod without a node: only the benchmark writes its status. */
function unboundPod(name: string) {
  const pod = benchPod(name);
  return { ...pod, spec: { ...pod.spec, schedulerName: "none", automountServiceAccountToken: false } };
}

function probedContainer(probes: Pick<Container, "readinessProbe">): Container {
  const [container] = benchPod("").spec.containers;
  if (container === undefined) throw new Error("the pod of the bench has no container");
  return { ...container, ...probes };
}
