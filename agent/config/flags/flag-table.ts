import type { FieldPath } from "../fields/field-rule.ts";
import type { Flag, FlagGroup, FlagType } from "./flag.ts";

type Rest = Omit<Flag, "name" | "type" | "field" | "implemented" | "instead" | "about" | "deprecated">;

/** A flag that sets a field. All of these are deprecated in favour of the file, but for a few. */
function sets(field: FieldPath, name: string, type: FlagType, rest: Rest & { readonly deprecated?: false } = {}): Flag {
  return { deprecated: true, ...rest, name, type, field, implemented: true };
}

/** A setting that is a flag alone, carried out. */
function alone(name: string, type: FlagType, about: string, rest: Rest = {}): Flag {
  return { ...rest, name, type, about, deprecated: false, implemented: true };
}

/** A setting that is a flag alone, known and without effect yet. */
function later(name: string, type: FlagType, about: string, instead: string, rest: Rest = {}): Flag {
  return { ...rest, name, type, about, instead, deprecated: false, implemented: false };
}

/** A flag that is kept so that old command lines go on working. */
function ignored(name: string, type: FlagType, instead: string, rest: Rest = {}): Flag {
  return { ...rest, name, type, instead, about: "accepted without effect", deprecated: true, implemented: false };
}

const noCadvisor = "the agent has no cAdvisor";
const deadContainers = "of a container's dead instances the newest is kept";

