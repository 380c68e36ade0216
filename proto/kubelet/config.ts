import type { Quantity, TaintEffect } from "../kubernetes/gen/types.ts";

/**
 * The file behind `--config`: `KubeletConfiguration` of kubelet.config.k8s.io/v1beta1 (Kubernetes 1.36), in its JSON
 * form. A `Duration` is in Go's notation (`1m30s`), a `Quantity` in Kubernetes' (`500Mi`).
 */

/** A duration in Go's notation: `300ms`, `1h2m3.5s`. */
export type Duration = string;

export const kubeletConfigApiVersion = "kubelet.config.k8s.io/v1beta1";
export const kubeletConfigKind = "KubeletConfiguration";

export type AuthorizationMode = "AlwaysAllow" | "Webhook";
export type CgroupDriver = "cgroupfs" | "systemd";
export type ChangeDetectionStrategy = "Get" | "Cache" | "Watch";
export type CpuManagerPolicy = "none" | "static";
export type HairpinMode = "promiscuous-bridge" | "hairpin-veth" | "none";
export type ImagePullCredentialsVerificationPolicy =
  | "NeverVerify"
  | "NeverVerifyPreloadedImages"
  | "NeverVerifyAllowlistedImages"
  | "AlwaysVerify";
export type LogFormat = "text" | "json";
export type MemoryManagerPolicy = "None" | "Static";
export type MemoryReservationPolicy = "None" | "TieredReservation";
export type NodeAllocatableEnforcement =
  | "none"
  | "pods"
  | "system-reserved"
  | "system-reserved-compressible"
  | "kube-reserved"
  | "kube-reserved-compressible";
export type SwapBehavior = "" | "NoSwap" | "LimitedSwap";
export type TlsVersion = "" | "VersionTLS10" | "VersionTLS11" | "VersionTLS12" | "VersionTLS13";
export type TopologyManagerPolicy = "none" | "best-effort" | "restricted" | "single-numa-node";
export type TopologyManagerScope = "container" | "pod";

export interface KubeletAuthentication {
  readonly x509: { readonly clientCAFile: string };
  readonly webhook: { readonly enabled: boolean; readonly cacheTTL: Duration };
  readonly anonymous: { readonly enabled: boolean };
}

export interface KubeletAuthorization {
  readonly mode: AuthorizationMode;
  readonly webhook: { readonly cacheAuthorizedTTL: Duration; readonly cacheUnauthorizedTTL: Duration };
}

export interface OutputRoutingOptions {
  readonly splitStream: boolean;
  readonly infoBufferSize: Quantity;
}

export interface LoggingConfiguration {
  readonly format: LogFormat;
  /** A number means nanoseconds. */
  readonly flushFrequency: Duration | number;
  readonly verbosity: number;
  readonly vmodule: readonly { readonly filePattern: string; readonly verbosity: number }[];
  readonly options: { readonly text: OutputRoutingOptions; readonly json: OutputRoutingOptions };
}

export interface MemoryReservation {
  readonly numaNode: number;
  readonly limits: Readonly<Record<string, Quantity>>;
}

export interface PodPriorityGracePeriod {
  readonly priority: number;
  readonly shutdownGracePeriodSeconds: number;
}

export interface RegistrationTaint {
  readonly key: string;
  readonly value: string;
  readonly effect: TaintEffect;
  readonly timeAdded?: string;
}

export interface TracingConfiguration {
  readonly endpoint?: string;
  readonly samplingRatePerMillion?: number;
}

/**
 * The whole configuration after defaulting: every field is set, and Go's zero values appear as `""`, `0`, `false`, `{}`
 * or `[]`. A field is optional only where absence has its own meaning.
 */
export interface KubeletConfiguration {
  readonly apiVersion: typeof kubeletConfigApiVersion;
  readonly kind: typeof kubeletConfigKind;

