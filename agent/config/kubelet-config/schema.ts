import { kubeletConfigApiVersion, kubeletConfigKind } from "../../../proto/kubelet/config.ts";
import type { Json } from "../../../proto/yaml/value-node.ts";
import type { FieldType } from "../fields/field-rule.ts";
import { cipherSuites } from "./cipher-suites.ts";
import type { Field, FieldPath } from "./field.ts";

type OtherProperties = Omit<Field, "type" | "implemented" | "insteadMessage">;

/** A field that the agent implements. */
function implemented(type: FieldType, rest: OtherProperties = {}): Field {
  return { type, implemented: true, ...rest };
}

/** A field without effect yet; `insteadMessage` completes the warning "not implemented yet: …". */
function notImplemented(type: FieldType, insteadMessage: string, rest: OtherProperties = {}): Field {
  return { type, implemented: false, insteadMessage, ...rest };
}

const structField: Field = { type: "struct", implemented: true };

const noMemoryReservation = "no memory is reserved for QoS classes";
const noEviction = "the node reports pressure, but evicts no pods yet";
const noImageGc = "images are never removed yet";
const noCpuManager = "containers share all CPUs";
const noMemoryManager = "containers share all memory";
const noTopologyManager = "resources are not aligned to NUMA nodes";
const noShutdown = "a node shutdown does not terminate pods gracefully yet";
const noIptables = "no iptables rules are written";
const oneLogStream = "all log lines go to one stream, unbuffered";

/** The agent behaves as if the field were false. */
const implementedWhenFalse = { implementedValues: [false] } as const;
/** The default requests what happens anyway. */
const implementedByDefault = <const T extends Json>(value: T) => ({ default: value, implementedValues: [value] });
const nonNegative = { range: [0, 2_147_483_647] } as const;
const portRange = { range: [0, 65_535] } as const;
const bitRange = { range: [0, 31] } as const;
const percentRange = { range: [0, 100] } as const;
const nonNegativeDuration = { must: "a duration, not negative, such as 1m30s" } as const;
const positiveDuration = { must: "a duration greater than zero, such as 1m30s" } as const;
const signals = [
  "memory.available",
  "nodefs.available",
  "nodefs.inodesFree",
  "imagefs.available",
  "imagefs.inodesFree",
  "containerfs.available",
  "containerfs.inodesFree",
  "allocatableMemory.available",
  "pid.available",
] as const;
/** A threshold of 0% or 100% is disabled. */
const thresholds = {
  keys: signals,
  must: "a quantity greater than zero, such as 100Mi, or a percentage from 0% to 100%",
  implementedValues: ["0%", "100%"],
} as const;
const reserved = {
  keys: ["cpu", "memory", "ephemeral-storage", "pid"],
  must: "a quantity, not negative, such as 500m or 1Gi",
} as const;

/**
 * Every field of KubeletConfiguration v1beta1: its allowed values, its default, and whether the agent implements it.
 * Decoding, validation, defaults, flags and warnings all use this table. The defaults are the kubelet's for a
 * configuration file, which are the secure ones.
 */
