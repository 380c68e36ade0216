import { setTimeout as pause } from "node:timers/promises";
import type { Container } from "../../../proto/kubernetes/gen/types.ts";
import { benchPod } from "../bench-pod.ts";
import { alternate, type ClusterSubjects, deletePods, type PerAgent, startPods } from "../cluster/cluster-rounds.ts";
import type { Periods, UsageWindow } from "../idle-windows.ts";
import type { Round } from "../measure-rounds.ts";
import { usageOf } from "../process-usage.ts";
import { measureNewAgents, type ProbeEffort } from "./probe-rounds.ts";
import { startTcpProbeTarget } from "./probe-targets.ts";

/** The number of pods that start at once: fewer than elsewhere, because five pairs of a hundred take too long. */
export const PROBED_BATCH = 30;

/** One turn of pods that start at once and whose containers have two probes, a postStart hook and a preStop hook. */
export interface ProbedPods {
  readonly ready: Round;
  readonly gone: Round;
  /** CPU time of the agent until one second after the last pod was Ready. */
  readonly startCpuMs: number;
}

/** The turns, and the usage of newly started agents while only the probes run. */
export interface ProbedPodRounds {
  readonly rounds: readonly ProbedPods[];
  readonly rest: Periods<UsageWindow>;
}

type Subjects = Omit<ClusterSubjects, "audit">;

const AFTER_START_MS = 1_000;

/** Both agents start and delete such pods in turns. Then both run them at the same time. */
export async function measureProbedPods(
  subjects: Subjects,
  effort: Pick<ProbeEffort, "periods" | "periodMs"> & { readonly probedBatches: number },
): Promise<PerAgent<ProbedPodRounds>> {
  const { members, names, print } = subjects;
  const target = await startTcpProbeTarget();
  try {
    print(`${PROBED_BATCH} pods at once with probes and hooks, ${effort.probedBatches} times each`);
    const overrides = { containers: [probedContainer(target.port)] };
    const rounds = await alternate(members, effort.probedBatches, async (member): Promise<ProbedPods> => {
      const pods = names(PROBED_BATCH);
      const before = await usageOf(member.pid);
      const ready = await startPods(subjects, member, pods, overrides);
      await pause(AFTER_START_MS);
      const startCpuMs = (await usageOf(member.pid)).cpuMs - before.cpuMs;
      return { ready, startCpuMs, gone: await deletePods(subjects, pods) };
    });
    print(`${effort.periods} × ${effort.periodMs / 1000} s with such pods`);
    const resting = { kubelet: names(PROBED_BATCH), berth: names(PROBED_BATCH) };
    await startPods(subjects, members.kubelet, resting.kubelet, overrides);
    await startPods(subjects, members.berth, resting.berth, overrides);
    const rest = await measureNewAgents(members, effort);
    await Promise.all([deletePods(subjects, resting.kubelet), deletePods(subjects, resting.berth)]);
    return {
      kubelet: { rounds: rounds.kubelet, rest: rest.kubelet },
      berth: { rounds: rounds.berth, rest: rest.berth },
    };
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
