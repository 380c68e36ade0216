// What pods show of images, sandboxes and containers.
import { dependsOnNode, internal, notObservable, type ReferenceRow } from "./reference-row.ts";

export const imagesRows: readonly ReferenceRow[] = [
  [
    91,
    "policies and messages",
    {
      "image-never-there": "state.waiting.reason = ErrImageNeverPull",
      "image-always-pulled": 'Pulling image "REGISTRY/berth.test/always:1" = ×1',
      "image-pulled-once": 'Successfully pulled image "REGISTRY/berth.test/once:1"',
      "image-never-pulled": notObservable,
      "pull-latest": 'Failed to pull image "REGISTRY/berth.test/always": rpc error: code = NotFound',
      "image-by-digest": "imageID = REGISTRY/berth.test/by-digest@sha256:MANIFEST-OF berth.test/by-digest:1",
    },
  ],
  [
    92,
    "back-off",
    {
      "pull-refused": "event Normal BackOff spec.containers{main}: Back-off pulling image",
      "pull-not-found": 'Back-off pulling image "REGISTRY/no/such:1"',
      "pull-digest": 'Back-off pulling image "REGISTRY/berth.test/once@sha256:ID"',
      "pull-refused-until-its-deadline": ["event Normal BackOff", "reason = DeadlineExceeded"],
    },
  ],
  [93, "parallel pulls", "The number of parallel pulls shows in times only; contract and scenario tests count them."],
  [
    94,
    "reasons of the runtime",
    "No available runtime returns RegistryUnavailable or SignatureValidationFailed; unit tests cover them.",
  ],
  [
    95,
    "credentials",
    {
      "private-image": 'Successfully pulled image "PRIVATE-HUB/berth.test/private:1"',
      "private-image-by-dockercfg-secret": 'Successfully pulled image "PRIVATE-HUB/berth.test/older:1"',
      "private-image-by-the-second-secret": 'Successfully pulled image "PRIVATE-HUB/berth.test/second:1"',
      "pull-with-wrong-credentials": 'Failed to pull image "PRIVATE-HUB/berth.test/kept:1"',
    },
  ],
  [
    96,
    "credential providers",
    "Providers are flags of a whole node and would apply to the bed's other pods too; the e2e tests cover them.",
  ],
  [
    97,
    "records of pulls",
    {
      "private-image": 'Successfully pulled image "PRIVATE-HUB/berth.test/private:1"',
      "pull-without-credentials": 'Failed to pull image "PRIVATE-HUB/berth.test/kept:1"',
    },
  ],
  [
    98,
    "image volumes",
    "The compared release of containerd mounts no images; image-volume-refused shows the kubelet's words. Scenarios and e2e have the rest.",
  ],
  [99, "collection of images", dependsOnNode],
  [
    100,
    "collection of containers",
    {
      "crash-loop": "later containerStatuses[main].lastState.terminated.containerID = containerd://INSTANCE 1 OF main",
      "job-that-fails-once": [
        "state.terminated.containerID = containerd://INSTANCE 1 OF main",
        "lastState.terminated.exitCode = 4",
      ],
    },
  ],
];

export const sandboxesRows: readonly ReferenceRow[] = [
  [101, "connection", internal],
  [
    102,
    "re-creation",
    {
      "sandbox-ends": ["event Normal SandboxChanged", "later containerStatuses[main].restartCount = 1"],
      "sandbox-ends-after-init": [
        "event Normal SandboxChanged",
        "later initContainerStatuses[first].lastState.terminated.reason = Completed",
      ],
      "sandbox-ends-once": ["later phase = Failed", "without event Normal SandboxChanged"],
    },
  ],
  [
    103,
    "configuration",
    {
      hostname: "inside main: hostname = own-name",
      "hostname-as-fqdn": "inside main: hostname = own-name.sub.NAMESPACE.svc.cluster.local",
      "hostname-as-fqdn-too-long": "failed to construct FQDN from pod hostname and cluster domain",
      ports: notObservable,
      "safe-sysctl": notObservable,
      "runtime-class": "allocatedResources.cpu = 10m",
    },
  ],
  [
    104,
    "namespaces",
    {
      "host-pid": "inside main: namespace pid = HOST",
      "host-ipc": "inside main: namespace ipc = HOST",
      "host-everything": ["inside main: namespace net = HOST", "inside main: namespace pid = HOST"],
      "shared-processes": "inside main: first = catatonit",
      "debugged-inside": "inside debugger: first = catatonit",
      "user-namespace": "runtime does not support user namespaces",
    },
  ],
  [
    105,
    "failure",
    {
      "runtime-class-unknown-handler": "event Warning FailedCreatePodSandBox",
      "user-namespace": "event Warning FailedCreatePodSandBox",
    },
  ],
];