export const schema = {
  apiVersion: implemented("string", { default: kubeletConfigApiVersion, allowed: [kubeletConfigApiVersion] }),
  kind: implemented("string", { default: kubeletConfigKind, allowed: [kubeletConfigKind] }),

  enableServer: implemented("*bool", { default: true }),
  staticPodPath: implemented("string"),
  podLogsDir: implemented("string", {
    default: "/var/log/pods",
    must: "an absolute path in ASCII without . or .. or doubled slashes",
  }),
  syncFrequency: implemented("Duration", { default: "1m", ...positiveDuration }),
  fileCheckFrequency: implemented("Duration", { default: "20s", ...positiveDuration }),
  httpCheckFrequency: implemented("Duration", { default: "20s", ...positiveDuration }),
  staticPodURL: implemented("string", { must: "an http or https address", secret: true }),
  staticPodURLHeader: implemented("map[string][]string", { secret: true }),

  address: implemented("string", { default: "0.0.0.0", must: "an IP address" }),
  port: implemented("int32", { default: 10250, range: [1, 65_535] }),
  readOnlyPort: notImplemented("int32", "no port is served without authentication", portRange),
  tlsCertFile: implemented("string"),
  tlsPrivateKeyFile: implemented("string"),
  tlsCipherSuites: implemented("[]string", { allowed: cipherSuites }),
  tlsCurvePreferences: implemented("[]int32", { allowed: [23, 24, 25, 29, 4587, 4588, 4589] }),
  tlsMinVersion: implemented("string", {
    allowed: ["", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"],
  }),
  rotateCertificates: notImplemented(
    "bool",
    "no certificates are requested yet; renewed certificate files are read again",
  ),
  serverTLSBootstrap: notImplemented(
    "bool",
    "no serving certificate is requested yet: tlsCertFile is served, or a self-signed certificate",
  ),
  authentication: structField,
  "authentication.x509": structField,
  "authentication.x509.clientCAFile": implemented("string"),
  "authentication.webhook": structField,
  "authentication.webhook.enabled": implemented("*bool", { default: true }),
  "authentication.webhook.cacheTTL": implemented("Duration", { default: "2m" }),
  "authentication.anonymous": structField,
  "authentication.anonymous.enabled": implemented("*bool", { default: false }),
  authorization: structField,
  "authorization.mode": implemented("string", { default: "Webhook", allowed: ["AlwaysAllow", "Webhook"] }),
  "authorization.webhook": structField,
  "authorization.webhook.cacheAuthorizedTTL": implemented("Duration", { default: "5m" }),
  "authorization.webhook.cacheUnauthorizedTTL": implemented("Duration", { default: "30s" }),

  registryPullQPS: implemented("*int32", { default: 5, ...nonNegative }),
  registryBurst: implemented("int32", { default: 10, ...nonNegative }),
  imagePullCredentialsVerificationPolicy: implemented("string", {
    default: "NeverVerifyPreloadedImages",
    allowed: ["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"],
    gate: "KubeletEnsureSecretPulledImages",
  }),
  preloadedImagesVerificationAllowlist: implemented("[]string", {
    must: "an image name without tag or digest, or a prefix ending in /*",
  }),
  eventRecordQPS: implemented("*int32", { default: 50, ...nonNegative }),
  eventBurst: implemented("int32", { default: 100, ...nonNegative }),
  enableDebuggingHandlers: implemented("*bool", { default: true }),
  enableContentionProfiling: notImplemented("bool", "no profiles are taken"),
  healthzPort: implemented("*int32", { default: 10248, ...portRange }),
  healthzBindAddress: implemented("string", { default: "127.0.0.1", must: "an IP address" }),
  oomScoreAdj: implemented("*int32", { default: -999, range: [-1000, 1000] }),

  clusterDomain: implemented("string"),
  clusterDNS: implemented("[]string", { must: "an IP address" }),
  streamingConnectionIdleTimeout: implemented("Duration", { default: "4h" }),
  nodeStatusUpdateFrequency: implemented("Duration", { default: "10s" }),
  nodeStatusReportFrequency: implemented("Duration", { default: "5m" }),
  nodeLeaseDurationSeconds: implemented("int32", { default: 40, range: [1, 2_147_483_647] }),
  imageMinimumGCAge: notImplemented("Duration", noImageGc, { default: "2m", ...nonNegativeDuration }),
  imageMaximumGCAge: notImplemented("Duration", noImageGc, nonNegativeDuration),
  imageGCHighThresholdPercent: notImplemented("*int32", noImageGc, {
    default: 85,
    ...percentRange,
    implementedValues: [100],
  }),
  imageGCLowThresholdPercent: notImplemented("*int32", noImageGc, { default: 80, ...percentRange }),
  volumeStatsAggPeriod: implemented("Duration", { default: "1m" }),

  kubeletCgroups: notImplemented("string", "the agent stays in its cgroup, which /stats/summary shows"),
  systemCgroups: notImplemented("string", "/stats/summary shows its usage, and no process is moved into it"),
  cgroupRoot: implemented("string"),
  cgroupsPerQOS: implemented("*bool", { default: true }),
  cgroupDriver: implemented("string", { default: "cgroupfs", allowed: ["cgroupfs", "systemd"] }),
  cpuManagerPolicy: notImplemented("string", noCpuManager, {
    ...implementedByDefault("none"),
    allowed: ["none", "static"],
  }),
  singleProcessOOMKill: implemented("*bool"),
  cpuManagerPolicyOptions: notImplemented("map[string]string", noCpuManager, {
    keys: [
      "full-pcpus-only",
      "distribute-cpus-across-numa",
      "align-by-socket",
      "distribute-cpus-across-cores",
      "strict-cpu-reservation",
      "prefer-align-cpus-by-uncorecache",
    ],
    must: "true or false in quotes",
  }),
  cpuManagerReconcilePeriod: notImplemented("Duration", noCpuManager, implementedByDefault("10s")),
  memoryManagerPolicy: notImplemented("string", noMemoryManager, {
    ...implementedByDefault("None"),
    allowed: ["None", "Static"],
  }),
  topologyManagerPolicy: notImplemented("string", noTopologyManager, {
    ...implementedByDefault("none"),
    allowed: ["none", "best-effort", "restricted", "single-numa-node"],
  }),
  topologyManagerScope: notImplemented("string", noTopologyManager, {
    ...implementedByDefault("container"),
    allowed: ["container", "pod"],
  }),
  topologyManagerPolicyOptions: notImplemented("map[string]string", noTopologyManager, {
    keys: ["prefer-closest-numa-nodes", "max-allowable-numa-nodes"],
  }),
  qosReserved: notImplemented("map[string]string", noMemoryReservation, {
    keys: ["memory"],
    must: "a whole percentage from 0% to 100%",
    implementedValues: ["0%"],
  }),
  runtimeRequestTimeout: implemented("Duration", { default: "2m", ...positiveDuration }),
  hairpinMode: notImplemented("string", "the network plugin decides", {
    default: "promiscuous-bridge",
    allowed: ["promiscuous-bridge", "hairpin-veth", "none"],
    implementedValues: ["none"],
  }),
  maxPods: implemented("int32", { default: 110, ...nonNegative }),
  podCIDR: implemented("string", { must: "address ranges such as 10.88.0.0/16, separated by a comma" }),
  podPidsLimit: implemented("*int64", { default: -1 }),
  resolvConf: implemented("*string", { default: "/etc/resolv.conf" }),
  runOnce: notImplemented("bool", "the agent keeps running"),
  cpuCFSQuota: implemented("*bool", { default: true }),
  cpuCFSQuotaPeriod: implemented("*Duration", { default: "100ms", range: ["1ms", "1s"] }),
  nodeStatusMaxImages: implemented("*int32", { default: 50, range: [-1, 2_147_483_647] }),
  maxOpenFiles: implemented("int64", { default: 1_000_000, range: [0, Number.MAX_SAFE_INTEGER] }),
  contentType: notImplemented("string", "requests and responses are JSON", {
    default: "application/vnd.kubernetes.protobuf",
  }),
  kubeAPIQPS: implemented("*int32", { default: 50, ...nonNegative }),
  kubeAPIBurst: implemented("int32", { default: 100, ...nonNegative }),
  serializeImagePulls: implemented("*bool", { default: true }),
  maxParallelImagePulls: implemented("*int32", { range: [1, 2_147_483_647] }),

  evictionHard: notImplemented("map[string]string", noEviction, {
    ...thresholds,
    default: {
      "memory.available": "100Mi",
      "nodefs.available": "10%",
      "nodefs.inodesFree": "5%",
      "imagefs.available": "15%",
      "imagefs.inodesFree": "5%",
    },
  }),
  evictionSoft: notImplemented("map[string]string", noEviction, thresholds),
  evictionSoftGracePeriod: notImplemented("map[string]string", noEviction, {
    keys: signals,
    must: "a duration, not negative, such as 1m30s",
  }),
  evictionPressureTransitionPeriod: implemented("Duration", { default: "5m" }),
  evictionMaxPodGracePeriod: notImplemented("int32", noEviction),
  evictionMinimumReclaim: notImplemented("map[string]string", noEviction, {
    keys: signals,
    must: "a quantity, not negative, such as 100Mi, or a percentage above 0%",
  }),
  mergeDefaultEvictionSettings: implemented("*bool", { default: false }),
  podsPerCore: implemented("int32", nonNegative),
  enableControllerAttachDetach: notImplemented("*bool", "no volumes are attached yet", { default: true }),
  protectKernelDefaults: implemented("bool"),
  makeIPTablesUtilChains: notImplemented("*bool", noIptables, { default: true, ...implementedWhenFalse }),
  iptablesMasqueradeBit: notImplemented("*int32", noIptables, { default: 14, ...bitRange }),
  iptablesDropBit: notImplemented("*int32", noIptables, { default: 15, ...bitRange }),
  featureGates: implemented("map[string]bool"),
  failSwapOn: implemented("*bool", { default: true }),
  memorySwap: structField,
  "memorySwap.swapBehavior": implemented("string", { allowed: ["", "NoSwap", "LimitedSwap"] }),
  containerLogMaxSize: implemented("string", { default: "10Mi", must: "a quantity such as 10Mi" }),
  containerLogMaxFiles: implemented("*int32", { default: 5, range: [2, 2_147_483_647] }),
  containerLogMaxWorkers: implemented("*int32", { default: 1, range: [1, 2_147_483_647] }),
  containerLogMonitorInterval: implemented("*Duration", {
    default: "10s",
    must: "a duration of at least 3s",
  }),
  configMapAndSecretChangeDetectionStrategy: implemented("string", {
    default: "Watch",
    allowed: ["Get", "Cache", "Watch"],
  }),
  systemReserved: implemented("map[string]string", reserved),
  kubeReserved: implemented("map[string]string", reserved),
  reservedSystemCPUs: implemented("string", { must: "a CPU list such as 0-3,8" }),
  // This release of Kubernetes hides none of the metrics that the agent has.
  showHiddenMetricsForVersion: implemented("string", { allowed: ["", "1.35"] }),
  systemReservedCgroup: implemented("string"),
  kubeReservedCgroup: implemented("string"),
  enforceNodeAllocatable: implemented("[]string", {
    default: ["pods"],
    allowed: [
      "none",
      "pods",
      "system-reserved",
      "system-reserved-compressible",
      "kube-reserved",
      "kube-reserved-compressible",
    ],
  }),
  allowedUnsafeSysctls: implemented("[]string", {
    must: "a namespaced sysctl such as kernel.msg* or net.core.somaxconn",
  }),
  volumePluginDir: notImplemented("string", "no volume plugins are loaded", {
    default: "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
  }),
  providerID: implemented("string"),
  kernelMemcgNotification: notImplemented("bool", "memory is measured every nodeStatusUpdateFrequency"),

  logging: structField,
  "logging.format": implemented("string", { default: "text", allowed: ["text", "json"] }),
  "logging.flushFrequency": implemented("TimeOrMetaDuration", { default: "5s" }),
  "logging.verbosity": implemented("uint32", nonNegative),
  "logging.vmodule": notImplemented("[]struct", "every file logs with logging.verbosity"),
  "logging.vmodule[].filePattern": notImplemented("string", "", { must: "a name without = and ," }),
  "logging.vmodule[].verbosity": notImplemented("uint32", "", nonNegative),
  "logging.options": structField,
  "logging.options.text": structField,
  "logging.options.text.splitStream": notImplemented("bool", oneLogStream),
  "logging.options.text.infoBufferSize": notImplemented("QuantityValue", oneLogStream, implementedByDefault("0")),
  "logging.options.json": structField,
  "logging.options.json.splitStream": notImplemented("bool", oneLogStream),
  "logging.options.json.infoBufferSize": notImplemented("QuantityValue", oneLogStream, implementedByDefault("0")),

  enableSystemLogHandler: implemented("*bool", { default: true }),
  enableSystemLogQuery: implemented("*bool"),
  shutdownGracePeriod: notImplemented("Duration", noShutdown, nonNegativeDuration),
  shutdownGracePeriodCriticalPods: notImplemented("Duration", noShutdown, nonNegativeDuration),
  shutdownGracePeriodByPodPriority: notImplemented("[]struct", noShutdown),
  "shutdownGracePeriodByPodPriority[].priority": notImplemented("int32", ""),
  "shutdownGracePeriodByPodPriority[].shutdownGracePeriodSeconds": notImplemented("int64", "", {
    range: [0, Number.MAX_SAFE_INTEGER],
  }),
  crashLoopBackOff: structField,
  "crashLoopBackOff.maxContainerRestartPeriod": implemented("*Duration", {
    default: "5m",
    range: ["1s", "5m"],
    gate: "KubeletCrashLoopBackOffMax",
  }),
  reservedMemory: notImplemented("[]struct", noMemoryManager),
  "reservedMemory[].numaNode": notImplemented("int32", "", nonNegative),
  "reservedMemory[].limits": notImplemented("map[string]Quantity", "", {
    must: "a quantity greater than zero, such as 1Gi",
  }),
  enableProfilingHandler: implemented("*bool", { default: true }),
  enableDebugFlagsHandler: implemented("*bool", { default: true }),
  seccompDefault: implemented("*bool", { default: false }),
  memoryThrottlingFactor: implemented("*float64", {
    default: 0.9,
    range: [Number.MIN_VALUE, 1],
  }),
  memoryReservationPolicy: implemented("string", {
    default: "None",
    allowed: ["None", "TieredReservation"],
  }),
  registerWithTaints: implemented("[]struct"),
  "registerWithTaints[].key": implemented("string", { must: "a label key such as example.com/role" }),
  "registerWithTaints[].value": implemented("string", { must: "a label value" }),
  "registerWithTaints[].effect": implemented("string", {
    allowed: ["NoSchedule", "PreferNoSchedule", "NoExecute"],
  }),
  "registerWithTaints[].timeAdded": notImplemented("*Time", ""),
  registerNode: implemented("*bool", { default: true }),
  tracing: { type: "*struct", implemented: true },
  "tracing.endpoint": implemented("*string", {
    must: "an address such as localhost:4317, or one of dns, unix, unix-abstract",
  }),
  "tracing.samplingRatePerMillion": implemented("*int32", { range: [0, 1_000_000] }),
  localStorageCapacityIsolation: implemented("*bool", { default: true }),
  containerRuntimeEndpoint: implemented("string", {
    default: "unix:///run/containerd/containerd.sock",
    must: "a unix socket such as unix:///run/containerd/containerd.sock, its path at most 107 bytes long",
  }),
  imageServiceEndpoint: implemented("string", {
    must: "a unix socket such as unix:///run/containerd/containerd.sock, its path at most 107 bytes long",
  }),
  failCgroupV1: implemented("*bool", { default: true }),
  userNamespaces: { type: "*struct", implemented: true },
  "userNamespaces.idsPerPod": implemented("*int64", { range: [65_536, 4_294_901_760] }),
} as const satisfies Record<FieldPath, Field>;
