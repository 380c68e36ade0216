// What pods show of stops, resizes, probes and cgroups.
import { asUsual, needsOptions, type ReferenceRow } from "./reference-row.ts";

export const terminationsRows: readonly ReferenceRow[] = [
  [
    127,
    "hooks",
    {
      "post-start": "state.terminated.message = hook\n",
      "post-start-fails": "event Warning FailedPostStartHook",
      "post-start-without-command": "event Warning FailedPostStartHook",
      "pre-stop-by-http": asUsual,
      "pre-stop-sleeps": asUsual,
      "pre-stop-outlasts-its-grace": "event Warning FailedPreStopHook",
    },
  ],
  [
    128,
    "order of stops",
    {
      "sidecars-stop-last": "gone initContainerStatuses[two].state.terminated.message = main\ntwo\n",
      "sidecar-ignores-sigterm": "initContainerStatuses[side].state.terminated.exitCode = 137",
      "liveness-ends-it": "state.terminated.exitCode = 137",
      "pre-stop-outlasts-its-grace": "end of main = after its grace period",
    },
  ],
  [
    129,
    "exit codes and reasons",
    {
      "out-of-memory": "state.terminated.reason = OOMKilled",
      "exits-137": ["state.terminated.exitCode = 137", "state.terminated.reason = Error"],
      "kills-itself": "settled containerStatuses[main].state.terminated.exitCode = 1",
      "ends-by-signal": "settled containerStatuses[main].state.terminated.exitCode = 1",
    },
  ],
  [
    130,
    "admission of a resize",
    {
      "resize-up": "status main.resources.limits.cpu = 600m",
      "resize-below-minimum": "status main.allocatedResources.cpu = 1m",
      "resize-to-10m": "status main.allocatedResources.cpu = 10m",
      "resize-in-decimals": "status main.resources.limits.memory = 78125Ki",
    },
  ],
  [
    131,
    "execution of a resize",
    {
      "resize-down": "cgroup main: cpu.max = 40000 100000",
      "resize-of-two": "cgroup other: memory.max = 67108864",
      "resize-of-sidecar": "cgroup proxy: cpu.max = 42000 100000",
      "resize-restarts-for-memory": "status main.restartCount = 1",
    },
  ],
];

export const probesRows: readonly ReferenceRow[] = [
  [
    132,
    "times",
    {
      "ready-by-exec": "Readiness probe errored and resulted in unknown state: rpc error: code = Canceled",
      "ready-by-http": asUsual,
      "unready-by-delay": 'command timed out: "sh -c sleep 1000" timed out after 1s',
    },
  ],
  [
    133,
    "first results",
    {
      "unready-by-exec": "event Warning Unhealthy spec.containers{main}: Readiness probe failed: not yet",
      startup: asUsual,
    },
  ],
  [
    134,
    "effects",
    {
      "startup-fails": "Startup probe failed: never",
      "liveness-fails-once": "Container main failed liveness probe, will be restarted",
      "liveness-ends-it": "Liveness probe failed: dead",
      "unready-by-no-command": "stat /no/such/command: no such file or directory",
    },
  ],
  [
    135,
    "HTTP",
    {
      "ready-by-named-http": asUsual,
      "unready-by-http": "HTTP probe failed with statuscode: 404",
      "unready-by-tls": "http: server gave HTTP response to HTTPS client",
      "ready-by-redirect": asUsual,
      "ready-by-redirect-elsewhere": "Readiness probe warning: Probe terminated redirects, Response body: elsewhere",
    },
  ],
  [
    136,
    "TCP, gRPC and commands",
    {
      "ready-by-tcp": asUsual,
      "unready-by-tcp": "Readiness probe failed: dial tcp POD-IP:9: connect: connection refused",
      "unready-by-grpc": 'failed to connect service "POD-IP:9" within 5s',
      "unready-by-no-command": "stat /no/such/command: no such file or directory",
    },
  ],
  [
    137,
    "events",
    {
      "unready-by-name": 'strconv.Atoi: parsing "none": invalid syntax',
      "unready-by-closed-port": 'Get "http://POD-IP:9/": dial tcp POD-IP:9: connect: connection refused',
      "ready-by-redirect-elsewhere": "event Warning ProbeWarning",
    },
  ],
];

/** Most of their pods run in the guest; the kubelet's cgroups are in `test/golden/kubelet-cgroups`. */
export const cgroupsRows: readonly ReferenceRow[] = [
  [
    138,
    "names with cgroupfs",
    {
      guaranteed: "cgroup kubepods/guaranteed:",
      "burstable-limits": "cgroup kubepods/burstable/burstable-limits:",
      besteffort: "cgroup kubepods/besteffort/besteffort:",
    },
  ],
  [
    139,
    "names with systemd",
    {
      guaranteed: "cgroup kubepods/guaranteed:",
      "burstable-limits": "cgroup kubepods/burstable/burstable-limits:",
      besteffort: "cgroup kubepods/besteffort/besteffort:",
    },
  ],
  [140, "existence", "Pods have no cgroup without its controllers; the contract suite turns them off."],
  [
    141,
    "CPU weight",
    {
      "burstable-28m": "cgroup main: cpu.weight = 1",
      "burstable-29m": "cgroup main: cpu.weight = 2",
      "burstable-many-cpus": "cgroup main: cpu.max = 100000000 100000",
      "resize-to-1m": "cgroup main: cpu.max = 1000 100000",
    },
  ],
  [
    142,
    "CPU quota",
    {
      "burstable-cpu-unlimited": "cgroup second: cpu.max = max 100000",
      "burstable-largest-quota": "cgroup main: cpu.max = 17592186044000 100000",
      "resize-to-11m": "cgroup main: cpu.max = 1100 100000",
    },
  ],
  [
    143,
    "memory",
    {
      "guaranteed-odd-memory": "cgroup main: memory.max = 39997440",
      "burstable-memory-unlimited": "cgroup second: memory.max = max",
      "guaranteed-overhead": "cgroup kubepods/guaranteed-overhead: memory.max = 58720256",
      "guaranteed-init": "cgroup kubepods/guaranteed-init: memory.max = 67108864",
    },
  ],
  [144, "MemoryQoS", needsOptions],
  [
    145,
    "processes and huge pages",
    { "guaranteed-huge-pages": "hugetlb.2MB.max = 4194304", "burstable-huge-pages": "hugetlb.2MB.max = 2097152" },
  ],
  // The bed's containerd raises a negative value to its own, 0.
  [
    146,
    "oom_score_adj",
    {
      guaranteed: "inside main: oom = 0",
      burstable: "inside main: oom = 999",
      "request-of-memory": "inside main: oom = 998",
      "default-view": "inside main: oom = 1000",
    },
  ],
  [147, "enforcement on the node", needsOptions],
  [148, "kernel settings", "No pod shows them; the guest compares them after the start."],
  [
    149,
    "swap",
    {
      "guaranteed-odd-memory": "cgroup main: memory.swap.max = 0",
      "burstable-limits": "cgroup second: memory.swap.max = 0",
    },
  ],
];
