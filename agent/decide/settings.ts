/** The part of the configuration that pod decisions depend on. */
export interface PodDecisionConfig {
  /** `crashLoopBackOff.maxContainerRestartPeriod`. */
  readonly maxContainerRestartPeriodMs: number;
  /** The feature gate `ContainerStopSignals`; absent counts as off. */
  readonly containerStopSignals?: boolean;
  /** Sysctls, or patterns of them, that pods may set besides the safe ones; absent counts as none. */
  readonly allowedUnsafeSysctls?: readonly string[];
}

/** The configuration and the facts of the node that pod decisions depend on. */
export interface PodSettings extends PodDecisionConfig {
  /** The runtime's name, the part before `://` in container IDs. */
  readonly runtimeName: string;
  /** Addresses of this node, the primary first. */
  readonly hostIPs: readonly string[];
  /** Absent on a standalone node. */
  readonly cluster?: ClusterSettings;
}

/** Which objects of the cluster are read. Decisions do not depend on their content. */
export interface ClusterSettings {
  readonly areServicesRead: boolean;
  readonly areRuntimeClassesRead: boolean;
  /** The keys of the Secrets and ConfigMaps that were read, or whose first read has timed out. */
  readonly settledReferences: ReadonlySet<string>;
  /** Why the runtime has no pod network, as last reported; absent when it has one or has not reported yet. */
  readonly networkProblem?: string | undefined;
}
