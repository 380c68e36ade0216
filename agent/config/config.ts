import type { KubeletConfiguration, LogFormat } from "../../proto/kubelet/config.ts";

/** Settings that exist as flags alone, under the flag's name. `""` is a flag that was not given. */
export interface FlagSettings {
  readonly kubeconfig: string;
  readonly bootstrapKubeconfig: string;
  readonly certDir: string;
  readonly rootDir: string;
  readonly hostnameOverride: string;
  readonly config: string;
  readonly configDir: string;
  readonly nodeIP: string;
  readonly nodeLabels: Readonly<Record<string, string>>;
  readonly cloudProvider: "" | "external";
  readonly imageCredentialProviderConfig: string;
  readonly imageCredentialProviderBinDir: string;
  readonly runtimeCgroups: string;
  readonly lockFile: string;
  readonly exitOnLockContention: boolean;
}

/** The agent's whole configuration: resolved once at start, deeply frozen, in the units the names end with. */
export interface Config {
  /** The defaulted KubeletConfiguration with drop-ins and flags merged in, for `/configz` and for later rooms. */
  readonly kubelet: KubeletConfiguration;
  readonly flags: FlagSettings;
  /** Every known feature gate with the value in force. */
  readonly gates: Readonly<Record<string, boolean>>;

  readonly nodeName: string;
  readonly rootDir: string;
  readonly certDir: string;
  /** Undefined means standalone: no API server, static pods only. */
  readonly kubeconfig: string | undefined;
  /** As given by `--node-ip`: none, one, or one of each family. */
  readonly nodeIPs: readonly string[];

  readonly staticPodPath: string | undefined;
  readonly staticPodURL: string | undefined;
  /** May hold credentials: never to be logged. */
  readonly staticPodURLHeader: Readonly<Record<string, readonly string[]>>;
  readonly fileCheckFrequencyMs: number;
  readonly httpCheckFrequencyMs: number;
  readonly syncFrequencyMs: number;

  /** With its scheme, as given: `unix:///run/containerd/containerd.sock`. */
  readonly containerRuntimeEndpoint: string;
  /** The runtime's endpoint where none of its own is given. */
  readonly imageServiceEndpoint: string;
  readonly runtimeRequestTimeoutMs: number;
  readonly podLogsDir: string;

  readonly serializeImagePulls: boolean;
  /** 1 when pulls are serialized, undefined when parallel pulls have no limit. */
  readonly maxParallelImagePulls: number | undefined;
  /** Pulls per second; 0 is no limit. */
  readonly registryPullQPS: number;
  readonly registryBurst: number;

  readonly maxContainerRestartPeriodMs: number;
  readonly clusterDNS: readonly string[];
  readonly clusterDomain: string;
  /** Undefined where pods get no resolver of the host (`resolvConf: ""`). */
  readonly resolvConf: string | undefined;
  readonly maxPods: number;
  /** 0 is no limit. */
  readonly podsPerCore: number;

  readonly cgroupsPerQOS: boolean;
  readonly cpuCFSQuota: boolean;
  readonly cpuCFSQuotaPeriodMs: number;
  readonly failSwapOn: boolean;
  readonly failCgroupV1: boolean;
  readonly seccompDefault: boolean;
  readonly oomScoreAdj: number;
  readonly logging: { readonly format: LogFormat; readonly verbosity: number };
}
