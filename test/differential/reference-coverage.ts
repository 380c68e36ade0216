/**
 * A row of this project's reference of the 1.36 kubelet, by its number: the pods that show it beside that kubelet, or
 * one sentence with the reason why no pod can.
 */
export type ReferenceRow = readonly [row: number, what: string, shown: readonly string[] | string];

/** The rows of the reference, first and last, that this list covers. */
export const COVERED_ROWS: readonly (readonly [first: number, last: number])[] = [
  [20, 20],
  [53, 149],
  [170, 182],
  [185, 186],
];

const dependsOnNode =
  "It depends on the node's free resources, which cannot be made equal for three nodes on one machine.";
const internal = "It is an internal mechanism of the kubelet; all pods show its effect.";
const needsRestart =
  "It needs a restart of the agent, by which both kubelets would lose their back-off; the e2e tests show it.";
const needsOptions =
  "It is a setting of a whole node, and the recorded kubelet has the defaults; tables of the formulas cover it.";

const node: readonly ReferenceRow[] = [[20, "directories", ["propagation-in-empty-dir", "propagation-in-claim"]]];

const admission: readonly ReferenceRow[] = [
  [53, "chain and order", ["out-of-cpu", "unsafe-sysctl", "apparmor-unsupported", "other-operating-system"]],
  [54, "eviction", dependsOnNode],
  [55, "sysctls", ["unsafe-sysctl", "safe-sysctl", "sysctls-with-slashes"]],
  [56, "predicates", ["other-operating-system"]],
  [57, "resource fit", ["out-of-cpu", "out-of-memory-of-the-node"]],
  [58, "other fits", ["no-such-disk"]],
  [59, "other handlers", ["apparmor-unsupported"]],
  [60, "preemption", dependsOnNode],
];

const podLifecycle: readonly ReferenceRow[] = [
  [61, "the loop", internal],
  [62, "states of a pod", ["runs", "succeeds", "deleted-in-init", "evicted-by-taint"]],
  [63, "grace period", ["ignores-sigterm", "ignores-sigterm-for-pod-grace", "deleted-by-force"]],
  [64, "static pods", ["static", "static-once", "static-crash-loop"]],
  [65, "retries", ["host-path-no-file", "runtime-class-unknown-handler"]],
  [
    66,
    "killing with a limit",
    "Only evictions and preemptions wait like that, and neither can be caused equally on three nodes.",
  ],
  [67, "knowledge after a restart", needsRestart],
  [68, "order of a sync", ["runs", "host-path-no-file", "pull-secret-missing", "init-order"]],
  [69, "order of a termination", ["ignores-sigterm", "pre-stop", "sidecars-stop-last"]],
  [70, "order of the clean-up", ["succeeds", "group-of-volumes"]],
  [71, "deadline", ["deadline", "deadline-ignored", "deadline-in-init", "past-its-deadline"]],
  [72, "relists", internal],
  [73, "relists on demand", internal],
  [74, "events of the runtime", internal],
  [75, "cache of pods", internal],
  [
    76,
    "housekeeping",
    "It stops pods that are not desired, for which the API has nothing to compare; the e2e tests check the node.",
  ],
  [77, "directories of orphaned pods", "The API does not show a node's directories; the e2e tests check them."],
  [78, "state over a restart", needsRestart],
  [79, "status over a restart", needsRestart],
];

const statuses: readonly ReferenceRow[] = [
  [80, "transport of statuses", internal],
  [81, "the final delete", ["runs", "deleted-by-force", "evicted-by-taint"]],
  [82, "merging", ["gate-opened", "deadline"]],
  [83, "guards", ["termination-messages-of-four-containers", "rule-restarts", "deadline"]],
  [84, "observed generation", ["runs", "image-changed", "debugged"]],
  [85, "phase", ["both-end", "one-of-two-fails", "init-container-fails", "own-policy-never", "static-once"]],
  [86, "conditions", ["runs", "gate-closed", "gate-opened", "init-loop", "unready-by-exec", "succeeds"]],
  [87, "fields of containers", ["three-containers", "two-views", "user-and-group", "resources-of-a-pod", "empty-dir"]],
  [
    88,
    "reasons",
    ["crash-loop", "pull-refused", "image-name-invalid", "key-missing", "seccomp-missing", "no-such-command"],
  ],
  [89, "addresses", ["runs", "dns-of-the-host", "environment-of-fields"]],
  [90, "readiness at once", ["ready-by-exec", "startup", "gate-opened"]],
];

