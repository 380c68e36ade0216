import type { MemoryQoS } from "../../proto/cgroup/memory-qos.ts";
import type { SwapBehavior } from "../../proto/kubelet/config.ts";
import type { KnownPodCertificate, KnownTrustAnchors } from "../../proto/kubernetes/certificates.ts";
import type { KnownClaim } from "../../proto/kubernetes/claims.ts";
import type { Service } from "../../proto/kubernetes/gen/types.ts";
import type { ReferencedObjects } from "../../proto/kubernetes/references.ts";
import type { KnownToken } from "../../proto/kubernetes/token-references.ts";

/** The part of the configuration that pods are translated with. */
export interface PodConfig {
  readonly nodeName: string;
  readonly rootDir: string;
  readonly podLogsDir: string;
  readonly clusterDNS: readonly string[];
  readonly clusterDomain: string;
  /** Whether the agent makes a cgroup for each pod. Otherwise the runtime chooses the parents of containers. */
  readonly cgroupsPerQOS: boolean;
  readonly cpuCFSQuota: boolean;
  readonly cpuCFSQuotaPeriodMs: number;
  readonly swapBehavior: SwapBehavior;
  /** Undefined while the feature gate `MemoryQoS` is off. */
  readonly memoryQoS?: MemoryQoS | undefined;
  /** No limit when 0 or negative. */
  readonly podPidsLimit: number;
  readonly seccompDefault: boolean;
  /** The feature gate `ContainerStopSignals`. Without it, CreateContainer carries no stop signal. */
  readonly containerStopSignals: boolean;
}

/** The facts about the node, its configuration and its cluster that pods are translated with. */
export interface NodeFacts extends PodConfig {
  /** The node's addresses, the primary one first. */
  readonly hostIPs: readonly string[];
  readonly memoryCapacityBytes: number;
  /** What pods may use of each resource; CPU in milli-CPUs. */
  readonly allocatable: ReadonlyMap<string, bigint>;
  readonly swapCapacityBytes: number;
  /** The huge page sizes of the kernel, in bytes. */
  readonly hugePageSizes: readonly number[];
  /** The kernel's page size, in bytes. */
  readonly pageBytes: number;
  /** Only cgroup v2 accepts files by name (`unified`). */
  readonly hasCgroupV2: boolean;
  /** Whether the kernel accounts for swap, so that it can be limited. */
  readonly limitsSwap: boolean;
  /** Without SELinux no mount is relabelled. */
  readonly hasSELinux: boolean;
  /** The `thermal_throttle` directories of all CPUs, which count how often each overheated. */
  readonly thermalThrottlePaths: readonly string[];
  /** Undefined when pods do not inherit the host's resolver (`resolvConf: ""`). */
  readonly hostResolvConf: ResolvConf | undefined;
  /** The OOM killer kills one process of a container instead of all of them. */
  readonly singleProcessOOMKill: boolean;
  /** Whether each runtime handler supports user namespaces; left out when the runtime does not report its handlers. */
  readonly handlersWithUsers?: ReadonlyMap<string, boolean>;
  /**
   * The RuntimeClasses whose handler can mount recursively read-only, an empty name for pods without a class; left out
   * when the runtime does not report its handlers.
   */
  readonly recursiveReadOnlyClasses?: ReadonlySet<string>;
  /** Left out on a standalone node. */
  readonly cluster?: ClusterFacts;
}

/** The objects of the cluster that pods are translated with. */
export interface ClusterFacts {
  /** The Services of all namespaces that have a cluster IP; undefined until the first list. */
  readonly services: readonly Service[] | undefined;
  /** Runtime handlers by the name of the RuntimeClass; undefined until the first list. */
  readonly runtimeHandlers: ReadonlyMap<string, string> | undefined;
  /** The Secrets and ConfigMaps that the pods of this node refer to. */
  readonly referencedObjects: ReferencedObjects;
  /** Why those of them that are missing cannot be read, by `referenceKey`, where that is known. */
  readonly referenceFailures?: ReadonlyMap<string, string>;
  /** The service account tokens of the pods of this node by `tokenKey`. A missing one is still requested. */
  readonly tokens: ReadonlyMap<string, KnownToken>;
  /** The trust anchors that pods of this node show, by `trustAnchorKey`; left out counts as none. */
  readonly trustAnchors?: ReadonlyMap<string, KnownTrustAnchors>;
  /** The pod certificates of the pods of this node by `podCertificateKey`; left out counts as none. */
  readonly podCertificates?: ReadonlyMap<string, KnownPodCertificate>;
  /** The PersistentVolumeClaims of the pods of this node by `claimKey`. A missing one is still being read. */
  readonly claims: ReadonlyMap<string, KnownClaim>;
  /** The labels of this node's Node object; undefined until it was read. */
  readonly nodeLabels: Readonly<Record<string, string>> | undefined;
}

/** The settings of resolv.conf(5). */
export interface ResolvConf {
  readonly nameservers: readonly string[];
  readonly searches: readonly string[];
  readonly options: readonly string[];
}
