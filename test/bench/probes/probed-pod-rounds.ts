import { setTimeout as pause } from "node:timers/promises";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { benchPod } from "../bench-pod.ts";
import { type ClusterSubjects, deletePods, type PerAgent, startPods } from "../cluster/cluster-rounds.ts";
import type { ComparedNode } from "../cluster/compared-node.ts";
import { BATCH_SIZE } from "../floor/floor-rounds.ts";
import type { Round } from "../measure-rounds.ts";
import { type Memory, memoryOf, usageOf } from "../process-usage.ts";
import { type CpuUsage, usageWithin } from "./probe-rounds.ts";
import { startTcpProbeTarget } from "./probe-targets.ts";

/** The figures of pods that start at once and whose containers have two probes, a postStart hook and a preStop hook. */
export interface ProbedPods {
  readonly ready: Round;
  readonly gone: Round;
  /** CPU time of the agent until one second after the last pod was Ready. */
  readonly startCpuMs: number;
  /** The agent's usage while only the probes run. */
  readonly rest: CpuUsage;
  readonly memory: Memory;
}

type Subjects = Omit<ClusterSubjects, "audit">;

const AFTER_START_MS = 1_000;
const SETTLE_MS = 10_000;

/** Starts and deletes such pods on one node after the other. In between both run them for `restMs` at the same time. */
export async function measureProbedPods(subjects: Subjects, restMs: number): Promise<PerAgent<ProbedPods>> {
  const { members, names, print } = subjects;
  const { kubelet, berth } = members;
  const target = await startTcpProbeTarget();
  try {
    print(`${BATCH_SIZE} pods at once with probes and hooks, and ${restMs / 1000} s with them`);
    const specOverrides = { containers: [probedContainer(target.port)] };
    const start = async (member: ComparedNode) => {
      const pods = names(BATCH_SIZE);
      const before = await usageOf(member.pid);
      const ready = await startPods(subjects, member, pods, specOverrides);
      await pause(AFTER_START_MS);
      return { pods, ready, startCpuMs: (await usageOf(member.pid)).cpuMs - before.cpuMs };
    };
    const started = { kubelet: await start(kubelet), berth: await start(berth) };
    await pause(SETTLE_MS);
    const rest = await usageWithin(members, restMs);
    const end = async (which: keyof PerAgent<unknown>): Promise<ProbedPods> => {
      const { pods, ...startFigures } = started[which];
      const memory = await memoryOf(members[which].pid);
      return { ...startFigures, rest: rest[which], memory, gone: await deletePods(subjects, pods) };
    };
    return { kubelet: await end("kubelet"), berth: await end("berth") };
  } finally {
    await target.close();
  }
}

/**
 * The container with probes of Kubernetes' default period. They connect to the node's own address, to leave out the pod
 * network.
 */
function probedContainer(port: number): Container {
  const [container] = benchPod("").spec.containers;
  if (container === undefined) throw new Error("the pod of the bench has no container");
  const probe = { tcpSocket: { host: "127.0.0.1", port }, periodSeconds: 10 };
  const hook = { exec: { command: ["true"] } };
  return { ...container, readinessProbe: probe, livenessProbe: probe, lifecycle: { postStart: hook, preStop: hook } };
}
