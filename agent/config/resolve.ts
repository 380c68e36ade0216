import { posix } from "node:path";
import type { MemoryQoS } from "../../proto/cgroup/memory-qos.ts";
import type { KubeletConfiguration } from "../../proto/kubelet/config.ts";
import { parseQuantity, toScaled } from "../../proto/kubernetes/values/quantity.ts";
import type { Json } from "../../proto/yaml/value-node.ts";
import {
  type ApiConfig,
  type ClusterConfigSource,
  type Config,
  networkOwners,
  networkSources,
  type RequestRate,
} from "./config.ts";
import { validDurationMs } from "./fields/duration.ts";
import type { Flag } from "./flags/flag.ts";
import type { FlagOverrides } from "./flags/flag-overrides.ts";
import { flagGroups } from "./flags/flag-table.ts";
import { declaredGates } from "./kubelet-config/feature-gates.ts";
import { resolveGates } from "./kubelet-config/gates.ts";

const MAX_RESTART_PERIOD = "5m";
const DEFAULT_IDS_PER_POD = 65_536;

/** The settings that exist only as flags. `""` means that a flag is not set. */
export interface FlagOnlySettings {
  readonly kubeconfig: string;
  readonly inCluster: boolean;
  readonly rootDir: string;
  readonly certDir: string;
  readonly hostnameOverride: string;
  readonly config: string;
  readonly configDir: string;
  readonly nodeIP: string;
  readonly runtimeCgroups: string;
  readonly nodeLabels: Readonly<Record<string, string>>;
  readonly cloudProvider: string;
  readonly imageCredentialProviderConfig: string;
  readonly imageCredentialProviderBinDir: string;
  readonly earlyProbes: boolean;
  readonly keepsReferencedObjects: boolean;
  readonly setsKernelTunables: boolean;
  readonly network: string;
  readonly networkOwner: string;
  readonly networkDelegateDir: string;
}

/**
 * Converts the validated KubeletConfiguration and flags to the agent's own Config. `absolute` resolves a path against
 * the working directory.
 */
export function resolveConfig(
  kubelet: KubeletConfiguration,
  flags: FlagOnlySettings,
  { nodeName, credentialProviders, flagValues }: Pick<Config, "nodeName" | "credentialProviders" | "flagValues">,
  absolute: (path: string) => string,
): Config {
  const runtime = withScheme(kubelet.containerRuntimeEndpoint);
  const { earlyProbes, keepsReferencedObjects, setsKernelTunables } = flags;
  const gates = resolveGates(new Map(Object.entries(kubelet.featureGates)));
  return {
    ...{ nodeName, flagValues },
    rootDir: absolute(flags.rootDir),
    clusterConfigSource: clusterConfigSourceOf(flags, absolute),
    nodeIPs: flags.nodeIP === "" ? [] : flags.nodeIP.split(",").map((address) => address.trim()),
    staticPodPath: orUndefined(absolute(kubelet.staticPodPath)),
    staticPodURL: orUndefined(kubelet.staticPodURL),
    staticPodURLHeader: kubelet.staticPodURLHeader,
    fileCheckFrequencyMs: validDurationMs(kubelet.fileCheckFrequency),
    volumeStatsAggPeriodMs: validDurationMs(kubelet.volumeStatsAggPeriod),
    httpCheckFrequencyMs: validDurationMs(kubelet.httpCheckFrequency),
    containerRuntimeEndpoint: runtime,
    imageServiceEndpoint: kubelet.imageServiceEndpoint === "" ? runtime : withScheme(kubelet.imageServiceEndpoint),
    runtimeRequestTimeoutMs: validDurationMs(kubelet.runtimeRequestTimeout),
    podLogsDir: kubelet.podLogsDir,
    maxParallelImagePulls: kubelet.serializeImagePulls ? 1 : kubelet.maxParallelImagePulls,
    registryPullQPS: kubelet.registryPullQPS,
    registryBurst: kubelet.registryBurst,
    credentialProviders,
    imageVerification: imageVerificationOf(kubelet),
    maxContainerRestartPeriodMs: validDurationMs(
      kubelet.crashLoopBackOff.maxContainerRestartPeriod ?? MAX_RESTART_PERIOD,
    ),
    ...{ earlyProbes, keepsReferencedObjects, setsKernelTunables, network: networkOf(kubelet, flags, absolute) },
    certificateGates: {
      clusterTrustBundleProjection: gates.ClusterTrustBundleProjection,
      podCertificateRequest: gates.PodCertificateRequest,
    },
    changeDetection: {
      strategy: kubelet.configMapAndSecretChangeDetectionStrategy,
      syncFrequencyMs: validDurationMs(kubelet.syncFrequency),
    },
    clusterDNS: kubelet.clusterDNS,
    clusterDomain: kubelet.clusterDomain,
    resolvConf: orUndefined(absolute(kubelet.resolvConf)),
    cgroupsPerQOS: kubelet.cgroupsPerQOS,
    cgroupDriver: kubelet.cgroupDriver,
    cgroupRoot: kubelet.cgroupRoot,
    daemonCgroups: daemonCgroupsOf(kubelet, flags),
    cpuCFSQuota: kubelet.cpuCFSQuota,
    cpuCFSQuotaPeriodMs: validDurationMs(kubelet.cpuCFSQuotaPeriod),
    failCgroupV1: kubelet.failCgroupV1,
    failSwapOn: kubelet.failSwapOn,
    oomScoreAdj: kubelet.oomScoreAdj,
    maxOpenFiles: kubelet.maxOpenFiles,
    protectKernelDefaults: kubelet.protectKernelDefaults,
    singleProcessOOMKill: kubelet.singleProcessOOMKill,
    swapBehavior: kubelet.memorySwap.swapBehavior,
    memoryQoS: gates.MemoryQoS ? memoryQoSOf(kubelet) : undefined,
    podPidsLimit: kubelet.podPidsLimit,
    seccompDefault: kubelet.seccompDefault,
    allowedUnsafeSysctls: kubelet.allowedUnsafeSysctls,
    containerStopSignals: gates.ContainerStopSignals,
    idsPerPod: kubelet.userNamespaces?.idsPerPod ?? DEFAULT_IDS_PER_POD,
    ...logsOf(kubelet, gates),
    ...resolveServers(kubelet, flags, gates, absolute),
    tracing: tracingOf(kubelet),
    ...ratesOf(kubelet),
    node: { ...resolveNode(kubelet, flags, gates), declaredFeatures: declaredGates.filter((name) => gates[name]) },
  };
}

