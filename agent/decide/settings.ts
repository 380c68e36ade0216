import type { MemoryQoS } from "../../proto/cgroup/memory-qos.ts";

/** The part of the configuration that pod decisions depend on. */
export interface PodDecisionConfig {
  /** `crashLoopBackOff.maxContainerRestartPeriod`. */
  readonly maxContainerRestartPeriodMs: number;
  /** The feature gate `ContainerStopSignals`; absent counts as off. */
  readonly containerStopSignals?: boolean;
  /** Sysctls, or patterns of them, that pods may set besides the safe ones; absent counts as none. */
  readonly allowedUnsafeSysctls?: readonly string[];
}

/** What the limits of a pod's cgroup depend on besides the pod. */
export interface PodCgroupSettings {
  readonly cpuCFSQuota: boolean;
  readonly cpuCFSQuotaPeriodMs: number;
  /** No limit when 0 or negative. */
  readonly podPidsLimit: number;
  /** The huge page sizes of the kernel, in bytes. */
  readonly hugePageSizes: readonly number[];
  /** Undefined while the feature gate `MemoryQoS` is off. */
  readonly memoryQoS?: MemoryQoS | undefined;
}

/** The configuration and the facts of the node that pod decisions depend on. */
export interface PodSettings extends PodDecisionConfig {
  /** The runtime's name, the part before `://` in container IDs. */
  readonly runtimeName: string;
  /** Addresses of this node, the primary first. */
  readonly hostIPs: readonly string[];
  /**
   * The RuntimeClasses whose handler can mount recursively read-only, an empty name for pods without a class; absent
   * counts as none.
   */
  readonly recursiveReadOnlyClasses?: ReadonlySet<string>;
  /** Absent while `cgroupsPerQOS` is off: pods get no cgroups of their own. */
  readonly podCgroups?: PodCgroupSettings;
  /** Why the runtime has no pod network, as last reported; absent when it has one or has not reported yet. */
  readonly networkProblem?: string | undefined;
  /** Absent on a standalone node. */
  readonly cluster?: ClusterSettings;
}

/** Which objects of the cluster are read, their versions and their keys. Decisions do not depend on their values. */
export interface ClusterSettings {
  readonly areServicesRead: boolean;
  readonly areRuntimeClassesRead: boolean;
  /** The keys of the Secrets and ConfigMaps that were read, or whose first read has timed out. */
  readonly settledReferences: ReadonlySet<string>;
  /** The resourceVersions of the Secrets and ConfigMaps that were read, by `referenceKey`; `absent` without the object. */
  readonly referenceVersions: ReadonlyMap<string, string>;
  /** Whether the object of a `referenceKey` exists and has a value of that key. */
  readonly hasReferencedKey: (referenceKey: string, key: string) => boolean;
  /** The versions of the service account tokens by `tokenKey`; `failed` if there is none. A missing one is still requested. */
  readonly tokenVersions: ReadonlyMap<string, string>;
  /**
   * The versions of trust anchors and pod certificates by `trustAnchorKey` and `podCertificateKey`; `failed` if there are
   * none. A missing one is still being read or requested; absent counts as none.
   */
  readonly certificateVersions?: ReadonlyMap<string, string>;
  /** The PersistentVolumeClaims of pods by `claimKey` that are bound, or for which it is known why they are not. */
  readonly settledClaims: Pick<ReadonlySet<string>, "has">;
}
