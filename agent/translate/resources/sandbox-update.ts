import { cpuQuotaUs, cpuShares, sharesToMilliCpu, weightToShares } from "../../../proto/cgroup/cpu-units.ts";
import type { ResizableLimits } from "../../../proto/cgroup/limits.ts";
import { LinuxContainerResources } from "../../../proto/cri/gen/api.ts";
import type { SandboxResources } from "../../../proto/cri/sandbox-resources.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { NodeFacts } from "../node-facts.ts";
import { amountsOf, int64, linuxResources } from "./linux-resources.ts";

/**
 * The message about the limits that the pod's cgroup is going to have, from the limits of its files. Rule: the kubelet's
 * generateUpdatePodSandboxResourcesRequest.
 */
export function sandboxUpdate(
  { spec }: Pod,
  { cpuWeight, cpuMax, memoryMax }: ResizableLimits,
  facts: NodeFacts,
): SandboxResources {
  const overhead = amountsOf({ requests: spec.overhead ?? {}, limits: spec.overhead ?? {} });
  const { cpuLimit: overheadCpu = 0, memoryLimit: overheadMemory = 0 } = overhead;
  const { quotaUs, periodUs } = cpuMax;
  const overheadQuotaUs = overheadCpu === 0 ? 0 : cpuQuotaUs(overheadCpu, periodUs);
  return {
    resources: LinuxContainerResources.fromPartial({
      cpuShares: BigInt(cpuShares(sharesToMilliCpu(weightToShares(cpuWeight)) - overheadCpu)),
      cpuPeriod: BigInt(periodUs),
      cpuQuota: quotaUs === "max" ? -1n : int64(quotaUs - overheadQuotaUs),
      memoryLimitInBytes: memoryMax === "max" ? 0n : int64(memoryMax - overheadMemory),
    }),
    overhead: spec.overhead === undefined ? undefined : linuxResources(overhead, facts),
  };
}