/** The flags' own checks have refused any other owner and source. */
function networkOf(
  { podCIDR }: KubeletConfiguration,
  { network, networkOwner, networkDelegateDir }: FlagOnlySettings,
  absolute: (path: string) => string,
): Config["network"] {
  const owner = networkOwners.find((each) => each === networkOwner) ?? "auto";
  const source = networkSources.find((each) => each === network) ?? "auto";
  const podCIDRs = podCIDR === "" ? [] : podCIDR.split(",");
  return { source, owner, delegateDir: absolute(networkDelegateDir), podCIDRs };
}

function imageVerificationOf({
  imagePullCredentialsVerificationPolicy: policy,
  preloadedImagesVerificationAllowlist: allowlist,
}: KubeletConfiguration): Config["imageVerification"] {
  return policy && { policy, allowlist };
}

function daemonCgroupsOf(
  { systemCgroups }: Pick<KubeletConfiguration, "systemCgroups">,
  { runtimeCgroups }: Pick<FlagOnlySettings, "runtimeCgroups">,
): Config["daemonCgroups"] {
  const below = (path: string) => posix.resolve("/", path);
  return {
    ...(runtimeCgroups !== "" && { runtime: below(runtimeCgroups) }),
    ...(systemCgroups !== "" && { misc: below(systemCgroups) }),
  };
}

/** The agent's own log, and those of containers. */
function logsOf(
  {
    logging: { format, verbosity },
    containerLogMaxSize,
    containerLogMaxFiles,
    containerLogMaxWorkers,
    containerLogMonitorInterval,
  }: KubeletConfiguration,
  { PodLogsQuerySplitStreams: splitsStreams }: ReturnType<typeof resolveGates>,
): Pick<Config, "logging" | "containerLogs"> {
  const maxSizeBytes = Number(toScaled(parseQuantity(containerLogMaxSize), 0));
  const rotation = {
    maxSizeBytes,
    maxFiles: containerLogMaxFiles,
    maxWorkers: containerLogMaxWorkers,
    monitorIntervalMs: validDurationMs(containerLogMonitorInterval),
  };
  return {
    logging: { format, verbosity },
    containerLogs: { splitsStreams, rotation: maxSizeBytes < 0 ? undefined : rotation },
  };
}

function memoryQoSOf({ memoryThrottlingFactor, memoryReservationPolicy }: KubeletConfiguration): MemoryQoS {
  return { throttlingFactor: memoryThrottlingFactor, reservationPolicy: memoryReservationPolicy };
}