export const containersRows: readonly ReferenceRow[] = [
  [
    106,
    "order of starts",
    {
      "three-containers": "Container started\nevent Normal Pulled spec.containers{a}",
      "init-order": "state.terminated.message = two\none\nmain\n",
      "sidecar-and-job": "containerStatuses[main].state.terminated.message = side\nsecond\nmain\n",
      debugged: "later ephemeralContainerStatuses[debugger].state.terminated.message = seen\n",
    },
  ],
  [
    107,
    "what is started and stopped",
    {
      "image-changed": "Container main definition changed, will be restarted",
      "liveness-fails-once": "Container main failed liveness probe, will be restarted",
      "startup-fails": "Startup probe failed: never",
      "one-of-two-crashes": "Back-off restarting failed container other",
    },
  ],
  [108, "hash", { "image-changed": "later containerStatuses[main].restartCount = 1" }],
  [
    109,
    "init containers and sidecars",
    {
      "init-fails-once": "initContainerStatuses[first].lastState.terminated.exitCode = 4",
      "init-cannot-start": "initContainerStatuses[first].state.terminated.reason = StartError",
      "sidecar-crashes": "Back-off restarting failed container side",
      "sidecar-unready": "containers with unready status: [side]",
      "sidecar-beside-a-failed-init": "containers with incomplete status: [side second]",
    },
  ],
  [
    110,
    "restart rules",
    {
      "rule-restarts": [
        "state.terminated.containerID = containerd://INSTANCE 1 OF main",
        "lastState.terminated.exitCode = 4",
      ],
      "rule-for-others": ["settled phase = Failed", "state.terminated.exitCode = 4"],
      "rule-restarts-all": "event Normal Killing spec.initContainers{side}: killing",
      "rule-of-init-restarts-all": "conditions[AllContainersRestarting].status = False",
      "own-policy": [
        "state.terminated.containerID = containerd://INSTANCE 1 OF main",
        "lastState.terminated.exitCode = 4",
      ],
    },
  ],
  [
    111,
    "crash loops",
    {
      "crash-loop": "later containerStatuses[main].state.terminated.exitCode = 13",
      "success-loop": [
        "Back-off restarting failed container main",
        "later containerStatuses[main].lastState.terminated.exitCode = 0",
      ],
      "failure-loop": [
        "Back-off restarting failed container main",
        "later containerStatuses[main].lastState.terminated.exitCode = 12",
      ],
      "init-loop": "Back-off restarting failed container first",
      "rule-for-success-loop": [
        "Back-off restarting failed container main",
        "later containerStatuses[main].lastState.terminated.exitCode = 0",
      ],
    },
  ],
  [
    112,
    "steps of a start",
    {
      runs: "event Normal Started spec.containers{main}: Container started = ×1",
      "no-such-command": "state.terminated.exitCode = 128",
      "key-missing": "couldn't find key none in ConfigMap NAMESPACE/site",
      "post-start-fails": "event Warning FailedPostStartHook",
      "post-start-loop": ["event Warning FailedPostStartHook", "event Warning BackOff"],
    },
  ],
  [
    113,
    "labels and annotations",
    "The runtime shows them, not the API; unit tests compare each of them, and the hash, with the kubelet's.",
  ],
  [
    114,
    "environment",
    {
      environment: "inside main: env LATER = later",
      "environment-from-references": "inside main: env P_user = admin",
      "environment-cycle": "inside main: env B = b a $(B)",
      "environment-from-file": "inside main: env QUOTED = a b # c",
      "environment-unusual-names": "inside main: env $(x) = no reference",
    },
  ],
  [
    115,
    "variables of Services",
    {
      services: "inside main: env BACK_END_SERVICE_HOST = IP-OF-back-end",
      "services-unlinked": ["inside main: env KUBERNETES_SERVICE_HOST", "without env BACK_END"],
      "environment-over-services": "inside main: env BACK_END_SERVICE_HOST = mine",
    },
  ],
  [
    116,
    "fields of the pod",
    {
      "environment-of-fields": "inside main: env METADATA_UID = UID",
      "environment-of-resources": "inside main: env LIMITS_MEMORY_1MI = 48",
      "environment-without-limits": "inside main: env LIMITS_MEMORY_WHOLE = NODE-MEMORY",
      "downward-volume": "inside main: file /v/all/..TIME/of/one/label = -rw-r--r-- 0:0",
      "downward-volume-of-odd-texts": 'inside main: text /v/all/labels = app="differential"|berth.test/label="a_b-c.D"',
      "downward-volume-of-resources": "inside main: text /v/all/memory-mi = 48",
      "downward-volume-without-limits": "inside main: text /v/all/memory = NODE-MEMORY",
    },
  ],
  [
    117,
    "mounts",
    {
      "default-view": "inside main: mount /proc/sys = proc ro",
      "empty-dir": "inside main: mount /readable = ext4 ro",
      "host-path": "inside main: mount /seen = ext4 ro",
      "hosts-of-its-own": "volumeMounts[host].mountPath = /etc/hosts",
      "volumes-within-volumes": "inside main: file /v/outer/deep/inner = drwxrwxrwt",
      "empty-dirs-read-only": "inside main: mountinfo /v/again = UID/volumes/kubernetes.io~empty-dir/disk ro",
      "sub-paths-read-only": "inside main: write /v/missing/ = touch: /v/missing/made: Read-only file system",
      "claim-mounted-read-only": "inside main: write /v/v/ = touch: /v/v/made: Read-only file system",
      "propagation-in-empty-dir":
        "inside hosttocontainer: mountinfo /v/shared = UID/volumes/kubernetes.io~empty-dir/shared rw,relatime master",
      "propagation-of-objects":
        "inside main: mountinfo /v/map = UID/volumes/kubernetes.io~configmap/map ro,relatime master",
    },
  ],
  [
    118,
    "/etc/hosts",
    {
      hosts: "# Entries added by HostAliases.\n198.51.100.9\talias.test\talias",
      "hosts-of-the-host": "# Kubernetes-managed hosts file (host network).",
      "aliases-on-the-host": ["# Kubernetes-managed hosts file (host network).", "# Entries added by HostAliases."],
      "hosts-of-its-own": ["inside main: hosts = ", "without # Kubernetes-managed hosts file"],
    },
  ],
  [
    119,
    "hostname",
    {
      hostname: "inside main: hostname = own-name",
      "hostname-override": "inside main: hostname = other.name.test",
      "hostname-as-fqdn": "inside main: hostname = own-name.sub.NAMESPACE.svc.cluster.local",
    },
  ],
  [
    120,
    "DNS",
    {
      "dns-cluster-first":
        "resolv = search NAMESPACE.svc.cluster.local svc.cluster.local cluster.local\nnameserver 10.191.0.10\noptions ndots:5",
      "dns-default": "inside main: resolv = nameserver 10.255.255.53",
      "dns-none": "inside main: resolv = search a.test b.test\nnameserver 198.51.100.53\noptions edns0 ndots:2",
      "dns-merged": "cluster.local a.test\nnameserver 10.191.0.10\nnameserver 198.51.100.53\noptions ndots:1",
      "dns-too-many": "event Warning DNSConfigForming: Nameserver limits were exceeded",
      "dns-on-host-network": ["podIP = HOST-IP", "nameserver 10.191.0.10"],
    },
  ],
  [
    121,
    "termination messages",
    {
      "termination-message": "state.terminated.message = because\n",
      "termination-message-from-log": "state.terminated.message = error 1\nerror 2\nerror 3\n",
      "termination-message-from-long-log": "state.terminated.message = error 221\n",
      "termination-message-file-and-log": "state.terminated.message = in the file\n",
      "termination-message-too-long": "state.terminated.message = \nword 446\n",
    },
  ],
  [122, "devices", "No side has a device plugin or a block device for its pods. Block devices: scenarios and e2e."],
  [
    123,
    "resources",
    {
      burstable: "inside main: limit cpu/cpu.cfs_quota_us = 25000",
      guaranteed: "containerStatuses[main].allocatedResources.cpu = 250m",
      "limit-of-cpu": "inside main: limit cpu/cpu.shares = 1024",
      "request-of-memory": "inside main: oom = 998",
      "cpu-below-minimum": "inside main: limit cpu/cpu.shares = 2",
    },
  ],
  [
    124,
    "security",
    {
      privileged: "inside main: status CapEff = 000001fffeffffff",
      "privileged-mounts": ["inside main: mount /proc = proc rw", "without mount /proc/sys"],
      "default-view": "inside main: mount /sys/firmware = tmpfs ro",
      "root-with-run-as-non-root": "container has runAsNonRoot and image will run as root",
      "root-by-name": "image has non-numeric user (sailor), cannot verify user is non-root",
      "selinux-label": notObservable,
      "no-privilege-escalation": "inside main: status NoNewPrivs = 1",
    },
  ],
  [
    125,
    "seccomp and AppArmor",
    {
      "seccomp-of-the-runtime": "inside main: status Seccomp = 2",
      "seccomp-missing": 'cannot load seccomp profile "ROOT/seccomp/none.json"',
      "seccomp-off": "inside main: status Seccomp = 0",
      "apparmor-off": notObservable,
      "apparmor-unsupported": "Cannot enforce AppArmor",
    },
  ],
  [126, "ids of users", { "user-namespace": "runtime does not support user namespaces" }],
];
