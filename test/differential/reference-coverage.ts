/**
 * A row of what the kubelet of Kubernetes 1.36 does, by its number in this project's reference of it: the pods that show it beside that
 * kubelet, or in one sentence why none can.
 */
export type ReferenceRow = readonly [row: number, what: string, shown: readonly string[] | string];

export const FIRST_ROW = 53;
export const LAST_ROW = 137;

const ofNode =
  "It is about what the node has left at that moment, which three nodes on one machine cannot be given alike.";
const inside = "It is how the kubelet does its work inside; what comes of it is what all pods show.";
const overRestart =
  "A restart of the agent is what it is about; both kubelets would lose their back-off by it, and e2e shows it.";
const noResize = "Resources of a pod that runs are not changed in place by this release.";

const admission: readonly ReferenceRow[] = [
  [53, "chain and order", ["out-of-cpu", "unsafe-sysctl", "unconfinable", "of-another-system"]],
  [54, "eviction", ofNode],
  [55, "sysctls", ["unsafe-sysctl", "safe-sysctl", "sysctls-with-slashes"]],
  [56, "predicates", ["of-another-system"]],
  [57, "resource fit", ["out-of-cpu", "out-of-memory-of-the-node"]],
  [58, "other fits", ["no-such-disk"]],
  [59, "other handlers", ["unconfinable"]],
  [60, "preemption", ofNode],
];

const lifeOfPods: readonly ReferenceRow[] = [
  [61, "the loop", inside],
  [62, "states of a pod", ["runs", "succeeds", "deleted-in-init", "tainted-away"]],
  [63, "grace period", ["deaf-to-sigterm", "deaf-for-the-grace-of-its-pod", "deleted-by-force"]],
  [64, "static pods", ["static", "static-once", "static-crash-loop"]],
  [65, "looks anew", ["host-path-no-file", "runtime-class-unknown-handler"]],
  [
    66,
    "killing with a limit",
    "Only an eviction or a preemption waits like that, and neither can be brought about on three nodes alike.",
  ],
  [67, "what is known after a restart", overRestart],
  [68, "order of a sync", ["runs", "host-path-no-file", "pull-secret-missing", "init-order"]],
  [69, "order of an end", ["deaf-to-sigterm", "pre-stop", "sidecars-stop-last"]],
  [70, "order of what is left", ["succeeds", "group-of-volumes"]],
  [71, "deadline", ["deadline", "deadline-ignored", "deadline-in-init"]],
  [72, "relists", inside],
  [73, "relists on demand", inside],
  [74, "events of the runtime", inside],
  [75, "cache of pods", inside],
  [
    76,
    "housekeeping",
    "What it ends is a pod that nobody wants, of which the API has nothing to compare; e2e looks at the node.",
  ],
  [77, "folders of orphans", "The API shows nothing of a node's folders; e2e looks at them."],
  [78, "state over a restart", overRestart],
  [79, "status over a restart", overRestart],
];

const statuses: readonly ReferenceRow[] = [
  [80, "transport of statuses", inside],
  [81, "the last delete", ["runs", "deleted-by-force", "tainted-away"]],
  [82, "merging", ["gate-opened", "deadline"]],
  [83, "guards", ["last-words-of-four", "rule-restarts", "deadline"]],
  [84, "observed generation", ["runs", "image-changed", "debugged"]],
  [85, "phase", ["both-end", "one-of-two-fails", "init-container-fails", "own-policy-never", "static-once"]],
  [86, "conditions", ["runs", "gate-closed", "gate-opened", "init-loop", "unready-by-exec", "succeeds"]],
  [87, "fields of containers", ["three-containers", "two-views", "user-and-group", "burstable", "empty-dir"]],
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
    ["image-never-there", "image-always-pulled", "image-pulled-once", "image-never-pulled", "pull-latest"],
  ],
  [92, "back-off", ["pull-refused", "pull-not-found", "pull-digest"]],
  [
    93,
    "parallel pulls",
    "How many are under way at once shows in times alone; contract and scenario tests count them.",
  ],
  [
    94,
    "reasons of the runtime",
    "No runtime that is at hand says RegistryUnavailable or SignatureValidationFailed; unit tests do.",
  ],
  [
    95,
    "credentials",
    [
      "private-image",
      "private-image-by-an-older-secret",
      "private-image-by-the-second-secret",
      "pull-by-a-wrong-login",
    ],
  ],
  [
    96,
    "credential providers",
    "Their programs are flags of a whole node, which the bed's other pods would be asked for too; e2e has them.",
  ],
  [97, "records of pulls", ["private-image", "pull-without-a-login"]],
  [98, "volumes of images", "Volumes of images are not mounted by this release."],
  [99, "collection of images", ofNode],
  [100, "collection of containers", ["crash-loop", "job-that-fails-once"]],
];

