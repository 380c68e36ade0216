import type { Quantity, Taint } from "../../../proto/kubernetes/gen/types.ts";

/** What of the configuration the Node object depends on; resolved before `decideNode`, never read inside. */
export interface NodeSettings {
  readonly nodeName: string;
  /** `--node-labels`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly registerWithTaints: readonly Taint[];
  /** Empty where none is given. */
  readonly providerID: string;
  readonly enableControllerAttachDetach: boolean;
  /** `--cloud-provider=external`: addresses are the cloud's affair. */
  readonly isCloudExternal: boolean;
  /** `--node-ip`, as given. */
  readonly nodeIPs: readonly string[];

  readonly maxPods: number;
  /** 0: no limit. */
  readonly podsPerCore: number;
  readonly localStorageCapacityIsolation: boolean;
  readonly systemReserved: Readonly<Record<string, Quantity>>;
  readonly kubeReserved: Readonly<Record<string, Quantity>>;
  /** A CPU list such as `0-3,8`, which stands in place of both reservations of cpu; empty where none is given. */
  readonly reservedSystemCPUs: string;
  /** `100Mi` or `10%`, by signal. */
  readonly evictionHard: Readonly<Record<string, string>>;
  readonly evictionSoft: Readonly<Record<string, string>>;
  readonly evictionSoftGracePeriodMs: Readonly<Record<string, number>>;
  readonly evictionMinimumReclaim: Readonly<Record<string, string>>;
  /** How long a pressure is told after it was last felt. */
  readonly evictionPressureTransitionPeriodMs: number;

  /**
   * What this version does, and its gates let it do, of the features that a node may declare, in order. The scheduler sends pods that need one
   * only where it is declared.
   */
  readonly declaredFeatures: readonly string[];
  /** -1: no limit. */
  readonly nodeStatusMaxImages: number;
  /** Undefined where nobody listens. */
  readonly kubeletPort: number | undefined;
  /** The version of Kubernetes that this agent is like, as others parse it: `v1.36.3`. */
  readonly kubeletVersion: string;
  readonly nodeStatusUpdateFrequencyMs: number;
  readonly nodeStatusReportFrequencyMs: number;
  readonly nodeLeaseDurationSeconds: number;
}
