import type { MemoryReservationPolicy, NodeAllocatableEnforcement } from "../../../proto/kubelet/config.ts";
import type { Quantity, Taint } from "../../../proto/kubernetes/gen/types.ts";

/** The configuration of the Node object and of its status reports. */
export interface NodeConfig {
  /** `--node-labels`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly registerWithTaints: readonly Taint[];
  /** Empty if not set. */
  readonly providerID: string;
  readonly enableControllerAttachDetach: boolean;
  /** `--cloud-provider=external`: the cloud controller sets the addresses. */
  readonly isCloudExternal: boolean;

  readonly maxPods: number;
  /** 0: no limit. */
  readonly podsPerCore: number;
  readonly localStorageCapacityIsolation: boolean;
  readonly systemReserved: Readonly<Record<string, Quantity>>;
  readonly kubeReserved: Readonly<Record<string, Quantity>>;
  /** A CPU list such as `0-3,8`, which replaces both CPU reservations; empty if not set. */
  readonly reservedSystemCPUs: string;
  /** Whether the agent makes cgroups for the node, the QoS classes and the pods. */
  readonly cgroupsPerQOS: boolean;
  readonly enforceNodeAllocatable: readonly NodeAllocatableEnforcement[];
  /** `systemReservedCgroup` and `kubeReservedCgroup`; empty if not set. */
  readonly reservedCgroupPaths: { readonly system: string; readonly kube: string };
  /** Undefined while the feature gate `MemoryQoS` is off. */
  readonly memoryReservationPolicy: MemoryReservationPolicy | undefined;
  /** `100Mi` or `10%`, by signal. */
  readonly evictionHard: Readonly<Record<string, string>>;
  readonly evictionSoft: Readonly<Record<string, string>>;
  readonly evictionSoftGracePeriodMs: Readonly<Record<string, number>>;
  readonly evictionMinimumReclaim: Readonly<Record<string, string>>;
  /** How long a pressure is reported after it was last observed. */
  readonly evictionPressureTransitionPeriodMs: number;

  /**
   * The node features that this release implements and whose gates are on, in order. The scheduler places pods that
   * need one only on nodes that declare it.
   */
  readonly declaredFeatures: readonly string[];
  /** -1: no limit. */
  readonly nodeStatusMaxImages: number;
  readonly nodeStatusUpdateFrequencyMs: number;
  readonly nodeStatusReportFrequencyMs: number;
  readonly nodeLeaseDurationSeconds: number;
}

/** What the Node object depends on besides the machine; resolved before `decideNodeReport`. */
export interface NodeSettings extends NodeConfig {
  readonly nodeName: string;
  /** `--node-ip`, as given. */
  readonly nodeIPs: readonly string[];
  /** Undefined if the node's API is not served. */
  readonly kubeletPort: number | undefined;
  /** The Kubernetes version whose kubelet this agent matches, in the form that clients parse: `v1.36.3`. */
  readonly kubeletVersion: string;
}