  readonly enableServer: boolean;
  readonly staticPodPath: string;
  readonly podLogsDir: string;
  readonly syncFrequency: Duration;
  readonly fileCheckFrequency: Duration;
  readonly httpCheckFrequency: Duration;
  readonly staticPodURL: string;
  /** May contain credentials: never log it. */
  readonly staticPodURLHeader: Readonly<Record<string, readonly string[]>>;
  readonly address: string;
  readonly port: number;
  readonly readOnlyPort: number;
  readonly tlsCertFile: string;
  readonly tlsPrivateKeyFile: string;
  readonly tlsCipherSuites: readonly string[];
  readonly tlsCurvePreferences: readonly number[];
  readonly tlsMinVersion: TlsVersion;
  readonly rotateCertificates: boolean;
  readonly serverTLSBootstrap: boolean;
  readonly authentication: KubeletAuthentication;
  readonly authorization: KubeletAuthorization;
  readonly registryPullQPS: number;
  readonly registryBurst: number;
  /** Absent only when the gate KubeletEnsureSecretPulledImages is off. */
  readonly imagePullCredentialsVerificationPolicy?: ImagePullCredentialsVerificationPolicy;
  readonly preloadedImagesVerificationAllowlist: readonly string[];
  readonly eventRecordQPS: number;
  readonly eventBurst: number;
  readonly enableDebuggingHandlers: boolean;
  readonly enableContentionProfiling: boolean;
  readonly healthzPort: number;
  readonly healthzBindAddress: string;
  readonly oomScoreAdj: number;
  readonly clusterDomain: string;
  readonly clusterDNS: readonly string[];
  readonly streamingConnectionIdleTimeout: Duration;
  readonly nodeStatusUpdateFrequency: Duration;
  readonly nodeStatusReportFrequency: Duration;
  readonly nodeLeaseDurationSeconds: number;
  readonly imageMinimumGCAge: Duration;
  readonly imageMaximumGCAge: Duration;
  readonly imageGCHighThresholdPercent: number;
  readonly imageGCLowThresholdPercent: number;
  readonly volumeStatsAggPeriod: Duration;
  readonly kubeletCgroups: string;
  readonly systemCgroups: string;
  readonly cgroupRoot: string;
  readonly cgroupsPerQOS: boolean;
  readonly cgroupDriver: CgroupDriver;
  readonly cpuManagerPolicy: CpuManagerPolicy;
  /** Absent: true on cgroup v1, false on cgroup v2. */
  readonly singleProcessOOMKill?: boolean;
  readonly cpuManagerPolicyOptions: Readonly<Record<string, string>>;
  readonly cpuManagerReconcilePeriod: Duration;
  readonly memoryManagerPolicy: MemoryManagerPolicy;
  readonly topologyManagerPolicy: TopologyManagerPolicy;
  readonly topologyManagerScope: TopologyManagerScope;
  readonly topologyManagerPolicyOptions: Readonly<Record<string, string>>;
  readonly qosReserved: Readonly<Record<string, string>>;
  readonly runtimeRequestTimeout: Duration;
  readonly hairpinMode: HairpinMode;
  readonly maxPods: number;
  readonly podCIDR: string;
  readonly podPidsLimit: number;
  readonly resolvConf: string;
  readonly runOnce: boolean;
  readonly cpuCFSQuota: boolean;
  readonly cpuCFSQuotaPeriod: Duration;
  readonly nodeStatusMaxImages: number;
  readonly maxOpenFiles: number;
  readonly contentType: string;
  readonly kubeAPIQPS: number;
  readonly kubeAPIBurst: number;
  readonly serializeImagePulls: boolean;
  /** Absent means no separate limit: `serializeImagePulls` decides. */
  readonly maxParallelImagePulls?: number;
  readonly evictionHard: Readonly<Record<string, string>>;
  readonly evictionSoft: Readonly<Record<string, string>>;
  readonly evictionSoftGracePeriod: Readonly<Record<string, Duration>>;
  readonly evictionPressureTransitionPeriod: Duration;
  readonly evictionMaxPodGracePeriod: number;
  readonly evictionMinimumReclaim: Readonly<Record<string, string>>;
  readonly mergeDefaultEvictionSettings: boolean;
  readonly podsPerCore: number;
  readonly enableControllerAttachDetach: boolean;
  readonly protectKernelDefaults: boolean;
  readonly makeIPTablesUtilChains: boolean;
  readonly iptablesMasqueradeBit: number;
  readonly iptablesDropBit: number;
  readonly featureGates: Readonly<Record<string, boolean>>;
  readonly failSwapOn: boolean;
  readonly memorySwap: { readonly swapBehavior: SwapBehavior };
  readonly containerLogMaxSize: Quantity;
  readonly containerLogMaxFiles: number;
  readonly containerLogMaxWorkers: number;
  readonly containerLogMonitorInterval: Duration;
  readonly configMapAndSecretChangeDetectionStrategy: ChangeDetectionStrategy;
  readonly systemReserved: Readonly<Record<string, Quantity>>;
  readonly kubeReserved: Readonly<Record<string, Quantity>>;
  readonly reservedSystemCPUs: string;
  readonly showHiddenMetricsForVersion: string;
  readonly systemReservedCgroup: string;
  readonly kubeReservedCgroup: string;
  readonly enforceNodeAllocatable: readonly NodeAllocatableEnforcement[];
  readonly allowedUnsafeSysctls: readonly string[];
  readonly volumePluginDir: string;
  readonly providerID: string;
  readonly kernelMemcgNotification: boolean;
  readonly logging: LoggingConfiguration;
  readonly enableSystemLogHandler: boolean;
  /** Absent means false. */
  readonly enableSystemLogQuery?: boolean;
  readonly shutdownGracePeriod: Duration;
  readonly shutdownGracePeriodCriticalPods: Duration;
  readonly shutdownGracePeriodByPodPriority: readonly PodPriorityGracePeriod[];
  /** The period is absent only when the gate KubeletCrashLoopBackOffMax is off. */
  readonly crashLoopBackOff: { readonly maxContainerRestartPeriod?: Duration };
  readonly reservedMemory: readonly MemoryReservation[];
  readonly enableProfilingHandler: boolean;
  readonly enableDebugFlagsHandler: boolean;
  readonly seccompDefault: boolean;
  readonly memoryThrottlingFactor: number;
  readonly memoryReservationPolicy: MemoryReservationPolicy;
  readonly registerWithTaints: readonly RegistrationTaint[];
  readonly registerNode: boolean;
  /** Absent means that no traces are sent. */
  readonly tracing?: TracingConfiguration;
  readonly localStorageCapacityIsolation: boolean;
  readonly containerRuntimeEndpoint: string;
  readonly imageServiceEndpoint: string;
  readonly failCgroupV1: boolean;
  /** Absent means 65536 ids per pod. */
  readonly userNamespaces?: { readonly idsPerPod?: number };
}