/** Every flag of the kubelet 1.36, once, in the groups of the help, and one of our own. */
export const flagGroups: readonly FlagGroup[] = [
  {
    title: "Starting",
    flags: [
      { ...alone("help", "bool", "print this help and exit"), shorthand: "h" },
      alone("version", "version[=true]", "print the version and exit; --version=raw prints all of it"),
      alone("config", "string", "the KubeletConfiguration file"),
      alone("config-dir", "string", "a directory of drop-ins (*.conf) over the configuration file"),
      alone("root-dir", "string", "where the agent keeps its state", {
        default: "/var/lib/kubelet",
        must: "not empty",
      }),
      alone("hostname-override", "string", "the node's name, instead of the machine's"),
      alone("kubeconfig", "string", "how to reach the API server; without it, static pods only"),
      alone(
        "in-cluster",
        "bool",
        "reach it as a container of a pod does, by its service account (not of the kubelet)",
        {
          default: "false",
        },
      ),
      later(
        "bootstrap-kubeconfig",
        "string",
        "a kubeconfig to get the first client certificate with",
        "no certificate is asked for yet: --kubeconfig has to have one",
      ),
      later("cert-dir", "string", "where certificates are kept", "no certificates are made yet", {
        default: "/var/lib/kubelet/pki",
        must: "not empty",
      }),
      later("lock-file", "string", "a file to hold a lock on", "the lock below --root-dir is the only one"),
      later(
        "exit-on-lock-contention",
        "bool",
        "end when another process opens --lock-file",
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
      sets("staticPodPath", "pod-manifest-path", "string"),
      sets("staticPodURL", "manifest-url", "string", { secret: true }),
      sets("staticPodURLHeader", "manifest-url-header", "colonSeparatedMultimapStringString", { secret: true }),
      sets("fileCheckFrequency", "file-check-frequency", "duration"),
      sets("httpCheckFrequency", "http-check-frequency", "duration"),
      sets("syncFrequency", "sync-frequency", "duration"),
      sets("runOnce", "runonce", "bool"),
    ],
  },
  {
    title: "Runtime and images",
    flags: [
      sets("containerRuntimeEndpoint", "container-runtime-endpoint", "string"),
      sets("imageServiceEndpoint", "image-service-endpoint", "string"),
      sets("runtimeRequestTimeout", "runtime-request-timeout", "duration"),
      sets("serializeImagePulls", "serialize-image-pulls", "bool"),
      sets("registryPullQPS", "registry-qps", "int32"),
      sets("registryBurst", "registry-burst", "int32"),
      sets("seccompDefault", "seccomp-default", "bool", { deprecated: false }),
      sets("allowedUnsafeSysctls", "allowed-unsafe-sysctls", "strings"),
      sets("imageGCHighThresholdPercent", "image-gc-high-threshold", "int32"),
      sets("imageGCLowThresholdPercent", "image-gc-low-threshold", "int32"),
      sets("imageMinimumGCAge", "minimum-image-ttl-duration", "duration"),
      sets("containerLogMaxFiles", "container-log-max-files", "int32"),
      sets("containerLogMaxSize", "container-log-max-size", "string"),
      sets("volumePluginDir", "volume-plugin-dir", "string"),
      sets("volumeStatsAggPeriod", "volume-stats-agg-period", "duration"),
      sets("enableControllerAttachDetach", "enable-controller-attach-detach", "bool"),
      alone("image-credential-provider-config", "string", "a CredentialProviderConfig, or a directory of them"),
      alone("image-credential-provider-bin-dir", "string", "where the programs are that it names"),
      later("runtime-cgroups", "string", "the cgroup of the runtime", "the runtime is not measured yet"),
    ],
  },
  {
    title: "Network",
    flags: [
      sets("clusterDNS", "cluster-dns", "strings"),
      sets("clusterDomain", "cluster-domain", "string"),
      sets("resolvConf", "resolv-conf", "string"),
      sets("podCIDR", "pod-cidr", "string"),
      sets("hairpinMode", "hairpin-mode", "string"),
      sets("makeIPTablesUtilChains", "make-iptables-util-chains", "bool"),
      alone("node-ip", "string", "the node's address, or one of each family", {
        must: "one IP address, or one of each family separated by a comma, none of them loopback, link-local or multicast, and 0.0.0.0 or :: only alone",
      }),
    ],
  },
  {
    title: "Node",
    flags: [
      sets("registerNode", "register-node", "bool"),
      sets("registerWithTaints", "register-with-taints", "[]v1.Taint"),
      alone("node-labels", "mapStringString", "labels for the Node object"),
      alone("cloud-provider", "string", "external where a cloud controller completes the Node", {
        allowed: ["", "external"],
      }),
      sets("providerID", "provider-id", "string", { deprecated: false }),
      sets("nodeStatusUpdateFrequency", "node-status-update-frequency", "duration"),
      sets("nodeStatusMaxImages", "node-status-max-images", "int32"),
      sets("kubeAPIQPS", "kube-api-qps", "int32"),
      sets("kubeAPIBurst", "kube-api-burst", "int32"),
      sets("contentType", "kube-api-content-type", "string"),
      sets("eventRecordQPS", "event-qps", "int32"),
      sets("eventBurst", "event-burst", "int32"),
      sets("rotateCertificates", "rotate-certificates", "bool"),
      sets("featureGates", "feature-gates", "mapStringBool"),
    ],
  },
  {
    title: "Server",
    flags: [
      sets("enableServer", "enable-server", "bool"),
      sets("address", "address", "ip"),
      sets("port", "port", "int32"),
      sets("readOnlyPort", "read-only-port", "int32"),
      sets("healthzBindAddress", "healthz-bind-address", "ip"),
      sets("healthzPort", "healthz-port", "int32"),
      sets("tlsCertFile", "tls-cert-file", "string"),
      sets("tlsPrivateKeyFile", "tls-private-key-file", "string"),
      sets("tlsCipherSuites", "tls-cipher-suites", "strings"),
      sets("tlsMinVersion", "tls-min-version", "string"),
      sets("serverTLSBootstrap", "rotate-server-certificates", "bool"),
      sets("authentication.x509.clientCAFile", "client-ca-file", "string"),
      sets("authentication.anonymous.enabled", "anonymous-auth", "bool"),
      sets("authentication.webhook.enabled", "authentication-token-webhook", "bool"),
      sets("authentication.webhook.cacheTTL", "authentication-token-webhook-cache-ttl", "duration"),
      sets("authorization.mode", "authorization-mode", "string"),
      sets("authorization.webhook.cacheAuthorizedTTL", "authorization-webhook-cache-authorized-ttl", "duration"),
      sets("authorization.webhook.cacheUnauthorizedTTL", "authorization-webhook-cache-unauthorized-ttl", "duration"),
      sets("streamingConnectionIdleTimeout", "streaming-connection-idle-timeout", "duration"),
      sets("enableDebuggingHandlers", "enable-debugging-handlers", "bool"),
      sets("enableContentionProfiling", "contention-profiling", "bool"),
    ],
  },
  {
    title: "Resources",
    flags: [
      sets("maxPods", "max-pods", "int32"),
      sets("podsPerCore", "pods-per-core", "int32"),
      sets("podPidsLimit", "pod-max-pids", "int"),
      sets("cgroupDriver", "cgroup-driver", "string"),
      sets("cgroupRoot", "cgroup-root", "string"),
      sets("cgroupsPerQOS", "cgroups-per-qos", "bool"),
      sets("kubeletCgroups", "kubelet-cgroups", "string"),
      sets("systemCgroups", "system-cgroups", "string"),
      sets("cpuCFSQuota", "cpu-cfs-quota", "bool"),
      sets("cpuCFSQuotaPeriod", "cpu-cfs-quota-period", "duration"),
      sets("cpuManagerPolicy", "cpu-manager-policy", "string"),
      sets("cpuManagerPolicyOptions", "cpu-manager-policy-options", "mapStringString", { isSinglePair: true }),
      sets("cpuManagerReconcilePeriod", "cpu-manager-reconcile-period", "duration"),
      sets("memoryManagerPolicy", "memory-manager-policy", "string"),
      sets("reservedMemory", "reserved-memory", "reserved-memory"),
      sets("topologyManagerPolicy", "topology-manager-policy", "string"),
      sets("topologyManagerPolicyOptions", "topology-manager-policy-options", "mapStringString"),
      sets("topologyManagerScope", "topology-manager-scope", "string"),
      sets("qosReserved", "qos-reserved", "mapStringString"),
      sets("systemReserved", "system-reserved", "mapStringString"),
      sets("systemReservedCgroup", "system-reserved-cgroup", "string"),
      sets("kubeReserved", "kube-reserved", "mapStringString"),
      sets("kubeReservedCgroup", "kube-reserved-cgroup", "string"),
      sets("reservedSystemCPUs", "reserved-cpus", "string"),
      sets("enforceNodeAllocatable", "enforce-node-allocatable", "strings"),
      sets("localStorageCapacityIsolation", "local-storage-capacity-isolation", "bool"),
      sets("protectKernelDefaults", "protect-kernel-defaults", "bool"),
      sets("failSwapOn", "fail-swap-on", "bool"),
      sets("failCgroupV1", "fail-cgroupv1", "bool", { deprecated: false }),
      sets("maxOpenFiles", "max-open-files", "int"),
      sets("oomScoreAdj", "oom-score-adj", "int32"),
    ],
  },
  {
    title: "Eviction",
    flags: [
      sets("evictionHard", "eviction-hard", "mapStringString", { separator: "<" }),
      sets("evictionSoft", "eviction-soft", "mapStringString", { separator: "<" }),
      sets("evictionSoftGracePeriod", "eviction-soft-grace-period", "mapStringString"),
      sets("evictionMinimumReclaim", "eviction-minimum-reclaim", "mapStringString"),
      sets("evictionPressureTransitionPeriod", "eviction-pressure-transition-period", "duration"),
      sets("evictionMaxPodGracePeriod", "eviction-max-pod-grace-period", "int32"),
      sets("kernelMemcgNotification", "kernel-memcg-notification", "bool"),
    ],
  },
  {
    title: "Logging",
    flags: [
      sets("logging.verbosity", "v", "Level", { shorthand: "v", deprecated: false }),
      sets("logging.format", "logging-format", "string"),
      sets("logging.vmodule", "vmodule", "pattern=N,...", { deprecated: false }),
      sets("logging.flushFrequency", "log-flush-frequency", "duration", { deprecated: false }),
      sets("logging.options.text.splitStream", "log-text-split-stream", "bool"),
      sets("logging.options.text.infoBufferSize", "log-text-info-buffer-size", "quantity"),
      sets("logging.options.json.splitStream", "log-json-split-stream", "bool"),
      sets("logging.options.json.infoBufferSize", "log-json-info-buffer-size", "quantity"),
    ],
  },
  {
    title: "Kept for old command lines",
    flags: [
      ignored("minimum-container-ttl-duration", "duration", deadContainers, { default: "0s" }),
      ignored("maximum-dead-containers-per-container", "int32", deadContainers, { default: "1" }),
      ignored("maximum-dead-containers", "int32", deadContainers, { default: "-1" }),
      ignored("experimental-mounter-path", "string", "mounts are made by the agent itself"),
      ignored("experimental-allocatable-ignore-eviction", "bool", "nothing is reserved yet", { default: "false" }),
      later("housekeeping-interval", "duration", "accepted without effect", noCadvisor, { default: "10s" }),
      ignored("global-housekeeping-interval", "duration", noCadvisor, { default: "1m0s" }),
      ignored("application-metrics-count-limit", "int", noCadvisor, { default: "100" }),
      ignored("boot-id-file", "string", noCadvisor, { default: "/proc/sys/kernel/random/boot_id" }),
      ignored("machine-id-file", "string", noCadvisor, { default: "/etc/machine-id,/var/lib/dbus/machine-id" }),
      ignored("container-hints", "string", noCadvisor, { default: "/etc/cadvisor/container_hints.json" }),
      ignored("containerd", "string", noCadvisor, { default: "/run/containerd/containerd.sock" }),
      ignored("containerd-namespace", "string", noCadvisor, { default: "k8s.io" }),
      ignored("enable-load-reader", "bool", noCadvisor, { default: "false" }),
      ignored("event-storage-age-limit", "string", noCadvisor, { default: "default=0" }),
      ignored("event-storage-event-limit", "string", noCadvisor, { default: "default=0" }),
      ignored("log-cadvisor-usage", "bool", noCadvisor, { default: "false" }),
      ignored("storage-driver-buffer-duration", "duration", noCadvisor, { default: "1m0s" }),
      ignored("storage-driver-db", "string", noCadvisor, { default: "cadvisor" }),
      ignored("storage-driver-host", "string", noCadvisor, { default: "localhost:8086" }),
      ignored("storage-driver-password", "string", noCadvisor, { default: "root", secret: true }),
      ignored("storage-driver-secure", "bool", noCadvisor, { default: "false" }),
      ignored("storage-driver-table", "string", noCadvisor, { default: "stats" }),
      ignored("storage-driver-user", "string", noCadvisor, { default: "root", secret: true }),
    ],
  },
];
