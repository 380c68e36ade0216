// What pods show of their admission, life and status.
import { dependsOnNode, internal, needsRestart, notObservable, type ReferenceRow } from "./reference-row.ts";

export const nodeRows: readonly ReferenceRow[] = [
  [
    20,
    "directories",
    {
      "propagation-in-empty-dir":
        "inside main: mountinfo /v/shared = UID/volumes/kubernetes.io~empty-dir/shared rw,relatime shared",
      "propagation-in-claim": "inside hosttocontainer: mountinfo /v/shared = - rw,relatime master",
    },
  ],
];

export const admissionRows: readonly ReferenceRow[] = [
  [
    53,
    "chain and order",
    {
      "out-of-cpu": "reason = OutOfcpu",
      "unsafe-sysctl": "reason = SysctlForbidden",
      "apparmor-unsupported": "reason = AppArmor",
      "other-operating-system": "reason = PodOSNotSupported",
    },
  ],
  [54, "eviction", dependsOnNode],
  [
    55,
    "sysctls",
    {
      "unsafe-sysctl": 'forbidden sysctl: "kernel.msgmax" not allowlisted',
      "safe-sysctl": notObservable,
      "sysctls-with-slashes": "inside main: args = 20000 30000",
    },
  ],
  [56, "predicates", { "other-operating-system": "reason = PodOSNotSupported" }],
  [
    57,
    "resource fit",
    {
      "out-of-cpu": "Node didn't have enough resource: cpu, requested: 1000000",
      "out-of-memory-of-the-node": "reason = OutOfmemory",
    },
  ],
  [58, "other fits", { "no-such-disk": "reason = NodeAffinity" }],
  [59, "other handlers", { "apparmor-unsupported": "reason = AppArmor" }],
  [60, "preemption", dependsOnNode],
];

