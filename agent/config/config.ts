import type {
  CgroupDriver,
  ChangeDetectionStrategy,
  ImagePullCredentialsVerificationPolicy,
  KubeletConfiguration,
  LogFormat,
} from "../../proto/kubelet/config.ts";
import type { LogRotationSettings } from "../decide/logs/log-rotation.ts";
import type { NodeConfig } from "../decide/node/node-settings.ts";
import type { PodDecisionConfig } from "../decide/settings.ts";
import type { PodConfig } from "../translate/node-facts.ts";
import type { CredentialProvidersConfig } from "./credential-providers/credential-providers.ts";

/** The configuration of the agent: resolved once at start, deeply frozen, in the units that the names end with. */
export interface Config extends PodConfig, Required<PodDecisionConfig> {
  /** How to reach the API server; undefined for a standalone node, which runs static pods only. */
  readonly clusterConfigSource: ClusterConfigSource | undefined;
  /** From `--node-ip`: no address, one, or one of each family. `0.0.0.0` or `::` alone select the preferred family. */
  readonly nodeIPs: readonly string[];

  readonly staticPodPath: string | undefined;
  readonly staticPodURL: string | undefined;
  /** May contain credentials: never log it. */
  readonly staticPodURLHeader: Readonly<Record<string, readonly string[]>>;
  readonly fileCheckFrequencyMs: number;
  /** How long the figures of volumes are shown before they are measured again; 0 or less: the API shows none. */
  readonly volumeStatsAggPeriodMs: number;
  readonly httpCheckFrequencyMs: number;

  /** The endpoint with its scheme: `unix:///run/containerd/containerd.sock`. */
  readonly containerRuntimeEndpoint: string;
  /** Defaults to the runtime's endpoint. */
  readonly imageServiceEndpoint: string;
  readonly runtimeRequestTimeoutMs: number;

  /** 1 when pulls are serialized; undefined when parallel pulls are unlimited. */
  readonly maxParallelImagePulls: number | undefined;
  /** Pulls per second; 0 means no limit. */
  readonly registryPullQPS: number;
  readonly registryBurst: number;

  /** The credential provider plugins of the node. */
  readonly credentialProviders: CredentialProvidersConfig | undefined;
  /** For which present images a pod must prove access (KEP-2535); undefined when credentials are not recorded. */
  readonly imageVerification:
    | { readonly policy: ImagePullCredentialsVerificationPolicy; readonly allowlist: readonly string[] }
    | undefined;

  /** `--early-probes`: whether early tries are repeated until the first success. If false there is one early try, as with the kubelet. */
  readonly earlyProbes: boolean;
  /** `--keep-referenced-objects`: whether what pods refer to is kept on the disk. */
  readonly keepsReferencedObjects: boolean;
  /** The feature gates of projections of `certificates.k8s.io`. */
  readonly certificateGates: {
    readonly clusterTrustBundleProjection: boolean;
    readonly podCertificateRequest: boolean;
  };
  /** How changed Secrets and ConfigMaps are found. */
  readonly changeDetection: {
    /** `configMapAndSecretChangeDetectionStrategy`. */
    readonly strategy: ChangeDetectionStrategy;
    /** `syncFrequency`: how often the strategies `Cache` and `Get` read what running pods show in volumes. */
    readonly syncFrequencyMs: number;
  };

  /** Undefined when pods do not inherit the host's resolver (`resolvConf: ""`). */
  readonly resolvConf: string | undefined;

  /** The driver where the runtime does not report its own. */
  readonly cgroupDriver: CgroupDriver;
  /** The path of the cgroup below which the agent makes all of its own; empty for the root. */
  readonly cgroupRoot: string;
  /** The cgroups of daemons that /stats/summary shows, below the mount point; each is undefined if none is configured. */
  readonly daemonCgroups: {
    /** `--runtime-cgroups`: the container runtime. */
    readonly runtime?: string;
    /** `systemCgroups`: the other daemons. */
    readonly misc?: string;
  };
  readonly failCgroupV1: boolean;
  readonly failSwapOn: boolean;
  /** The OOM score of the agent itself. */
  readonly oomScoreAdj: number;
  /** How many files the agent may open. */
  readonly maxOpenFiles: number;
  /** Whether the agent refuses a kernel with other settings than Kubernetes expects. */
  readonly protectKernelDefaults: boolean;
  /** `--set-kernel-tunables`: whether the agent sets them, unless it refuses such a kernel. */
  readonly setsKernelTunables: boolean;
  readonly network: NetworkConfig;
  /** Undefined when unset: then true under cgroup v1, which has no group kill, and false under v2. */
  readonly singleProcessOOMKill: boolean | undefined;
  /** How many user and group ids a pod with its own user namespace gets. */
  readonly idsPerPod: number;
  readonly containerLogs: {
    /** The feature gate PodLogsQuerySplitStreams: whether clients can select one stream of a log. */
    readonly splitsStreams: boolean;
    /** Undefined where logs are not rotated: with a negative `containerLogMaxSize`. */
    readonly rotation: LogRotationSettings | undefined;
  };
  readonly logging: { readonly format: LogFormat; readonly verbosity: number };

