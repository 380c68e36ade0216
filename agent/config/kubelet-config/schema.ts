import { kubeletConfigApiVersion, kubeletConfigKind } from "../../../proto/kubelet/config.ts";
import type { Field, FieldPath, FieldType } from "../fields/field-rule.ts";

type Rest = Omit<Field, "type" | "implemented" | "instead">;

/** A field that the agent carries out. */
function done(type: FieldType, rest: Rest = {}): Field {
  return { type, implemented: true, ...rest };
}

/** A field that is known and has no effect yet; `instead` ends the sentence "not implemented yet: …". */
function later(type: FieldType, instead: string, rest: Rest = {}): Field {
  return { type, implemented: false, instead, ...rest };
}

const group: Field = { type: "struct", implemented: true };

const noServer = "the node serves no API yet";
const noHealth = "no health port is served yet";
const noTracing = "no traces are sent";
const noNodeCgroups = "pods and the node get no cgroups of their own yet";
const noReservations = "what is reserved is left out of allocatable, and no cgroup keeps pods from using it yet";
const noEviction = "the node tells of pressure, and nothing is evicted yet";
const noImageGc = "images are never removed yet";
const noLogRotation = "container logs are not rotated yet";
const noCpuManager = "containers share all CPUs";
const noMemoryManager = "containers share all memory";
const noTopologyManager = "resources are not aligned to NUMA nodes";
const noShutdown = "a shutdown of the machine does not end pods in order yet";
const noIptables = "no iptables rules are written";
const oneLogStream = "all log lines go to one stream, unbuffered";

/** Off is what happens. */
const unlessOff = { implementedValues: [false] } as const;
const natural = { range: [0, 2_147_483_647] } as const;
const port = { range: [0, 65_535] } as const;
const bit = { range: [0, 31] } as const;
const percent = { range: [0, 100] } as const;
const notNegative = { must: "a duration, not negative, such as 1m30s" } as const;
const positive = { must: "a duration greater than zero, such as 1m30s" } as const;
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
/** A threshold of 0% or 100% is none. */
const thresholds = {
  keys: signals,
  must: "a quantity greater than zero, such as 100Mi, or a percentage from 0% to 100%",
  implementedValues: ["0%", "100%"],
} as const;
const reserved = {
  keys: ["cpu", "memory", "ephemeral-storage", "pid"],
  must: "a quantity, not negative, such as 500m or 1Gi",
} as const;
const cipherSuites = [
  "TLS_AES_128_GCM_SHA256",
  "TLS_AES_256_GCM_SHA384",
  "TLS_CHACHA20_POLY1305_SHA256",
  "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
  "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
  "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
  "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
  "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
  "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305",
  "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
  "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
  "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
  "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
  "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
  "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
  "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
  "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
  "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305",
  "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
  "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
  "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
  "TLS_RSA_WITH_AES_128_CBC_SHA",
  "TLS_RSA_WITH_AES_128_CBC_SHA256",
  "TLS_RSA_WITH_AES_128_GCM_SHA256",
  "TLS_RSA_WITH_AES_256_CBC_SHA",
  "TLS_RSA_WITH_AES_256_GCM_SHA384",
  "TLS_RSA_WITH_RC4_128_SHA",
] as const;

/**
 * Every field of KubeletConfiguration v1beta1, once: what a file may say, what stands where it says nothing, and whether
 * the agent carries it out. Reading, validation, defaults, flags and warnings all follow this table. The defaults are
 * those that the kubelet gives to a configuration file, which are the secure ones.
 */
