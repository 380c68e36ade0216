import {
  cpuQuotaUs,
  cpuWeight,
  DEFAULT_CPU_PERIOD_US,
  MAX_QUOTA_US,
  MIN_CPU_WEIGHT,
} from "../../../proto/cgroup/cpu-units.ts";
import { hugePageBytes, hugePageName } from "../../../proto/cgroup/huge-pages.ts";
import type { CgroupLimits, Limit, ResizableLimits } from "../../../proto/cgroup/limits.ts";
import { pidsMax } from "../../../proto/cgroup/pids-limit.ts";
import type { Pod, PodQOSClass } from "../../../proto/kubernetes/gen/types.ts";
import { podLimits, podRequests } from "../../../proto/kubernetes/pod-resources.ts";
import { type ParsedQuantity, toMilli, toNumber, ZERO } from "../../../proto/kubernetes/values/quantity.ts";
import type { PodCgroupSettings } from "../settings.ts";

/** The limits of a pod's cgroup. Those that a resize changes are always there. */
export type PodCgroupLimits = CgroupLimits & ResizableLimits;

/**
 * What the cgroup of a pod is limited to: its containers, sidecars, init containers and overhead together, or the pod's
 * own resources. `pod` has the resources that are allocated to it. The limits are complete, so that writing them also
 * repairs a file that another program has changed: a CPU or memory limit that any container lacks is `max`, and a huge
 * page size that no container requests is 0. `memory.swap.max` and `memory.oom.group` are left alone: each container has
 * its own, and an out-of-memory kill of one does not end the others. An unreadable quantity counts as zero.
 * Rule: the kubelet's ResourceConfigForPod and EnsureExists.
 */
export function podCgroupLimits(
  { spec }: Pick<Pod, "spec">,
  qosClass: PodQOSClass,
  settings: PodCgroupSettings,
): PodCgroupLimits {
  const requests = podRequests(spec);
  const limits = podLimits(spec, { requiresAllContainers: true });
  const hugePages = hugePageBytes(requests);
  return {
    cpuWeight: qosClass === "BestEffort" ? MIN_CPU_WEIGHT : cpuWeight(toMilli(requests.get("cpu") ?? ZERO)),
    cpuMax: cpuMaxOf(limits.get("cpu"), settings),
    memoryMax: memoryMaxOf(limits.get("memory")),
    ...(settings.memoryQoS && protectionOf(settings.memoryQoS, requests.get("memory"), qosClass)),
    pidsMax: pidsMax(settings.podPidsLimit),
    hugetlbMax: Object.fromEntries(
      settings.hugePageSizes.map((size) => [hugePageName(size), hugePages.get(size) ?? 0] as const),
    ),
  };
}

/** Without a limit the period is the kernel's. The quota has no effect while `cpuCFSQuota` is off. */
function cpuMaxOf(
  limit: ParsedQuantity | undefined,
  { cpuCFSQuota, cpuCFSQuotaPeriodMs }: PodCgroupSettings,
): NonNullable<CgroupLimits["cpuMax"]> {
  if (limit === undefined) return { quotaUs: "max", periodUs: DEFAULT_CPU_PERIOD_US };
  const periodUs = Math.round(cpuCFSQuotaPeriodMs * 1000);
  const quotaUs = cpuQuotaUs(toMilli(limit), periodUs);
  return { quotaUs: cpuCFSQuota && quotaUs <= MAX_QUOTA_US ? quotaUs : "max", periodUs };
}

/** The kernel counts in 64 bits: more than it can count is no limit. */
function memoryMaxOf(limit: ParsedQuantity | undefined): Limit {
  const bytes = limit === undefined ? Number.POSITIVE_INFINITY : toNumber(limit);
  return bytes < 2 ** 63 ? bytes : "max";
}

/**
 * What the kernel does not reclaim from the pod: with TieredReservation, what it requests, of a Guaranteed pod under no
 * pressure at all (`memory.min`) and of others while there is other memory (`memory.low`).
 */
function protectionOf(
  { reservationPolicy }: NonNullable<PodCgroupSettings["memoryQoS"]>,
  request: ParsedQuantity | undefined,
  qosClass: PodQOSClass,
): Pick<CgroupLimits, "memoryMin" | "memoryLow"> {
  const bytes = reservationPolicy === "TieredReservation" ? memoryMaxOf(request ?? ZERO) : 0;
  return qosClass === "Guaranteed" ? { memoryMin: bytes, memoryLow: 0 } : { memoryMin: 0, memoryLow: bytes };
}