function tracingOf({ tracing = {} }: KubeletConfiguration): Config["tracing"] {
  const { endpoint = "localhost:4317", samplingRatePerMillion = 0 } = tracing;
  return samplingRatePerMillion === 0 ? undefined : { endpoint, samplingRatePerMillion };
}

const ratesOf = (kubelet: KubeletConfiguration): Pick<Config, "kubeAPI" | "events"> => ({
  kubeAPI: rateOf(kubelet.kubeAPIQPS, kubelet.kubeAPIBurst),
  events: rateOf(kubelet.eventRecordQPS, kubelet.eventBurst),
});

/** 0 requests per second means no limit. */
function rateOf(qps: number, burst: number): RequestRate | undefined {
  return qps === 0 ? undefined : { qps, burst: Math.max(1, burst) };
}

function resolveNode(
  kubelet: KubeletConfiguration,
  { nodeLabels, cloudProvider }: FlagOnlySettings,
  gates: ReturnType<typeof resolveGates>,
): Omit<Config["node"], "declaredFeatures"> {
  return {
    registerNode: kubelet.registerNode,
    labels: nodeLabels,
    registerWithTaints: kubelet.registerWithTaints,
    providerID: kubelet.providerID,
    isCloudExternal: cloudProvider === "external",
    enableControllerAttachDetach: kubelet.enableControllerAttachDetach,
    maxPods: kubelet.maxPods,
    podsPerCore: kubelet.podsPerCore,
    localStorageCapacityIsolation: kubelet.localStorageCapacityIsolation,
    systemReserved: kubelet.systemReserved,
    kubeReserved: kubelet.kubeReserved,
    reservedSystemCPUs: kubelet.reservedSystemCPUs,
    cgroupsPerQOS: kubelet.cgroupsPerQOS,
    enforceNodeAllocatable: kubelet.enforceNodeAllocatable,
    reservedCgroupPaths: { system: kubelet.systemReservedCgroup, kube: kubelet.kubeReservedCgroup },
    memoryReservationPolicy: gates.MemoryQoS ? kubelet.memoryReservationPolicy : undefined,
    evictionHard: kubelet.evictionHard,
    evictionSoft: kubelet.evictionSoft,
    evictionSoftGracePeriodMs: Object.fromEntries(
      Object.entries(kubelet.evictionSoftGracePeriod).map(([signal, period]) => [signal, validDurationMs(period)]),
    ),
    evictionMinimumReclaim: kubelet.evictionMinimumReclaim,
    evictionPressureTransitionPeriodMs: validDurationMs(kubelet.evictionPressureTransitionPeriod),
    nodeStatusMaxImages: kubelet.nodeStatusMaxImages,
    nodeStatusUpdateFrequencyMs: validDurationMs(kubelet.nodeStatusUpdateFrequency),
    nodeStatusReportFrequencyMs: validDurationMs(kubelet.nodeStatusReportFrequency),
    nodeLeaseDurationSeconds: kubelet.nodeLeaseDurationSeconds,
  };
}

function resolveServers(
  kubelet: KubeletConfiguration,
  ...rest: ApiArguments
): Pick<Config, "api" | "healthz" | "kubeletConfiguration"> {
  const { enableServer, healthzBindAddress: address, healthzPort: port } = kubelet;
  return {
    api: enableServer ? resolveApi(kubelet, ...rest) : undefined,
    healthz: port === 0 ? undefined : { address, port },
    kubeletConfiguration: kubelet,
  };
}

type ApiArguments = readonly [
  flags: FlagOnlySettings,
  gates: ReturnType<typeof resolveGates>,
  absolute: (path: string) => string,
];

