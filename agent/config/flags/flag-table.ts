import { DELEGATE_DIR, networkOwners, networkSources } from "../config.ts";
import type { FieldPath } from "../kubelet-config/field.ts";
import type { Flag, FlagGroup, FlagType } from "./flag.ts";

type OtherProperties = Omit<
  Flag,
  "name" | "type" | "field" | "implemented" | "insteadMessage" | "description" | "deprecated"
>;

/** A flag that sets a field. Most of them are deprecated in favour of the configuration file. */
function fieldFlag(
  field: FieldPath,
  name: string,
  type: FlagType,
  rest: OtherProperties & { readonly deprecated?: false } = {},
): Flag {
  return { deprecated: true, ...rest, name, type, field, implemented: true };
}

/** A setting that exists only as a flag and is implemented; also the flag of another command than the agent. */
export function standaloneFlag(name: string, type: FlagType, description: string, rest: OtherProperties = {}): Flag {
  return { ...rest, name, type, description, deprecated: false, implemented: true };
}

/** A setting that exists only as a flag and has no effect yet. */
function unimplementedFlag(
  name: string,
  type: FlagType,
  description: string,
  insteadMessage: string,
  rest: OtherProperties = {},
): Flag {
  return { ...rest, name, type, description, insteadMessage, deprecated: false, implemented: false };
}

/** A flag without effect that is accepted, so that old command lines keep working. */
function ignoredFlag(name: string, type: FlagType, insteadMessage: string, rest: OtherProperties = {}): Flag {
  return {
    ...rest,
    name,
    type,
    insteadMessage,
    description: "accepted without effect",
    deprecated: true,
    implemented: false,
  };
}

const noCadvisor = "the agent has no cAdvisor";
const deadContainers = "the newest dead instance of each container is kept";

/**
 * Every flag of the kubelet 1.36 in the groups of the help, and Berth's own: `--in-cluster`, `--early-probes`,
 * `--keep-referenced-objects`, `--set-kernel-tunables`, `--network`, `--network-owner` and `--network-delegate-dir`.
 */