const sandboxes: readonly ReferenceRow[] = [
  [101, "connection", inside],
  [102, "when it is made anew", ["sandbox-ends", "sandbox-ends-after-init", "sandbox-ends-once"]],
  [
    103,
    "configuration",
    ["hostname", "name-with-domain", "name-with-too-long-a-domain", "ports", "safe-sysctl", "runtime-class"],
  ],
  [
    104,
    "namespaces",
    ["host-pid", "host-ipc", "host-everything", "shared-processes", "debugged-inside", "users-of-its-own"],
  ],
  [105, "failure", ["runtime-class-unknown-handler", "users-of-its-own"]],
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
  [112, "steps of a start", ["runs", "no-such-command", "key-missing", "post-start-fails"]],
  [
    113,
    "labels and annotations",
    "They are the runtime's to show, not the API's; unit tests hold each of them, and the hash to the kubelet's.",
  ],
  [
    114,
    "environment",
    [
      "environment",
      "environment-of-references",
      "environment-in-circles",
      "environment-of-a-file",
      "environment-of-odd-names",
    ],
  ],
  [115, "variables of Services", ["services", "services-unlinked", "environment-over-services"]],
  [116, "fields of the pod", ["environment-of-fields", "environment-of-resources", "environment-without-limits"]],
  [117, "mounts", ["sees-itself", "empty-dir", "host-path", "hosts-of-its-own"]],
  [118, "/etc/hosts", ["hosts", "hosts-of-the-host", "aliases-on-the-host", "hosts-of-its-own"]],
  [119, "hostname", ["hostname", "hostname-of-its-own", "name-with-domain"]],
  [120, "DNS", ["dns-cluster-first", "dns-default", "dns-none", "dns-merged", "dns-too-many", "dns-on-host-network"]],
  [
    121,
    "last words",
    ["last-words", "last-words-in-log", "last-words-in-a-long-log", "last-words-in-both", "last-words-too-many"],
  ],
  [122, "devices", "There is no device plugin on either side, and no volume of blocks."],
  [123, "resources", ["burstable", "guaranteed", "limit-of-cpu", "request-of-memory", "little-of-a-cpu"]],
  [
    124,
    "security",
    [
      "privileged",
      "privileged-mounts",
      "sees-itself",
      "root-against-the-rule",
      "root-by-name",
      "label-of-the-pod",
      "no-more-privileges",
    ],
  ],
  [
    125,
    "seccomp and AppArmor",
    ["seccomp-of-the-runtime", "seccomp-missing", "seccomp-off", "apparmor-off", "unconfinable"],
  ],
  [126, "ids of users", ["users-of-its-own"]],
];

const endings: readonly ReferenceRow[] = [
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
  [128, "order of stops", ["sidecars-stop-last", "sidecar-deaf", "liveness-ends-it", "pre-stop-outlasts-its-grace"]],
  [129, "how it has ended", ["out-of-memory", "exits-137", "kills-itself", "ends-by-signal"]],
  [130, "decision of a resize", noResize],
  [131, "carrying it out", noResize],
];

const probes: readonly ReferenceRow[] = [
  [132, "times", ["ready-by-exec", "ready-by-http", "unready-by-delay"]],
  [133, "first results", ["unready-by-exec", "startup"]],
  [134, "what they do", ["startup-fails", "liveness-fails-once", "liveness-ends-it", "unready-by-no-command"]],
  [
    135,
    "HTTP",
    ["ready-by-named-http", "unready-by-http", "unready-by-tls", "ready-by-redirect", "ready-by-redirect-elsewhere"],
  ],
  [136, "TCP, gRPC and commands", ["ready-by-tcp", "unready-by-tcp", "unready-by-grpc", "unready-by-no-command"]],
  [137, "events", ["unready-by-name", "unready-by-closed-port", "ready-by-redirect-elsewhere"]],
];

/** Each row in its order. */
export const reference: readonly ReferenceRow[] = [
  ...admission,
  ...lifeOfPods,
  ...statuses,
  ...images,
  ...sandboxes,
  ...containers,
  ...endings,
  ...probes,
];
