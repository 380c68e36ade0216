import type {
  ImagePullCredentialsVerificationPolicy,
  LogFormat,
  RegistrationTaint,
  SwapBehavior,
} from "../../proto/kubelet/config.ts";
import type { ProvidersConfig } from "./credential-providers/credential-providers.ts";

/** What the rooms are told: resolved once at start, deeply frozen, in the units the names end with. */
export interface Config {
  readonly nodeName: string;
  readonly rootDir: string;
  /** Where it stands which cluster the node is of. Undefined means standalone: no API server, static pods only. */
  readonly clusterPlace: ClusterPlace | undefined;
  /** As given by `--node-ip`: none, one, or one of each family; `0.0.0.0` or `::` alone only say which family is preferred. */
  readonly nodeIPs: readonly string[];

  readonly staticPodPath: string | undefined;
  readonly staticPodURL: string | undefined;
  /** May hold credentials: never to be logged. */
  readonly staticPodURLHeader: Readonly<Record<string, readonly string[]>>;
  readonly fileCheckFrequencyMs: number;
  readonly httpCheckFrequencyMs: number;

  /** With its scheme, as given: `unix:///run/containerd/containerd.sock`. */
  readonly containerRuntimeEndpoint: string;
  /** The runtime's endpoint where none of its own is given. */
  readonly imageServiceEndpoint: string;
  readonly runtimeRequestTimeoutMs: number;
  readonly podLogsDir: string;

  /** 1 when pulls are serialized, undefined when parallel pulls have no limit. */
  readonly maxParallelImagePulls: number | undefined;
  /** Pulls per second; 0 is no limit. */
  readonly registryPullQPS: number;
  readonly registryBurst: number;

  /** Programs that give the node logins for registries. */
  readonly credentialProviders: ProvidersConfig | undefined;
  /** Which images that are here a pod has to show a right to; undefined where nothing is written down of them either. */
  readonly imageVerification:
    | { readonly policy: ImagePullCredentialsVerificationPolicy; readonly allowlist: readonly string[] }
    | undefined;

  readonly maxContainerRestartPeriodMs: number;
  readonly clusterDNS: readonly string[];
  readonly clusterDomain: string;
  /** Undefined where pods get no resolver of the host (`resolvConf: ""`). */
  readonly resolvConf: string | undefined;

  readonly cgroupsPerQOS: boolean;
  readonly cpuCFSQuota: boolean;
  readonly cpuCFSQuotaPeriodMs: number;
  readonly failCgroupV1: boolean;
  /** Undefined where nothing is said: then it is so with cgroup v1, which cannot do otherwise, and not with v2. */
  readonly singleProcessOOMKill: boolean | undefined;
  readonly swapBehavior: SwapBehavior;
  /** -1: no limit. */
  readonly podPidsLimit: number;
  readonly seccompDefault: boolean;
  /** Sysctls and patterns of them that pods may set beside the safe ones. */
  readonly allowedUnsafeSysctls: readonly string[];
  /** The gate `ContainerStopSignals`. */
  readonly containerStopSignals: boolean;
  /** How many user and group ids a pod with users of its own has. */
  readonly idsPerPod: number;
  readonly logging: { readonly format: LogFormat; readonly verbosity: number };

  /** Requests to the API server but heartbeats and events; undefined: no limit. */
  readonly kubeAPI: RequestRate | undefined;
  /** Events, likewise. */
  readonly events: RequestRate | undefined;

  readonly node: NodeConfig;
}

export type ClusterPlace =
  /** The path is absolute. */
  | { readonly kind: "kubeconfig"; readonly path: string }
  /** In the environment and the service account's volume, as every container of a pod has them. */
  | { readonly kind: "in-cluster" };

/** So many requests a second, and so many at once after a rest. */
export interface RequestRate {
  readonly qps: number;
  readonly burst: number;
}

/** What the Node object is made of, and how often it is reported. */
export interface NodeConfig {
  readonly registerNode: boolean;
  /** `--node-labels`. */
  readonly labels: Readonly<Record<string, string>>;
  readonly registerWithTaints: readonly RegistrationTaint[];
  /** Empty where none is given. */
  readonly providerID: string;
  /** `--cloud-provider=external`. */
  readonly isCloudExternal: boolean;
  readonly enableControllerAttachDetach: boolean;
  readonly maxPods: number;
  /** 0: no limit. */
  readonly podsPerCore: number;
  readonly localStorageCapacityIsolation: boolean;
  readonly systemReserved: Readonly<Record<string, string>>;
  readonly kubeReserved: Readonly<Record<string, string>>;
  readonly reservedSystemCPUs: string;
  /** By signal: an amount or a percentage. */
  readonly evictionHard: Readonly<Record<string, string>>;
  readonly evictionSoft: Readonly<Record<string, string>>;
  readonly evictionSoftGracePeriodMs: Readonly<Record<string, number>>;
  readonly evictionMinimumReclaim: Readonly<Record<string, string>>;
  readonly evictionPressureTransitionPeriodMs: number;
  /** Those that are carried out and whose gates are on. */
  readonly declaredFeatures: readonly string[];
  /** -1: no limit. */
  readonly nodeStatusMaxImages: number;
  readonly nodeStatusUpdateFrequencyMs: number;
  readonly nodeStatusReportFrequencyMs: number;
  readonly nodeLeaseDurationSeconds: number;
}