export const schema = {
  apiVersion: done("string", { default: kubeletConfigApiVersion, allowed: [kubeletConfigApiVersion] }),
  kind: done("string", { default: kubeletConfigKind, allowed: [kubeletConfigKind] }),

  enableServer: later("*bool", noServer, { default: true, ...unlessOff }),
  staticPodPath: done("string"),
  podLogsDir: done("string", {
    default: "/var/log/pods",
    must: "an absolute path in ASCII without . or .. or doubled slashes",
  }),
  syncFrequency: later("Duration", "a pod is looked at when something about it changes", {
    default: "1m",
    ...positive,
  }),
  fileCheckFrequency: done("Duration", { default: "20s", ...positive }),
  httpCheckFrequency: done("Duration", { default: "20s", ...positive }),
  staticPodURL: done("string", { must: "an http or https address", secret: true }),
  staticPodURLHeader: done("map[string][]string", { secret: true }),

  address: later("string", noServer, { default: "0.0.0.0", must: "an IP address" }),
  port: later("int32", noServer, { default: 10250, range: [1, 65_535] }),
  readOnlyPort: later("int32", noServer, port),
  tlsCertFile: later("string", noServer),
  tlsPrivateKeyFile: later("string", noServer),
  tlsCipherSuites: later("[]string", noServer, { allowed: cipherSuites }),
  tlsCurvePreferences: later("[]int32", noServer, { allowed: [23, 24, 25, 29, 4587, 4588, 4589] }),
  tlsMinVersion: later("string", noServer, {
    allowed: ["", "VersionTLS10", "VersionTLS11", "VersionTLS12", "VersionTLS13"],
  }),
  rotateCertificates: later(
    "bool",
    "no certificates are asked for yet; files that somebody else renews are read again",
  ),
  serverTLSBootstrap: later("bool", noServer),
  authentication: group,
  "authentication.x509": group,
  "authentication.x509.clientCAFile": later("string", noServer),
  "authentication.webhook": group,
  "authentication.webhook.enabled": later("*bool", noServer, { default: true, ...unlessOff }),
  "authentication.webhook.cacheTTL": later("Duration", noServer, { default: "2m" }),
  "authentication.anonymous": group,
  "authentication.anonymous.enabled": later("*bool", noServer, { default: false }),
  authorization: group,
  "authorization.mode": later("string", noServer, { default: "Webhook", allowed: ["AlwaysAllow", "Webhook"] }),
  "authorization.webhook": group,
  "authorization.webhook.cacheAuthorizedTTL": later("Duration", noServer, { default: "5m" }),
  "authorization.webhook.cacheUnauthorizedTTL": later("Duration", noServer, { default: "30s" }),

  registryPullQPS: done("*int32", { default: 5, ...natural }),
  registryBurst: done("int32", { default: 10, ...natural }),
  imagePullCredentialsVerificationPolicy: done("string", {
    default: "NeverVerifyPreloadedImages",
    allowed: ["NeverVerify", "NeverVerifyPreloadedImages", "NeverVerifyAllowlistedImages", "AlwaysVerify"],
    gate: "KubeletEnsureSecretPulledImages",
  }),
  preloadedImagesVerificationAllowlist: done("[]string", {
    must: "an image name without tag or digest, or a prefix ending in /*",
  }),
  eventRecordQPS: done("*int32", { default: 50, ...natural }),
  eventBurst: done("int32", { default: 100, ...natural }),
  enableDebuggingHandlers: later("*bool", noServer, { default: true, ...unlessOff }),
  enableContentionProfiling: later("bool", "no profiles are taken"),
  healthzPort: later("*int32", noHealth, { default: 10248, ...port, implementedValues: [0] }),
  healthzBindAddress: later("string", noHealth, { default: "127.0.0.1", must: "an IP address" }),
  oomScoreAdj: later("*int32", "the agent keeps the oom_score_adj it was started with", {
    default: -999,
    range: [-1000, 1000],
  }),

  clusterDomain: done("string"),
  clusterDNS: done("[]string", { must: "an IP address" }),
  streamingConnectionIdleTimeout: later("Duration", noServer, { default: "4h" }),
  nodeStatusUpdateFrequency: done("Duration", { default: "10s" }),
  nodeStatusReportFrequency: done("Duration", { default: "5m" }),
  nodeLeaseDurationSeconds: done("int32", { default: 40, range: [1, 2_147_483_647] }),
  imageMinimumGCAge: later("Duration", noImageGc, { default: "2m", ...notNegative }),
  imageMaximumGCAge: later("Duration", noImageGc, notNegative),
  imageGCHighThresholdPercent: later("*int32", noImageGc, { default: 85, ...percent, implementedValues: [100] }),
  imageGCLowThresholdPercent: later("*int32", noImageGc, { default: 80, ...percent }),
  volumeStatsAggPeriod: later("Duration", "volumes are not measured yet", { default: "1m" }),

  kubeletCgroups: later("string", noNodeCgroups),
  systemCgroups: later("string", noNodeCgroups),
  cgroupRoot: later("string", noNodeCgroups),
  cgroupsPerQOS: {
    type: "*bool",
    default: true,
    implemented: true,
    implementedValues: [false],
    instead: `${noNodeCgroups}; each container gets the limits that it asks for`,
  },
  cgroupDriver: later("string", noNodeCgroups, { default: "cgroupfs", allowed: ["cgroupfs", "systemd"] }),
  cpuManagerPolicy: later("string", noCpuManager, { default: "none", allowed: ["none", "static"] }),
  singleProcessOOMKill: done("*bool"),
  cpuManagerPolicyOptions: later("map[string]string", noCpuManager, {
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
  cpuManagerReconcilePeriod: later("Duration", noCpuManager, { default: "10s" }),
  memoryManagerPolicy: later("string", noMemoryManager, { default: "None", allowed: ["None", "Static"] }),
  topologyManagerPolicy: later("string", noTopologyManager, {
    default: "none",
    allowed: ["none", "best-effort", "restricted", "single-numa-node"],
  }),
  topologyManagerScope: later("string", noTopologyManager, { default: "container", allowed: ["container", "pod"] }),
  topologyManagerPolicyOptions: later("map[string]string", noTopologyManager, {
    keys: ["prefer-closest-numa-nodes", "max-allowable-numa-nodes"],
  }),
  qosReserved: later("map[string]string", noNodeCgroups, {
    keys: ["memory"],
    must: "a whole percentage from 0% to 100%",
    implementedValues: ["0%"],
  }),
  runtimeRequestTimeout: done("Duration", { default: "2m", ...positive }),
  hairpinMode: later("string", "the network plugin decides", {
    default: "promiscuous-bridge",
    allowed: ["promiscuous-bridge", "hairpin-veth", "none"],
    implementedValues: ["none"],
  }),
  maxPods: done("int32", { default: 110, ...natural }),
  podCIDR: later("string", "the network plugin's own configuration gives pods their addresses", {
    must: "an address range such as 10.88.0.0/16",
  }),
  podPidsLimit: {
    type: "*int64",
    default: -1,
    implemented: true,
    implementedValues: [-1, 0],
    instead: "with cgroup v2 each container is held to it, and no pod as a whole yet",
  },
  resolvConf: done("*string", { default: "/etc/resolv.conf" }),
  runOnce: later("bool", "the agent keeps running"),
  cpuCFSQuota: done("*bool", { default: true }),
  cpuCFSQuotaPeriod: done("*Duration", { default: "100ms", range: ["1ms", "1s"] }),
  nodeStatusMaxImages: done("*int32", { default: 50, range: [-1, 2_147_483_647] }),
  maxOpenFiles: later("int64", "the agent keeps the limit it was started with", {
    default: 1_000_000,
    range: [0, Number.MAX_SAFE_INTEGER],
  }),
  contentType: later("string", "requests and answers are JSON", { default: "application/vnd.kubernetes.protobuf" }),
  kubeAPIQPS: done("*int32", { default: 50, ...natural }),
  kubeAPIBurst: done("int32", { default: 100, ...natural }),
  serializeImagePulls: done("*bool", { default: true }),
  maxParallelImagePulls: done("*int32", { range: [1, 2_147_483_647] }),

  evictionHard: later("map[string]string", noEviction, {
    ...thresholds,
    default: {
      "memory.available": "100Mi",
      "nodefs.available": "10%",
      "nodefs.inodesFree": "5%",
      "imagefs.available": "15%",
      "imagefs.inodesFree": "5%",
    },
  }),
  evictionSoft: later("map[string]string", noEviction, thresholds),
  evictionSoftGracePeriod: later("map[string]string", noEviction, {
    keys: signals,
    must: "a duration, not negative, such as 1m30s",
  }),
  evictionPressureTransitionPeriod: done("Duration", { default: "5m" }),
  evictionMaxPodGracePeriod: later("int32", noEviction),
  evictionMinimumReclaim: later("map[string]string", noEviction, {
    keys: signals,
    must: "a quantity, not negative, such as 100Mi, or a percentage above 0%",
  }),
  mergeDefaultEvictionSettings: done("*bool", { default: false }),
  podsPerCore: done("int32", natural),
  enableControllerAttachDetach: later("*bool", "no volumes are attached yet", { default: true }),
  protectKernelDefaults: later("bool", "the kernel's settings are left as they are"),
  makeIPTablesUtilChains: later("*bool", noIptables, { default: true, ...unlessOff }),
  iptablesMasqueradeBit: later("*int32", noIptables, { default: 14, ...bit }),
  iptablesDropBit: later("*int32", noIptables, { default: 15, ...bit }),
  featureGates: done("map[string]bool"),
  failSwapOn: later("*bool", "the agent runs with and without swap", { default: true, ...unlessOff }),
  memorySwap: group,
  "memorySwap.swapBehavior": done("string", { allowed: ["", "NoSwap", "LimitedSwap"] }),
  containerLogMaxSize: later("string", noLogRotation, { default: "10Mi", must: "a quantity such as 10Mi" }),
  containerLogMaxFiles: later("*int32", noLogRotation, { default: 5, range: [2, 2_147_483_647] }),
  containerLogMaxWorkers: later("*int32", noLogRotation, { default: 1, range: [1, 2_147_483_647] }),
  containerLogMonitorInterval: later("*Duration", noLogRotation, { default: "10s", must: "a duration of at least 3s" }),
  configMapAndSecretChangeDetectionStrategy: later("string", "Secrets and ConfigMaps are watched", {
    default: "Watch",
    allowed: ["Get", "Cache", "Watch"],
  }),
  systemReserved: done("map[string]string", reserved),
  kubeReserved: done("map[string]string", reserved),
  reservedSystemCPUs: done("string", { must: "a CPU list such as 0-3,8" }),
  showHiddenMetricsForVersion: later("string", "no metrics are served yet", { allowed: ["", "1.35"] }),
  systemReservedCgroup: later("string", noReservations),
  kubeReservedCgroup: later("string", noReservations),
  enforceNodeAllocatable: later("[]string", noReservations, {
    default: ["pods"],
    allowed: [
      "none",
      "pods",
      "system-reserved",
      "system-reserved-compressible",
      "kube-reserved",
      "kube-reserved-compressible",
    ],
    implementedValues: ["none"],
  }),
  allowedUnsafeSysctls: done("[]string", {
    must: "a sysctl such as kernel.msg* or net.core.somaxconn, of a namespace",
  }),
  volumePluginDir: later("string", "no volume plugins are loaded", {
    default: "/usr/libexec/kubernetes/kubelet-plugins/volume/exec/",
  }),
  providerID: done("string"),
  kernelMemcgNotification: later("bool", "memory is measured every nodeStatusUpdateFrequency"),

  logging: group,
  "logging.format": done("string", { default: "text", allowed: ["text", "json"] }),
  "logging.flushFrequency": done("TimeOrMetaDuration", { default: "5s" }),
  "logging.verbosity": done("uint32", natural),
  "logging.vmodule": later("[]struct", "every file logs with logging.verbosity"),
  "logging.vmodule[].filePattern": later("string", "", { must: "a name without = and ," }),
  "logging.vmodule[].verbosity": later("uint32", "", natural),
  "logging.options": group,
  "logging.options.text": group,
  "logging.options.text.splitStream": later("bool", oneLogStream),
  "logging.options.text.infoBufferSize": later("QuantityValue", oneLogStream, { default: "0" }),
  "logging.options.json": group,
  "logging.options.json.splitStream": later("bool", oneLogStream),
  "logging.options.json.infoBufferSize": later("QuantityValue", oneLogStream, { default: "0" }),

  enableSystemLogHandler: later("*bool", noServer, { default: true, ...unlessOff }),
  enableSystemLogQuery: later("*bool", noServer, unlessOff),
  shutdownGracePeriod: later("Duration", noShutdown, notNegative),
  shutdownGracePeriodCriticalPods: later("Duration", noShutdown, notNegative),
  shutdownGracePeriodByPodPriority: later("[]struct", noShutdown),
  "shutdownGracePeriodByPodPriority[].priority": later("int32", ""),
  "shutdownGracePeriodByPodPriority[].shutdownGracePeriodSeconds": later("int64", "", {
    range: [0, Number.MAX_SAFE_INTEGER],
  }),
  crashLoopBackOff: group,
  "crashLoopBackOff.maxContainerRestartPeriod": done("*Duration", {
    default: "5m",
    range: ["1s", "5m"],
    gate: "KubeletCrashLoopBackOffMax",
  }),
  reservedMemory: later("[]struct", noMemoryManager),
  "reservedMemory[].numaNode": later("int32", "", natural),
  "reservedMemory[].limits": later("map[string]Quantity", "", { must: "a quantity greater than zero, such as 1Gi" }),
  enableProfilingHandler: later("*bool", noServer, { default: true, ...unlessOff }),
  enableDebugFlagsHandler: later("*bool", noServer, { default: true, ...unlessOff }),
  seccompDefault: done("*bool", { default: false }),
  memoryThrottlingFactor: later("*float64", noNodeCgroups, { default: 0.9, range: [Number.MIN_VALUE, 1] }),
  memoryReservationPolicy: later("string", noNodeCgroups, { default: "None", allowed: ["None", "TieredReservation"] }),
  registerWithTaints: done("[]struct"),
  "registerWithTaints[].key": later("string", "", { must: "a label key such as example.com/role" }),
  "registerWithTaints[].value": later("string", "", { must: "a label value" }),
  "registerWithTaints[].effect": later("string", "", { allowed: ["NoSchedule", "PreferNoSchedule", "NoExecute"] }),
  "registerWithTaints[].timeAdded": later("*Time", ""),
  registerNode: done("*bool", { default: true }),
  tracing: { type: "*struct", implemented: true },
  "tracing.endpoint": later("*string", noTracing, {
    must: "an address such as localhost:4317, or one of dns, unix, unix-abstract",
  }),
  "tracing.samplingRatePerMillion": later("*int32", noTracing, { range: [0, 1_000_000], implementedValues: [0] }),
  localStorageCapacityIsolation: done("*bool", { default: true }),
  containerRuntimeEndpoint: done("string", {
    default: "unix:///run/containerd/containerd.sock",
    must: "a unix socket such as unix:///run/containerd/containerd.sock, its path at most 107 bytes long",
  }),
  imageServiceEndpoint: done("string", {
    must: "a unix socket such as unix:///run/containerd/containerd.sock, its path at most 107 bytes long",
  }),
  failCgroupV1: done("*bool", { default: true }),
  userNamespaces: { type: "*struct", implemented: true },
  "userNamespaces.idsPerPod": done("*int64", { range: [65_536, 4_294_901_760] }),
} as const satisfies Record<FieldPath, Field>;