function resolveApi(kubelet: KubeletConfiguration, ...[{ certDir }, gates, absolute]: ApiArguments): ApiConfig {
  const { authentication, authorization, tlsCertFile, tlsPrivateKeyFile } = kubelet;
  const { cacheAuthorizedTTL, cacheUnauthorizedTTL } = authorization.webhook;
  const hasFiles = tlsCertFile !== "" && tlsPrivateKeyFile !== "";
  return {
    address: kubelet.address,
    port: kubelet.port,
    tls: {
      files: hasFiles ? { cert: absolute(tlsCertFile), key: absolute(tlsPrivateKeyFile) } : undefined,
      certDir: absolute(certDir),
      minVersion: kubelet.tlsMinVersion,
      cipherSuites: kubelet.tlsCipherSuites,
      curvePreferences: kubelet.tlsCurvePreferences,
    },
    clientCAFile: orUndefined(absolute(authentication.x509.clientCAFile)),
    tokenReview: authentication.webhook.enabled
      ? { cacheTtlMs: validDurationMs(authentication.webhook.cacheTTL) }
      : undefined,
    allowsAnonymous: authentication.anonymous.enabled,
    accessReview:
      authorization.mode === "AlwaysAllow"
        ? undefined
        : {
            allowedTtlMs: validDurationMs(cacheAuthorizedTTL),
            deniedTtlMs: validDurationMs(cacheUnauthorizedTTL),
          },
    streamingIdleTimeoutMs: validDurationMs(kubelet.streamingConnectionIdleTimeout),
    enables: {
      debugging: kubelet.enableDebuggingHandlers,
      systemLogs: kubelet.enableSystemLogHandler,
      systemLogQuery: kubelet.enableSystemLogQuery === true,
      profiling: kubelet.enableProfilingHandler,
      debugFlags: kubelet.enableDebugFlagsHandler,
      checkpoint: gates.ContainerCheckpoint,
    },
  };
}

/** Every flag with its effective value, as `/flagz` shows it. Secret ones are masked, as the kubelet masks them. */
export function flagValuesOf({ byName }: FlagOverrides, kubelet: KubeletConfiguration): Config["flagValues"] {
  const effectiveOf = ({ name, field, default: fallback }: Flag) =>
    field === undefined ? (byName.get(name)?.value ?? fallback) : valueAt(kubelet, field);
  const textOf = (value: unknown) => (typeof value === "object" ? JSON.stringify(value) : String(value ?? ""));
  const all: readonly Flag[] = flagGroups.flatMap(({ flags }) => flags);
  return Object.fromEntries(all.map((flag) => [flag.name, flag.secret ? "CLASSIFIED" : textOf(effectiveOf(flag))]));
}

function valueAt(value: unknown, path: string): unknown {
  return path.split(".").reduce((at, name) => (at as Readonly<Record<string, unknown>> | undefined)?.[name], value);
}

/** The values of the settings that exist only as flags, with their defaults. */
export function resolveFlagOnlySettings({ byName }: FlagOverrides): FlagOnlySettings {
  const defaults = new Map(flagGroups.flatMap(({ flags }) => flags).map((flag) => [flag.name, flag.default]));
  const text = (name: string) => String(byName.get(name)?.value ?? defaults.get(name) ?? "");
  return {
    kubeconfig: text("kubeconfig"),
    inCluster: text("in-cluster") === "true",
    rootDir: text("root-dir"),
    certDir: text("cert-dir"),
    hostnameOverride: text("hostname-override"),
    config: text("config"),
    configDir: text("config-dir"),
    nodeIP: text("node-ip"),
    runtimeCgroups: text("runtime-cgroups"),
    nodeLabels: mapOf(byName.get("node-labels")?.value),
    cloudProvider: text("cloud-provider"),
    imageCredentialProviderConfig: text("image-credential-provider-config"),
    imageCredentialProviderBinDir: text("image-credential-provider-bin-dir"),
    earlyProbes: text("early-probes") === "true",
    keepsReferencedObjects: text("keep-referenced-objects") === "true",
    setsKernelTunables: text("set-kernel-tunables") === "true",
    network: text("network"),
    networkOwner: text("network-owner"),
    networkDelegateDir: text("network-delegate-dir"),
  };
}

function mapOf(value: Json | undefined): Readonly<Record<string, string>> {
  if (typeof value !== "object" || value === null) return {};
  return Object.fromEntries(Object.entries(value).map(([name, text]) => [name, String(text)]));
}

/** Freezes a value and everything in it. */
export function freezeDeep<T>(value: T): T {
  if (typeof value !== "object" || value === null || Object.isFrozen(value)) return value;
  for (const below of Object.values(value)) freezeDeep(below);
  return Object.freeze(value);
}

/** A bare path is a unix socket, as in the kubelet. */
function withScheme(endpoint: string): string {
  return endpoint.startsWith("/") ? `unix://${endpoint}` : endpoint;
}

function clusterConfigSourceOf(
  { kubeconfig, inCluster }: FlagOnlySettings,
  absolute: (path: string) => string,
): ClusterConfigSource | undefined {
  if (inCluster) return { kind: "in-cluster" };
  return kubeconfig === "" ? undefined : { kind: "kubeconfig", path: absolute(kubeconfig) };
}

function orUndefined(text: string): string | undefined {
  return text === "" ? undefined : text;
}
