/** What of the configuration and of the node decisions depend on; resolved before `decide`, never read inside. */
export interface Settings {
  /** `crashLoopBackOff.maxContainerRestartPeriod`. */
  readonly maxContainerRestartPeriodMs: number;
  /** The runtime's name, as it stands before `://` in container ids. */
  readonly runtimeName: string;
  /** The gate `ContainerStopSignals`; left out where it is off. */
  readonly tellsStopSignals?: boolean;
  /** `allowedUnsafeSysctls`; left out where there are none. */
  readonly allowedUnsafeSysctls?: readonly string[];
  /** Addresses of this node, the primary first. */
  readonly hostIPs: readonly string[];
  /** Left out where the node stands alone. */
  readonly cluster?: ClusterSettings;
}

/** How much is known of the cluster. What it says is no matter of decisions. */
export interface ClusterSettings {
  readonly areServicesRead: boolean;
  readonly areRuntimeClassesRead: boolean;
  /** The keys of Secrets and ConfigMaps that were read, or are not waited for any more. */
  readonly answeredReferences: ReadonlySet<string>;
  /** Why the runtime can give no pod a network, as it told last; left out where it can, or has not told. */
  readonly networkProblem?: string | undefined;
}
