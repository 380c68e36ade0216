import type { SwapBehavior } from "../../proto/kubelet/config.ts";
import type { Service } from "../../proto/kubernetes/gen/types.ts";
import type { Referents } from "../../proto/kubernetes/references.ts";

/** What of the node and its configuration goes into the messages for the runtime. */
export interface NodeFacts {
  readonly nodeName: string;
  /** The primary first. */
  readonly hostIPs: readonly string[];
  readonly memoryCapacityBytes: number;
  /** What pods may have of the node, of each resource; of CPU in thousandths. */
  readonly allocatable: ReadonlyMap<string, bigint>;
  readonly cpuCount: number;
  readonly swapCapacityBytes: number;
  /** The bytes of a page, of every size that the kernel has beside its own. */
  readonly hugePageSizes: readonly number[];
  /** Version 2 alone takes files by name (`unified`). */
  readonly hasCgroupV2: boolean;
  /** The kernel can hold a container to an amount of swap. */
  readonly limitsSwap: boolean;
  /** Folders of the CPUs that tell how often each was too hot. */
  readonly thermalThrottlePaths: readonly string[];
  readonly rootDir: string;
  readonly podLogsDir: string;
  readonly clusterDNS: readonly string[];
  readonly clusterDomain: string;
  /** Undefined where pods get nothing of the host's resolver (`resolvConf: ""`). */
  readonly hostResolvConf: ResolvConf | undefined;
  readonly cpuCFSQuota: boolean;
  readonly cpuCFSQuotaPeriodMs: number;
  /** Of a container that is out of memory the kernel kills one process, and not all. */
  readonly singleProcessOOMKill: boolean;
  readonly swapBehavior: SwapBehavior;
  /** Not above 0: no limit. */
  readonly podPidsLimit: number;
  readonly seccompDefault: boolean;
  /** The gate `ContainerStopSignals`: without it the runtime is told of none. */
  readonly containerStopSignals: boolean;
  /** By the runtime's handlers, whether each can give a pod users of its own; left out where the runtime tells of none. */
  readonly handlersWithUsers?: ReadonlyMap<string, boolean>;
  /** Left out where the node stands alone. */
  readonly cluster?: ClusterFacts;
}

/** What was read of the cluster. */
export interface ClusterFacts {
  /** Those of all namespaces that have an address; undefined until they were read. */
  readonly services: readonly Service[] | undefined;
  /** By the name of the RuntimeClass; undefined until they were read. */
  readonly runtimeHandlers: ReadonlyMap<string, string> | undefined;
  /** The Secrets and ConfigMaps that pods of this node refer to. */
  readonly referents: Referents;
}

/** What resolv.conf(5) says. */
export interface ResolvConf {
  readonly nameservers: readonly string[];
  readonly searches: readonly string[];
  readonly options: readonly string[];
}
