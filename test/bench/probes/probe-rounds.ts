import { setTimeout as pause } from "node:timers/promises";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { benchPod } from "../bench-pod.ts";
import { podsPath } from "../cluster/api-watch.ts";
import { alternate, type ClusterSubjects, deletePods, type PerAgent, startPods } from "../cluster/cluster-rounds.ts";
import type { ComparedNode } from "../cluster/compared-node.ts";
import { usageOf } from "../process-usage.ts";
import { startReadinessServer, startTcpProbeTarget, type TcpProbeTarget } from "./probe-targets.ts";

/** The number of containers that are probed every second. */
export const PROBES = 50;

export interface ProbeEffort {
  /** The duration of the measurement with pods without probes, and with probed pods. */
  readonly unprobedMs: number;
  readonly probedMs: number;
  /** The number of readiness changes. */
  readonly changes: number;
}

/** The CPU time of an agent within a time. */
export interface CpuUsage {
  readonly lastedMs: number;
  readonly cpuMs: number;
}

export interface ProbingCost {
  /** The usage with as many pods without probes. */
  readonly unasked: CpuUsage;
  readonly asked: CpuUsage;
  /** The number of connections during the measurement. */
  readonly probes: number;
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
const SETTLE_MS = 5_000;

/** Measures the usage with pods without probes and then with probed pods, on both nodes at the same time. */
export async function measureProbing(subjects: Subjects, effort: ProbeEffort): Promise<PerAgent<ProbingCost>> {
  const { members, print } = subjects;
  const targets = { kubelet: await startTcpProbeTarget(), berth: await startTcpProbeTarget() };
  try {
    print(`${PROBES} pods without probes, ${effort.unprobedMs / 1000} s`);
    const before = await withPods(subjects, undefined, () => usageWithin(members, effort.unprobedMs));
    print(`${PROBES} TCP probes a second, ${effort.probedMs / 1000} s`);
    return await withPods(subjects, targets, async () => {
      const counted = countOf(targets);
      const after = await usageWithin(members, effort.probedMs);
      const now = countOf(targets);
      const probingOf = (which: keyof PerAgent<unknown>): ProbingCost => ({
        unasked: before[which],
        asked: after[which],
        probes: now[which] - counted[which],
      });
      return { kubelet: probingOf("kubelet"), berth: probingOf("berth") };
    });
  } finally {
    await Promise.all([targets.kubelet.close(), targets.berth.close()]);
  }
}

const countOf = ({ kubelet, berth }: PerAgent<TcpProbeTarget>): PerAgent<number> => ({
  kubelet: kubelet.count,
  berth: berth.count,
});

/** Runs `work` while each node runs the pods, which probe the node's target if there are targets. */
async function withPods<T>(
  subjects: Subjects,
  targets: PerAgent<TcpProbeTarget> | undefined,
  work: () => Promise<T>,
): Promise<T> {
  const { members } = subjects;
  const podsOf = { kubelet: subjects.names(PROBES), berth: subjects.names(PROBES) };
  const start = (which: keyof PerAgent<unknown>) => {
    const tcpSocket = { host, port: targets?.[which].port ?? 0 };
    const probes = targets === undefined ? {} : { readinessProbe: { tcpSocket, periodSeconds: 1 } };
    return startPods(subjects, members[which], podsOf[which], { containers: [probedContainer(probes)] });
  };
  await Promise.all([start("kubelet"), start("berth")]);
  await pause(SETTLE_MS);
  const result = await work();
  await Promise.all([deletePods(subjects, podsOf.kubelet), deletePods(subjects, podsOf.berth)]);
  return result;
}

/** Measures the usage of both agents within the same time. */
export async function usageWithin({ kubelet, berth }: PerAgent<ComparedNode>, ms: number): Promise<PerAgent<CpuUsage>> {
  const read = () => Promise.all([usageOf(kubelet.pid), usageOf(berth.pid)]);
  const from = performance.now();
  const before = await read();
  await pause(ms);
  const after = await read();
  const lastedMs = performance.now() - from;
  const of = (at: 0 | 1): CpuUsage => ({ lastedMs, cpuMs: after[at].cpuMs - before[at].cpuMs });
  return { kubelet: of(0), berth: of(1) };
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