const images: readonly ReferenceRow[] = [
  [
    91,
    "policies and messages",
    [
      "image-never-there",
      "image-always-pulled",
      "image-pulled-once",
      "image-never-pulled",
      "pull-latest",
      "image-by-digest",
    ],
  ],
  [92, "back-off", ["pull-refused", "pull-not-found", "pull-digest", "pull-refused-until-its-deadline"]],
  [93, "parallel pulls", "The number of parallel pulls shows in times only; contract and scenario tests count them."],
  [
    94,
    "reasons of the runtime",
    "No available runtime returns RegistryUnavailable or SignatureValidationFailed; unit tests cover them.",
  ],
  [
    95,
    "credentials",
    [
      "private-image",
      "private-image-by-dockercfg-secret",
      "private-image-by-the-second-secret",
      "pull-with-wrong-credentials",
    ],
  ],
  [
    96,
    "credential providers",
    "Providers are flags of a whole node and would apply to the bed's other pods too; the e2e tests cover them.",
  ],
  [97, "records of pulls", ["private-image", "pull-without-credentials"]],
  [
    98,
    "image volumes",
    "The compared release of containerd mounts no images; image-volume-refused shows the kubelet's words. Scenarios and e2e have the rest.",
  ],
  [99, "collection of images", dependsOnNode],
  [100, "collection of containers", ["crash-loop", "job-that-fails-once"]],
];

const sandboxes: readonly ReferenceRow[] = [
  [101, "connection", internal],
  [102, "re-creation", ["sandbox-ends", "sandbox-ends-after-init", "sandbox-ends-once"]],
  [
    103,
    "configuration",
    ["hostname", "hostname-as-fqdn", "hostname-as-fqdn-too-long", "ports", "safe-sysctl", "runtime-class"],
  ],
  [
    104,
    "namespaces",
    ["host-pid", "host-ipc", "host-everything", "shared-processes", "debugged-inside", "user-namespace"],
  ],
  [105, "failure", ["runtime-class-unknown-handler", "user-namespace"]],
];