export const flagGroups: readonly FlagGroup[] = [
  {
    title: "Starting",
    flags: [
      { ...standaloneFlag("help", "bool", "print this help and exit"), shorthand: "h" },
      standaloneFlag("version", "version[=true]", "print the version and exit; --version=raw prints all details"),
      standaloneFlag("config", "string", "the KubeletConfiguration file"),
      standaloneFlag("config-dir", "string", "a directory of drop-ins (*.conf) over the configuration file"),
      standaloneFlag("root-dir", "string", "where the agent keeps its state", {
        default: "/var/lib/kubelet",
        must: "not empty",
      }),
      standaloneFlag("hostname-override", "string", "the node's name, instead of the machine's"),
      standaloneFlag("kubeconfig", "string", "how to reach the API server; without it, static pods only"),
      standaloneFlag(
        "in-cluster",
        "bool",
        "reach the API server with the service account of the agent's own pod (no kubelet flag)",
        {
          default: "false",
        },
      ),
      unimplementedFlag(
        "bootstrap-kubeconfig",
        "string",
        "a kubeconfig for requesting the first client certificate",
        "no certificate is requested yet: --kubeconfig must contain one",
      ),
      standaloneFlag("cert-dir", "string", "where the self-signed serving certificate is kept", {
        default: "/var/lib/kubelet/pki",
        must: "not empty",
      }),
      unimplementedFlag("lock-file", "string", "a file to hold a lock on", "the lock below --root-dir is the only one"),
      unimplementedFlag(
        "exit-on-lock-contention",
        "bool",
        "exit when another process opens --lock-file",
        "no lock file is watched",
        {
          default: "false",
        },
      ),
    ],
  },
  {
    title: "Static pods",
    flags: [
      fieldFlag("staticPodPath", "pod-manifest-path", "string"),
      fieldFlag("staticPodURL", "manifest-url", "string", { secret: true }),
      fieldFlag("staticPodURLHeader", "manifest-url-header", "colonSeparatedMultimapStringString", { secret: true }),
      fieldFlag("fileCheckFrequency", "file-check-frequency", "duration"),
      fieldFlag("httpCheckFrequency", "http-check-frequency", "duration"),
      fieldFlag("syncFrequency", "sync-frequency", "duration"),
      fieldFlag("runOnce", "runonce", "bool"),
    ],
  },
  {
    title: "Runtime and images",
    flags: [
      fieldFlag("containerRuntimeEndpoint", "container-runtime-endpoint", "string"),
      fieldFlag("imageServiceEndpoint", "image-service-endpoint", "string"),
      fieldFlag("runtimeRequestTimeout", "runtime-request-timeout", "duration"),
      fieldFlag("serializeImagePulls", "serialize-image-pulls", "bool"),
      fieldFlag("registryPullQPS", "registry-qps", "int32"),
      fieldFlag("registryBurst", "registry-burst", "int32"),
      fieldFlag("seccompDefault", "seccomp-default", "bool", { deprecated: false }),
      fieldFlag("allowedUnsafeSysctls", "allowed-unsafe-sysctls", "strings"),
      fieldFlag("imageGCHighThresholdPercent", "image-gc-high-threshold", "int32"),
      fieldFlag("imageGCLowThresholdPercent", "image-gc-low-threshold", "int32"),
      fieldFlag("imageMinimumGCAge", "minimum-image-ttl-duration", "duration"),
      fieldFlag("containerLogMaxFiles", "container-log-max-files", "int32"),
      fieldFlag("containerLogMaxSize", "container-log-max-size", "string"),
      fieldFlag("volumePluginDir", "volume-plugin-dir", "string"),
      fieldFlag("volumeStatsAggPeriod", "volume-stats-agg-period", "duration"),
      fieldFlag("enableControllerAttachDetach", "enable-controller-attach-detach", "bool"),
      standaloneFlag(
        "image-credential-provider-config",
        "string",
        "a CredentialProviderConfig, or a directory of them",
      ),
      standaloneFlag("image-credential-provider-bin-dir", "string", "the directory of the plugins that it names"),
      standaloneFlag("runtime-cgroups", "string", "the cgroup of the runtime, whose usage /stats/summary shows"),
    ],
  },
  {
    title: "Network",
    flags: [
      fieldFlag("clusterDNS", "cluster-dns", "strings"),
      fieldFlag("clusterDomain", "cluster-domain", "string"),
      fieldFlag("resolvConf", "resolv-conf", "string"),
      fieldFlag("podCIDR", "pod-cidr", "string"),
      fieldFlag("hairpinMode", "hairpin-mode", "string"),
      fieldFlag("makeIPTablesUtilChains", "make-iptables-util-chains", "bool"),
      standaloneFlag("node-ip", "string", "the node's address, or one of each family", {
        must: "one IP address, or one of each family separated by a comma, none of them loopback, link-local or multicast, and 0.0.0.0 or :: only alone",
      }),
    ],
  },
  {
    title: "Node",
    flags: [
      fieldFlag("registerNode", "register-node", "bool"),
      fieldFlag("registerWithTaints", "register-with-taints", "[]v1.Taint"),
      standaloneFlag("node-labels", "mapStringString", "labels for the Node object"),
      standaloneFlag("cloud-provider", "string", "external when a cloud controller initializes the Node", {
        allowed: ["", "external"],
      }),
      fieldFlag("providerID", "provider-id", "string", { deprecated: false }),
      fieldFlag("nodeStatusUpdateFrequency", "node-status-update-frequency", "duration"),
      fieldFlag("nodeStatusMaxImages", "node-status-max-images", "int32"),
      fieldFlag("kubeAPIQPS", "kube-api-qps", "int32"),
      fieldFlag("kubeAPIBurst", "kube-api-burst", "int32"),
      fieldFlag("contentType", "kube-api-content-type", "string"),
      fieldFlag("eventRecordQPS", "event-qps", "int32"),
      fieldFlag("eventBurst", "event-burst", "int32"),
      fieldFlag("rotateCertificates", "rotate-certificates", "bool"),
      fieldFlag("featureGates", "feature-gates", "mapStringBool"),
      standaloneFlag(
        "early-probes",
        "bool",
        "repeat the readiness and startup probes of a starting container within their first period (no kubelet flag)",
        { default: "true" },
      ),
      standaloneFlag(
        "keep-referenced-objects",
        "bool",
        "keep Secrets, ConfigMaps and tokens of the node's pods on its disk, for a boot without the API server (no kubelet flag)",
        { default: "false" },
      ),
    ],
  },
  {
    title: "Server",
    flags: [
      fieldFlag("enableServer", "enable-server", "bool"),
      fieldFlag("address", "address", "ip"),
      fieldFlag("port", "port", "int32"),
      fieldFlag("readOnlyPort", "read-only-port", "int32"),
      fieldFlag("healthzBindAddress", "healthz-bind-address", "ip"),
      fieldFlag("healthzPort", "healthz-port", "int32"),
      fieldFlag("tlsCertFile", "tls-cert-file", "string"),
      fieldFlag("tlsPrivateKeyFile", "tls-private-key-file", "string"),
      fieldFlag("tlsCipherSuites", "tls-cipher-suites", "strings"),
      fieldFlag("tlsMinVersion", "tls-min-version", "string"),
      fieldFlag("serverTLSBootstrap", "rotate-server-certificates", "bool"),
      fieldFlag("authentication.x509.clientCAFile", "client-ca-file", "string"),
      fieldFlag("authentication.anonymous.enabled", "anonymous-auth", "bool"),
      fieldFlag("authentication.webhook.enabled", "authentication-token-webhook", "bool"),
      fieldFlag("authentication.webhook.cacheTTL", "authentication-token-webhook-cache-ttl", "duration"),
      fieldFlag("authorization.mode", "authorization-mode", "string"),
      fieldFlag("authorization.webhook.cacheAuthorizedTTL", "authorization-webhook-cache-authorized-ttl", "duration"),
      fieldFlag(
        "authorization.webhook.cacheUnauthorizedTTL",
        "authorization-webhook-cache-unauthorized-ttl",
        "duration",
      ),
      fieldFlag("streamingConnectionIdleTimeout", "streaming-connection-idle-timeout", "duration"),
      fieldFlag("enableDebuggingHandlers", "enable-debugging-handlers", "bool"),
      fieldFlag("enableContentionProfiling", "contention-profiling", "bool"),
    ],
  },
  {
    title: "Resources",
    flags: [
      fieldFlag("maxPods", "max-pods", "int32"),
      fieldFlag("podsPerCore", "pods-per-core", "int32"),
      fieldFlag("podPidsLimit", "pod-max-pids", "int"),
      fieldFlag("cgroupDriver", "cgroup-driver", "string"),
      fieldFlag("cgroupRoot", "cgroup-root", "string"),
      fieldFlag("cgroupsPerQOS", "cgroups-per-qos", "bool"),
      fieldFlag("kubeletCgroups", "kubelet-cgroups", "string"),
      fieldFlag("systemCgroups", "system-cgroups", "string"),
      fieldFlag("cpuCFSQuota", "cpu-cfs-quota", "bool"),
      fieldFlag("cpuCFSQuotaPeriod", "cpu-cfs-quota-period", "duration"),
      fieldFlag("cpuManagerPolicy", "cpu-manager-policy", "string"),
      fieldFlag("cpuManagerPolicyOptions", "cpu-manager-policy-options", "mapStringString", { isSinglePair: true }),
      fieldFlag("cpuManagerReconcilePeriod", "cpu-manager-reconcile-period", "duration"),
      fieldFlag("memoryManagerPolicy", "memory-manager-policy", "string"),
      fieldFlag("reservedMemory", "reserved-memory", "reserved-memory"),
      fieldFlag("topologyManagerPolicy", "topology-manager-policy", "string"),
      fieldFlag("topologyManagerPolicyOptions", "topology-manager-policy-options", "mapStringString"),
      fieldFlag("topologyManagerScope", "topology-manager-scope", "string"),
      fieldFlag("qosReserved", "qos-reserved", "mapStringString"),
      fieldFlag("systemReserved", "system-reserved", "mapStringString"),
      fieldFlag("systemReservedCgroup", "system-reserved-cgroup", "string"),
      fieldFlag("kubeReserved", "kube-reserved", "mapStringString"),
      fieldFlag("kubeReservedCgroup", "kube-reserved-cgroup", "string"),
      fieldFlag("reservedSystemCPUs", "reserved-cpus", "string"),
      fieldFlag("enforceNodeAllocatable", "enforce-node-allocatable", "strings"),
      fieldFlag("localStorageCapacityIsolation", "local-storage-capacity-isolation", "bool"),
      fieldFlag("protectKernelDefaults", "protect-kernel-defaults", "bool"),
      standaloneFlag(
        "set-kernel-tunables",
        "bool",
        "set the kernel's settings as Kubernetes expects them; false leaves them as they are (no kubelet flag)",
        { default: "true" },
      ),
      standaloneFlag(
        "network",
        "string",
        "the network that the agent executes where it owns the network. chain: the first one of --chain-dir of berth cni install; builtin: the built-in network, with the node's pod CIDRs; auto: as chain, but on a standalone node as builtin while that folder has no configuration (no kubelet flag)",
        { default: "auto", allowed: networkSources },
      ),
      standaloneFlag(
        "network-owner",
        "string",
        "who executes the plugins of CNI; auto: the agent if its delegate is installed (no kubelet flag)",
        { default: "auto", allowed: networkOwners },
      ),
      standaloneFlag(
        "network-delegate-dir",
        "string",
        "the conf_dir of the container runtime, in which berth cni install has put the delegate (no kubelet flag)",
        { default: DELEGATE_DIR, must: "not empty" },
      ),
      fieldFlag("failSwapOn", "fail-swap-on", "bool"),
      fieldFlag("failCgroupV1", "fail-cgroupv1", "bool", { deprecated: false }),
      fieldFlag("maxOpenFiles", "max-open-files", "int"),
      fieldFlag("oomScoreAdj", "oom-score-adj", "int32"),
    ],
  },
  {
    title: "Eviction",
    flags: [
      fieldFlag("evictionHard", "eviction-hard", "mapStringString", { separator: "<" }),
      fieldFlag("evictionSoft", "eviction-soft", "mapStringString", { separator: "<" }),
      fieldFlag("evictionSoftGracePeriod", "eviction-soft-grace-period", "mapStringString"),
      fieldFlag("evictionMinimumReclaim", "eviction-minimum-reclaim", "mapStringString"),
      fieldFlag("evictionPressureTransitionPeriod", "eviction-pressure-transition-period", "duration"),
      fieldFlag("evictionMaxPodGracePeriod", "eviction-max-pod-grace-period", "int32"),
      fieldFlag("kernelMemcgNotification", "kernel-memcg-notification", "bool"),
    ],
  },
  {
    title: "Logging",
    flags: [
      fieldFlag("logging.verbosity", "v", "Level", { shorthand: "v", deprecated: false }),
      fieldFlag("logging.format", "logging-format", "string"),
      fieldFlag("logging.vmodule", "vmodule", "pattern=N,...", { deprecated: false }),
      fieldFlag("logging.flushFrequency", "log-flush-frequency", "duration", { deprecated: false }),
      fieldFlag("logging.options.text.splitStream", "log-text-split-stream", "bool"),
      fieldFlag("logging.options.text.infoBufferSize", "log-text-info-buffer-size", "quantity"),
      fieldFlag("logging.options.json.splitStream", "log-json-split-stream", "bool"),
      fieldFlag("logging.options.json.infoBufferSize", "log-json-info-buffer-size", "quantity"),
    ],
  },
  {
    title: "Accepted for compatibility",
    flags: [
      ignoredFlag("minimum-container-ttl-duration", "duration", deadContainers, { default: "0s" }),
      ignoredFlag("maximum-dead-containers-per-container", "int32", deadContainers, { default: "1" }),
      ignoredFlag("maximum-dead-containers", "int32", deadContainers, { default: "-1" }),
      ignoredFlag("experimental-mounter-path", "string", "mounts are made by the agent itself"),
      ignoredFlag(
        "experimental-allocatable-ignore-eviction",
        "bool",
        "hard eviction thresholds always reduce allocatable",
        { default: "false" },
      ),
      unimplementedFlag("housekeeping-interval", "duration", "accepted without effect", noCadvisor, { default: "10s" }),
      ignoredFlag("global-housekeeping-interval", "duration", noCadvisor, { default: "1m0s" }),
      ignoredFlag("application-metrics-count-limit", "int", noCadvisor, { default: "100" }),
      ignoredFlag("boot-id-file", "string", noCadvisor, { default: "/proc/sys/kernel/random/boot_id" }),
      ignoredFlag("machine-id-file", "string", noCadvisor, { default: "/etc/machine-id,/var/lib/dbus/machine-id" }),
      ignoredFlag("container-hints", "string", noCadvisor, { default: "/etc/cadvisor/container_hints.json" }),
      ignoredFlag("containerd", "string", noCadvisor, { default: "/run/containerd/containerd.sock" }),
      ignoredFlag("containerd-namespace", "string", noCadvisor, { default: "k8s.io" }),
      ignoredFlag("enable-load-reader", "bool", noCadvisor, { default: "false" }),
      ignoredFlag("event-storage-age-limit", "string", noCadvisor, { default: "default=0" }),
      ignoredFlag("event-storage-event-limit", "string", noCadvisor, { default: "default=0" }),
      ignoredFlag("log-cadvisor-usage", "bool", noCadvisor, { default: "false" }),
      ignoredFlag("storage-driver-buffer-duration", "duration", noCadvisor, { default: "1m0s" }),
      ignoredFlag("storage-driver-db", "string", noCadvisor, { default: "cadvisor" }),
      ignoredFlag("storage-driver-host", "string", noCadvisor, { default: "localhost:8086" }),
      ignoredFlag("storage-driver-password", "string", noCadvisor, { default: "root", secret: true }),
      ignoredFlag("storage-driver-secure", "bool", noCadvisor, { default: "false" }),
      ignoredFlag("storage-driver-table", "string", noCadvisor, { default: "stats" }),
      ignoredFlag("storage-driver-user", "string", noCadvisor, { default: "root", secret: true }),
    ],
  },
];