export const podLifecycleRows: readonly ReferenceRow[] = [
  [61, "the loop", internal],
  [
    62,
    "states of a pod",
    {
      runs: "settled phase = Running",
      succeeds: "settled phase = Succeeded",
      "deleted-in-init": "gone initContainerStatuses[one].state.terminated.exitCode = 143",
      "evicted-by-taint": "gone conditions[DisruptionTarget].reason = DeletionByTaintManager",
    },
  ],
  [
    63,
    "grace period",
    {
      "ignores-sigterm": "end of main = after its grace period",
      "ignores-sigterm-for-pod-grace": "end of main = after its grace period",
      "deleted-by-force": ["Stopping container main", "without end of main"],
    },
  ],
  [
    64,
    "static pods",
    {
      static: "annotation kubernetes.io/config.source = file",
      "static-once": ["annotation kubernetes.io/config.source = file", "state.terminated.exitCode = 3"],
      "static-crash-loop": [
        "annotation kubernetes.io/config.source = file",
        "Back-off restarting failed container main",
      ],
    },
  ],
  [
    65,
    "retries",
    {
      "host-path-no-file": "hostPath type check failed: /no/such/file is not a file",
      "runtime-class-unknown-handler": 'no runtime for "no-such-handler" is configured',
    },
  ],
  [
    66,
    "killing with a limit",
    "Only evictions and preemptions wait like that, and neither can be caused equally on three nodes.",
  ],
  [67, "knowledge after a restart", needsRestart],
  [
    68,
    "order of a sync",
    {
      runs: "settled conditions[PodReadyToStartContainers].status = True",
      "host-path-no-file": ["event Warning FailedMount", "without event Normal Pulled"],
      "pull-secret-missing": [
        "event Warning FailedToRetrieveImagePullSecret",
        "event Normal Started spec.containers{main}",
      ],
      "init-order": "state.terminated.message = two\none\nmain\n",
    },
  ],
  [
    69,
    "order of a termination",
    {
      "ignores-sigterm": "end of main = after its grace period",
      "pre-stop": "gone containerStatuses[main].state.terminated.message = hook\nsignal\n",
      "sidecars-stop-last": "gone initContainerStatuses[one].state.terminated.message = main\ntwo\none\n",
    },
  ],
  [70, "order of the clean-up", { succeeds: "gone phase = Succeeded", "group-of-volumes": "groups=0(root),2345,3456" }],
  [
    71,
    "deadline",
    {
      deadline: "reason = DeadlineExceeded",
      "deadline-ignored": ["settled reason = DeadlineExceeded", "state.terminated.exitCode = 137"],
      "deadline-in-init": ["reason = DeadlineExceeded", "Stopping container one"],
      "past-its-deadline": "gone reason = DeadlineExceeded",
    },
  ],
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

export const statusesRows: readonly ReferenceRow[] = [
  [80, "transport of statuses", internal],
  [
    81,
    "the final delete",
    {
      runs: "gone containerStatuses[main].state.terminated.exitCode = 143",
      "deleted-by-force": ["Stopping container main", "without end of main"],
      "evicted-by-taint": "gone conditions[DisruptionTarget].reason = DeletionByTaintManager",
    },
  ],
  [
    82,
    "merging",
    {
      "gate-opened": "later conditions[berth.test/open].status = True",
      deadline: "Pod was active on the node longer than the specified deadline",
    },
  ],
  [
    83,
    "guards",
    {
      "termination-messages-of-four-containers": "containerStatuses[d].state.terminated.message",
      "rule-restarts": [
        "state.terminated.containerID = containerd://INSTANCE 1 OF main",
        "lastState.terminated.exitCode = 4",
      ],
      deadline: "reason = DeadlineExceeded",
    },
  ],
  [
    84,
    "observed generation",
    {
      runs: "gone observedGeneration = 2",
      "image-changed": "later observedGeneration = 2",
      debugged: "later observedGeneration = 2",
    },
  ],
  [
    85,
    "phase",
    {
      "both-end": ["settled phase = Failed", "containerStatuses[other].state.terminated.exitCode = 5"],
      "one-of-two-fails": ["settled phase = Running", "containers with unready status: [other]"],
      "init-container-fails": ["settled phase = Failed", "initContainerStatuses[two].state.terminated.exitCode = 3"],
      "own-policy-never": ["settled phase = Running", "containers with unready status: [other]"],
      "static-once": ["annotation kubernetes.io/config.source = file", "state.terminated.exitCode = 3"],
    },
  ],
  [
    86,
    "conditions",
    {
      runs: "settled conditions[Ready].status = True",
      "gate-closed": "settled conditions[Ready].reason = ReadinessGatesNotReady",
      "gate-opened": "later conditions[berth.test/open].status = True",
      "init-loop": "containers with incomplete status: [first]",
      "unready-by-exec": "settled conditions[ContainersReady].reason = ContainersNotReady",
      succeeds: "settled conditions[Ready].reason = PodCompleted",
    },
  ],
  [
    87,
    "fields of containers",
    {
      "three-containers": "gone containerStatuses[c].state.terminated.exitCode = 143",
      "two-views": "inside second: namespace pid = OWN-5",
      "user-and-group": "inside main: id = uid=1234 gid=2345 groups=2345,3456,4567",
      "resources-of-a-pod": "resources.limits.memory = 56Mi",
      "empty-dir": "containerStatuses[main].volumeMounts[v].mountPath = /readable",
    },
  ],
  [
    88,
    "reasons",
    {
      "crash-loop": "event Warning BackOff spec.containers{main}: Back-off restarting failed container main",
      "pull-refused": "state.waiting.reason = ImagePullBackOff",
      "image-name-invalid": "state.waiting.reason = InvalidImageName",
      "key-missing": "state.waiting.reason = CreateContainerConfigError",
      "seccomp-missing": "state.waiting.reason = CreateContainerError",
      "no-such-command": "state.terminated.reason = StartError",
    },
  ],
  [
    89,
    "addresses",
    {
      runs: "settled podIP = POD-IP",
      "dns-of-the-host": "podIP = HOST-IP",
      "environment-of-fields": "inside main: env STATUS_PODIP = POD-IP",
    },
  ],
  [
    90,
    "readiness at once",
    {
      "ready-by-exec": "Readiness probe errored and resulted in unknown state: rpc error: code = Canceled",
      startup: notObservable,
      "gate-opened": "later conditions[Ready].status = True",
    },
  ],
];