const containers: readonly ReferenceRow[] = [
  [106, "order of starts", ["three-containers", "init-order", "sidecar-and-job", "debugged"]],
  [107, "what is started and stopped", ["image-changed", "liveness-fails-once", "startup-fails", "one-of-two-crashes"]],
  [108, "hash", ["image-changed"]],
  [
    109,
    "init containers and sidecars",
    ["init-fails-once", "init-cannot-start", "sidecar-crashes", "sidecar-unready", "sidecar-beside-a-failed-init"],
  ],
  [
    110,
    "restart rules",
    ["rule-restarts", "rule-for-others", "rule-restarts-all", "rule-of-init-restarts-all", "own-policy"],
  ],
  [111, "crash loops", ["crash-loop", "success-loop", "failure-loop", "init-loop", "rule-for-success-loop"]],
  [112, "steps of a start", ["runs", "no-such-command", "key-missing", "post-start-fails", "post-start-loop"]],
  [
    113,
    "labels and annotations",
    "The runtime shows them, not the API; unit tests compare each of them, and the hash, with the kubelet's.",
  ],
  [
    114,
    "environment",
    [
      "environment",
      "environment-from-references",
      "environment-cycle",
      "environment-from-file",
      "environment-unusual-names",
    ],
  ],
  [115, "variables of Services", ["services", "services-unlinked", "environment-over-services"]],
  [
    116,
    "fields of the pod",
    [
      "environment-of-fields",
      "environment-of-resources",
      "environment-without-limits",
      "downward-volume",
      "downward-volume-of-odd-texts",
      "downward-volume-of-resources",
      "downward-volume-without-limits",
    ],
  ],
  [
    117,
    "mounts",
    [
      "default-view",
      "empty-dir",
      "host-path",
      "hosts-of-its-own",
      "volumes-within-volumes",
      "empty-dirs-read-only",
      "sub-paths-read-only",
      "claim-mounted-read-only",
      "propagation-in-empty-dir",
      "propagation-of-objects",
    ],
  ],
  [118, "/etc/hosts", ["hosts", "hosts-of-the-host", "aliases-on-the-host", "hosts-of-its-own"]],
  [119, "hostname", ["hostname", "hostname-override", "hostname-as-fqdn"]],
  [120, "DNS", ["dns-cluster-first", "dns-default", "dns-none", "dns-merged", "dns-too-many", "dns-on-host-network"]],
  [
    121,
    "termination messages",
    [
      "termination-message",
      "termination-message-from-log",
      "termination-message-from-long-log",
      "termination-message-file-and-log",
      "termination-message-too-long",
    ],
  ],
  [122, "devices", "No side has a device plugin or a block device for its pods. Block devices: scenarios and e2e."],
  [123, "resources", ["burstable", "guaranteed", "limit-of-cpu", "request-of-memory", "cpu-below-minimum"]],
  [
    124,
    "security",
    [
      "privileged",
      "privileged-mounts",
      "default-view",
      "root-with-run-as-non-root",
      "root-by-name",
      "selinux-label",
      "no-privilege-escalation",
    ],
  ],
  [
    125,
    "seccomp and AppArmor",
    ["seccomp-of-the-runtime", "seccomp-missing", "seccomp-off", "apparmor-off", "apparmor-unsupported"],
  ],
  [126, "ids of users", ["user-namespace"]],
];

const terminations: readonly ReferenceRow[] = [
  [
    127,
    "hooks",
    [
      "post-start",
      "post-start-fails",
      "post-start-without-command",
      "pre-stop-by-http",
      "pre-stop-sleeps",
      "pre-stop-outlasts-its-grace",
    ],
  ],
  [
    128,
    "order of stops",
    ["sidecars-stop-last", "sidecar-ignores-sigterm", "liveness-ends-it", "pre-stop-outlasts-its-grace"],
  ],
  [129, "exit codes and reasons", ["out-of-memory", "exits-137", "kills-itself", "ends-by-signal"]],
  [130, "admission of a resize", ["resize-up", "resize-below-minimum", "resize-to-10m", "resize-in-decimals"]],
  [131, "execution of a resize", ["resize-down", "resize-of-two", "resize-of-sidecar", "resize-restarts-for-memory"]],
];

const probes: readonly ReferenceRow[] = [
  [132, "times", ["ready-by-exec", "ready-by-http", "unready-by-delay"]],
  [133, "first results", ["unready-by-exec", "startup"]],
  [134, "effects", ["startup-fails", "liveness-fails-once", "liveness-ends-it", "unready-by-no-command"]],
  [
    135,
    "HTTP",
    ["ready-by-named-http", "unready-by-http", "unready-by-tls", "ready-by-redirect", "ready-by-redirect-elsewhere"],
  ],
  [136, "TCP, gRPC and commands", ["ready-by-tcp", "unready-by-tcp", "unready-by-grpc", "unready-by-no-command"]],
  [137, "events", ["unready-by-name", "unready-by-closed-port", "ready-by-redirect-elsewhere"]],
];

