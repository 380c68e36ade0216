import { setTimeout as pause } from "node:timers/promises";
import { type ClusterSubjects, deletePods, SIGNAL_HANDLER_SETUP_MS, startPods } from "../cluster/cluster-rounds.ts";
import type { ComparedNode } from "../cluster/compared-node.ts";
import { statUsageOf } from "../process-usage.ts";

/** CPU times in milliseconds. Children are those that have ended, with all theirs: plugins, the delegate, iptables. */
export interface CpuParts {
  readonly agent: number;
  readonly agentChildren: number;
  readonly runtime: number;
  readonly runtimeChildren: number;
}

const parts = ["agent", "agentChildren", "runtime", "runtimeChildren"] as const;

const SETTLE_MS = 1000;
const CPU_PODS = 20;

/**
 * The CPU time that the network of one pod takes, ADD and DEL: what pods cost more than those of the host's network. The kernel
 * counts it for the processes alone, so that nothing else on the machine adds to it. In every second turn the host's network comes
 * first.
 */
export async function measureNetworkCpu(
  subjects: Pick<ClusterSubjects, "api" | "watch" | "names">,
  node: ComparedNode,
  turn: number,
): Promise<CpuParts> {
  const cpuOf = async (hostNetwork: boolean): Promise<CpuParts> => {
    const before = await cpuPartsOf(node);
    const names = subjects.names(CPU_PODS);
    await startPods(subjects, node, names, hostNetwork ? { hostNetwork } : {});
    await pause(SIGNAL_HANDLER_SETUP_MS);
    await deletePods(subjects, names);
    await pause(SETTLE_MS);
    return difference(await cpuPartsOf(node), before);
  };
  const isHostNetworkFirst = turn % 2 === 0;
  const first = await cpuOf(isHostNetworkFirst);
  const second = await cpuOf(!isHostNetworkFirst);
  const all = isHostNetworkFirst ? difference(second, first) : difference(first, second);
  return cpuPartsFrom((part) => all[part] / CPU_PODS);
}

/** The sum of all parts. */
export const totalOf = (cpu: CpuParts): number => parts.reduce((sum, part) => sum + cpu[part], 0);

const cpuPartsFrom = (of: (part: keyof CpuParts) => number): CpuParts =>
  Object.fromEntries(parts.map((part) => [part, of(part)])) as unknown as CpuParts;

const difference = (one: CpuParts, other: CpuParts): CpuParts => cpuPartsFrom((part) => one[part] - other[part]);

async function cpuPartsOf({ pid, runtime }: ComparedNode): Promise<CpuParts> {
  const [agent, container] = await Promise.all([statUsageOf(pid), statUsageOf(runtime.containerd.pid)]);
  return {
    agent: agent.ownCpuMs,
    agentChildren: agent.childrenCpuMs,
    runtime: container.ownCpuMs,
    runtimeChildren: container.childrenCpuMs,
  };
}