  /** The node's HTTPS API; undefined with `enableServer: false`. */
  readonly api: ApiConfig | undefined;
  /** The port that answers health checks of this machine; undefined with `healthzPort: 0`. */
  readonly healthz: ListenAddress | undefined;
  /** As `/configz` shows it: defaults, file, drop-ins and flags. */
  readonly kubeletConfiguration: KubeletConfiguration;
  /** As `/flagz` shows them: by name, without secrets. */
  readonly flagValues: Readonly<Record<string, string>>;

  /** Undefined if no start of a pod is traced. */
  readonly tracing: TracingConfig | undefined;

  /** The rate limit of requests to the API server except heartbeats and events; undefined means no limit. */
  readonly kubeAPI: RequestRate | undefined;
  /** The rate limit of events; undefined means no limit. */
  readonly events: RequestRate | undefined;

  readonly node: NodeConfig & { readonly registerNode: boolean };
}

export const networkOwners = ["auto", "agent", "runtime"] as const;
/** Who executes the plugins of CNI. `auto`: the agent if its delegate is installed, else the container runtime. */
export type NetworkOwner = (typeof networkOwners)[number];

/** Where `berth cni install` puts the delegate's list, and the agent looks for it, unless flags say otherwise. */
export const DELEGATE_DIR = "/etc/berth/cni/net.d";

export const networkSources = ["auto", "chain", "builtin"] as const;
/**
 * Which network the agent executes, where it owns the network. `chain`: the first one of `--chain-dir` of `berth cni install`. `builtin`: the
 * built-in one. `auto`: as `chain`, but on a standalone node as `builtin` while that folder has no configuration.
 */
export type NetworkSource = (typeof networkSources)[number];

export interface NetworkConfig {
  /** `--network` */
  readonly source: NetworkSource;
  /** `--network-owner` */
  readonly owner: NetworkOwner;
  /** `--network-delegate-dir`: the folder in which `berth cni install` has put the delegate's list. */
  readonly delegateDir: string;
  /** `podCIDR`: the address ranges of pods until the Node object has its own; on a standalone node they stay. */
  readonly podCIDRs: readonly string[];
}

/** Where traces are sent, and how many. */
export interface TracingConfig {
  /** `HOST:PORT`, or an address of gRPC such as `unix:///run/collector.sock`. */
  readonly endpoint: string;
  /** How many of a million starts of pods are traced; more than 0. */
  readonly samplingRatePerMillion: number;
}

export interface ListenAddress {
  readonly address: string;
  readonly port: number;
}

/** The settings of the node's HTTPS API. */
export interface ApiConfig extends ListenAddress {
  readonly tls: {
    /** The serving certificate and its key; undefined for a self-signed one below `certDir`. */
    readonly files: { readonly cert: string; readonly key: string } | undefined;
    readonly certDir: string;
    /** Empty: the default. */
    readonly minVersion: string;
    /** Go's names; empty: the default. */
    readonly cipherSuites: readonly string[];
    /** The numbers of TLS; empty: the default. */
    readonly curvePreferences: readonly number[];
  };
  /** Whose client certificates are accepted; undefined for none. */
  readonly clientCAFile: string | undefined;
  /** Bearer tokens are reviewed by the API server; undefined if none is accepted. */
  readonly tokenReview: { readonly cacheTtlMs: number } | undefined;
  readonly allowsAnonymous: boolean;
  /** Requests are authorized by the API server; undefined if every authenticated one is allowed. */
  readonly accessReview: { readonly allowedTtlMs: number; readonly deniedTtlMs: number } | undefined;
  /** 0: streams are never idle for too long. */
  readonly streamingIdleTimeoutMs: number;
  readonly enables: {
    readonly debugging: boolean;
    readonly systemLogs: boolean;
    readonly systemLogQuery: boolean;
    readonly profiling: boolean;
    readonly debugFlags: boolean;
    /** The feature gate ContainerCheckpoint. */
    readonly checkpoint: boolean;
  };
}

export type ClusterConfigSource =
  /** The path is absolute. */
  | { readonly kind: "kubeconfig"; readonly path: string }
  /** The service account of the agent's own pod: environment variables and a mounted token. */
  | { readonly kind: "in-cluster" };

/** A rate limit: requests per second, and the burst after an idle period. */
export interface RequestRate {
  readonly qps: number;
  readonly burst: number;
}