/** Most of their pods run in the guest; the kubelet's cgroups are in `test/golden/kubelet-cgroups`. */
const cgroups: readonly ReferenceRow[] = [
  [138, "names with cgroupfs", ["guaranteed", "burstable-limits", "besteffort"]],
  [139, "names with systemd", ["guaranteed", "burstable-limits", "besteffort"]],
  [140, "existence", "Pods have no cgroup without its controllers; the contract suite turns them off."],
  [141, "CPU weight", ["burstable-28m", "burstable-29m", "burstable-many-cpus", "resize-to-1m"]],
  [142, "CPU quota", ["burstable-cpu-unlimited", "burstable-largest-quota", "resize-to-11m"]],
  [143, "memory", ["guaranteed-odd-memory", "burstable-memory-unlimited", "guaranteed-overhead", "guaranteed-init"]],
  [144, "MemoryQoS", needsOptions],
  [145, "processes and huge pages", ["guaranteed-huge-pages", "burstable-huge-pages"]],
  [146, "oom_score_adj", ["guaranteed", "burstable", "request-of-memory", "default-view"]],
  [147, "enforcement on the node", needsOptions],
  [148, "kernel settings", "No pod shows them; the guest compares them after the start."],
  [149, "swap", ["guaranteed-odd-memory", "burstable-limits"]],
];

const volumes: readonly ReferenceRow[] = [
  [170, "the loop", ["no-volume-of-two", "no-volume-secret-until-it-appears", "no-volume-claim-until-it-is-bound"]],
  [171, "directories on disk", ["config-map-volume", "empty-dirs", "sub-paths"]],
  [
    172,
    "atomic writer",
    ["config-map-volume", "config-map-volume-folders", "config-map-volume-paths", "config-map-volume-changes"],
  ],
  [
    173,
    "objects as files",
    [
      "config-map-volume-optional",
      "config-map-volume-modes",
      "secret-volume",
      "downward-volume",
      "projected-volume",
      "projected-volume-overlap",
      "no-volume-config-map-key",
      "sub-path-while-its-object-changes",
    ],
  ],
  [
    174,
    "caches of objects",
    [
      "config-map-volume-changes",
      "config-map-volume-appears",
      "config-map-volume-immutable",
      "projected-volume-changes",
    ],
  ],
  [
    175,
    "tokens of service accounts",
    ["token", "token-of-a-user", "token-of-a-group", "token-of-two-users", "token-with-audiences"],
  ],
  [176, "trust bundles and certificates of pods", "Their feature gates are off on the reference kubelet."],
  [177, "emptyDir", ["empty-dirs", "empty-dirs-within-limits", "empty-dirs-after-a-restart", "empty-dirs-of-a-user"]],
  [
    178,
    "hostPath",
    ["host-paths", "host-paths-made", "no-volume-host-path-no-folder", "no-volume-host-path-file-in-nothing"],
  ],
  [
    179,
    "volumes of the node and of servers",
    [
      "claim-of-local-volume",
      "claim-with-option-ro",
      "no-volume-claim-elsewhere",
      "no-volume-claim-local-missing",
      "no-volume-claim-local-file",
    ],
  ],
  [
    180,
    "fsGroup",
    [
      "empty-dirs-of-a-group",
      "objects-of-a-group",
      "group-on-root-mismatch",
      "host-paths-of-a-group",
      "claim-of-a-group",
      "claim-read-only-of-a-group",
    ],
  ],
  [
    181,
    "safety of subPaths",
    [
      "sub-paths-behind-links",
      "sub-paths-that-leave-the-volume",
      "sub-paths-that-lead-nowhere",
      "sub-paths-that-are-missing",
      "sub-paths-of-a-group",
      "sub-path-expressions-refused",
    ],
  ],
  [182, "attachment by a controller", "It needs a CSI driver, which this release does not support."],
  [185, "reconstruction", "It needs a restart of the agent; the scenarios and the e2e tests kill it amid mounts."],
  [186, "resize, SELinux and usage", "No side has a CSI driver or SELinux, and the API shows no usage."],
];

/** All rows in order. */
export const referenceCoverage: readonly ReferenceRow[] = [
  ...node,
  ...admission,
  ...podLifecycle,
  ...statuses,
  ...images,
  ...sandboxes,
  ...containers,
  ...terminations,
  ...probes,
  ...cgroups,
  ...volumes,
];
