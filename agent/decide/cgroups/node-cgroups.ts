import { cpuWeight } from "../../../proto/cgroup/cpu-units.ts";
import { hugePageName, unlimitedHugePages } from "../../../proto/cgroup/huge-pages.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import { pidsMax } from "../../../proto/cgroup/pids-limit.ts";
import type { NodeAllocatableEnforcement } from "../../../proto/kubelet/config.ts";
import type { ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import {
  type ParsedQuantity,
  subtractQuantities,
  toMilli,
  toNumber,
} from "../../../proto/kubernetes/values/quantity.ts";
import { readQuantity } from "../node/eviction-thresholds.ts";
import { type ReservationSettings, reservedResources } from "../node/reservations.ts";

/** What the cgroups of the node depend on besides its pods. */
export interface NodeCgroupInput {
  /** CPU, memory and, where it is known, `pid` of the machine. */
  readonly capacity: ResourceList;
  /** The kernel's list, such as `0-3`; empty if it is unknown, and then no cgroup is limited to CPUs. */
  readonly onlineCpus: string;
  /** The kernel's huge page sizes, in bytes. */
  readonly hugePageSizes: readonly number[];
  /** The feature gate `MemoryQoS`. */
  readonly memoryQoS: boolean;
}

type NodeCgroupSettings = ReservationSettings & {
  readonly enforceNodeAllocatable: readonly NodeAllocatableEnforcement[];
};

/** An existing cgroup of the operating system or of Kubernetes' daemons, and what it is limited to. */
export interface ReservedCgroup {
  readonly owner: "system" | "kube";
  readonly limits: CgroupLimits;
}

/**
 * The limits of the kubepods cgroup, which all pods share: what the machine has less what is reserved, without the
 * eviction thresholds, so that pods are evicted before the kernel kills one of their processes. While `pods` is not
 * enforced, it is all that the machine has: with the weight of a new cgroup, pods would get too little CPU. Huge pages are unlimited, since the machine has no more of them than pods may use. Rule: the kubelet's
 * enforceNodeAllocatableCgroups, and setHugePagesConfig, which overwrites its limits of huge pages within a minute.
 */
export function kubepodsLimits(
  { capacity, onlineCpus, hugePageSizes }: NodeCgroupInput,
  settings: NodeCgroupSettings,
): CgroupLimits {
  const { system, kube } = reservedResources(settings);
  const reservations = settings.enforceNodeAllocatable.includes("pods") ? [system, kube] : [];
  const amountOf = (name: string): ParsedQuantity | undefined => {
    const all = capacity[name];
    return all === undefined
      ? undefined
      : reservations.reduce((left, each) => subtractQuantities(left, readQuantity(each[name])), readQuantity(all));
  };
  return {
    ...limitsOf(amountOf),
    ...cpusOf(onlineCpus),
    hugetlbMax: unlimitedHugePages(hugePageSizes),
  };
}

/**
 * The limits of the cgroups whose reservations are enforced: with `-compressible` CPU alone, else also memory, processes
 * and huge pages, of which they get none. A resource without a reservation is not limited. The cgroups are those of
 * `systemReservedCgroup` and `kubeReservedCgroup`, which exist. Rule: the kubelet's enforceExistingCgroup, which also
 * takes the huge pages from a cgroup with `-compressible`.
 */
export function reservedCgroups(
  { onlineCpus, hugePageSizes, memoryQoS }: NodeCgroupInput,
  settings: NodeCgroupSettings,
): readonly ReservedCgroup[] {
  const reserved = reservedResources(settings);
  return (["system", "kube"] as const).flatMap((owner): readonly ReservedCgroup[] => {
    const isEnforced = (level: NodeAllocatableEnforcement) => settings.enforceNodeAllocatable.includes(level);
    const amountOf = (name: string) => {
      const amount = reserved[owner][name];
      return amount === undefined ? undefined : readQuantity(amount);
    };
    const { cpuWeight: weight, ...rest } = limitsOf(amountOf);
    const compressible: CgroupLimits = { ...(weight !== undefined && { cpuWeight: weight }), ...cpusOf(onlineCpus) };
    if (isEnforced(`${owner}-reserved-compressible`)) return [{ owner, limits: compressible }];
    if (!isEnforced(`${owner}-reserved`)) return [];
    const { memoryMax } = rest;
    const protection = memoryQoS && memoryMax !== undefined && memoryMax !== "max" ? { memoryMin: memoryMax } : {};
    const hugetlbMax = Object.fromEntries(hugePageSizes.map((size) => [hugePageName(size), 0]));
    return [{ owner, limits: { ...compressible, ...rest, ...protection, hugetlbMax } }];
  });
}

/**
 * All CPUs, in a file of its own: systemd removes the cpuset controller from a slice for which it is not set. Rule: the
 * kubelet's getCgroupConfig with the CPU manager policy `none`.
 */
function cpusOf(onlineCpus: string): Pick<CgroupLimits, "cpus"> {
  return onlineCpus === "" ? {} : { cpus: onlineCpus };
}

/**
 * Converts amounts that are not negative. Nothing left of the memory is no limit, since no process could live in such a
 * cgroup; of the processes one is left, the least that systemd accepts. Rule: getCgroupConfigInternal, and what
 * opencontainers/cgroups makes of zeros.
 */
function limitsOf(amountOf: (name: string) => ParsedQuantity | undefined): CgroupLimits {
  const [cpu, memory, pid] = ["cpu", "memory", "pid"].map(amountOf);
  const memoryBytes = memory === undefined ? undefined : toNumber(memory);
  return {
    ...(cpu !== undefined && { cpuWeight: cpuWeight(toMilli(cpu)) }),
    ...(memoryBytes !== undefined && { memoryMax: memoryBytes > 0 && memoryBytes < 2 ** 63 ? memoryBytes : "max" }),
    ...(pid !== undefined && { pidsMax: pidsMax(Math.max(1, toNumber(pid))) }),
  };
}
