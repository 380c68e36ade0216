import { allCases } from "./cases/all.ts";
import { hasEnded } from "./cases/pod-case.ts";
import type { KnownDifference, KnownDifferences } from "./compare.ts";

const fewTimes = /^×[1-9]$/;
const crashing = /-loop$|-crashes$/;
const TERMINATED = String.raw`terminated\.(exitCode|reason|startedAt|finishedAt|containerID)$`;

const repeatedBySync =
  "the kubelet repeats the event at each sync while nothing changes, Berth only when it happens (decisions 6 and 7)";
/** Events that Berth reports once. */
const reportedOnce: readonly (readonly [pod: RegExp, event: RegExp])[] = [
  [/deadline/, /^event Normal DeadlineExceeded\b/],
  [/^(init-)?image-(name-invalid|never-there)$/, /^event Warning (InspectFailed|ErrImageNeverPull|Failed)\b/],
  [/^root-(with-run-as-non-root|by-number|by-name)$/, /^event (Normal Pulled|Warning Failed)\b/],
  [/^dns-too-many$/, /^event Warning DNSConfigForming\b/],
  [/^pull-secret-missing$/, /^event Warning FailedToRetrieveImagePullSecret\b/],
];

const manifestRemoved =
  "the mirror of a removed static pod shows its final status before it is deleted; the kubelet deletes it at once";
const mirror = (field: string, kubelet: string | undefined, berth: string | undefined): KnownDifference => ({
  pod: "static",
  field: `gone ${field}`,
  ...(kubelet === undefined ? {} : { kubelet }),
  ...(berth === undefined ? {} : { berth }),
  reason: manifestRemoved,
});
const unready = ["Ready", "ContainersReady"].flatMap((type) => [
  mirror(`conditions[${type}].status`, "True", "False"),
  mirror(`conditions[${type}].reason`, undefined, "ContainersNotReady"),
  mirror(`conditions[${type}].message`, undefined, "containers with unready status: [main]"),
]);
const main = "containerStatuses[main]";

const showsBackOff =
  "CrashLoopBackOff is shown during the back-off; the kubelet shows it at its next sync, when the back-off is over";

const hasItsExit =
  "a container that waits for its restart when its pod ends has its last exit; the kubelet reports it as unknown";

const namesProbe =
  "the event names the failed probe; the kubelet omits the event where the whole pod ends with the container";

const namesPort = "the message names the port that the container lacks; the kubelet reports the error of its parser";

const isNotRetried =
  "an ephemeral container that cannot start is terminated, because it is never retried; the kubelet shows it as waiting";

const ended = allCases.filter(({ until }) => until === hasEnded).map(({ name }) => name);

/** The amounts that a kubelet with pod cgroups reads from there. */
const amountsOfPodCgroups: readonly {
  readonly pod: string | readonly string[];
  readonly requests_cpu?: string;
  readonly limits_cpu?: string;
  readonly limits_memory?: string;
}[] = [
  {
    pod: ["burstable", "environment-of-resources"],
    requests_cpu: "25m",
    limits_cpu: "250m",
    limits_memory: "48Mi",
  },
  { pod: "guaranteed", requests_cpu: "250m", limits_cpu: "250m", limits_memory: "48Mi" },
  { pod: "limit-of-cpu", requests_cpu: "1", limits_cpu: "1" },
  { pod: "cpu-below-minimum", requests_cpu: "1m", limits_cpu: "2m" },
  { pod: "out-of-memory", limits_memory: "16Mi" },
  { pod: "runtime-class", requests_cpu: "10m" },
  { pod: "resources-of-a-pod", requests_cpu: "60m", limits_cpu: "250m", limits_memory: "56Mi" },
];

const deliberate: readonly KnownDifference[] = [
  ...reportedOnce.map(([pod, field]) => ({ pod, field, kubelet: fewTimes, berth: "×1", reason: repeatedBySync })),
  {
    pod: /^(secret|key|config-map)-missing$|^environment-(from-no-|from-file-missing)/,
    field: /^event (Normal Pulled|Warning Failed)\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    reason: repeatedBySync,
  },
  {
    pod: crashing,
    field: new RegExp(String.raw`^(settled|later) \w+Statuses\[\w+\]\.state\.${TERMINATED}`),
    kubelet: /./,
    reason: showsBackOff,
  },
  // The instance that has ended before the wait is the last one of Berth, and the present one of the kubelet.
  ...(
    [
      ["settled", 0],
      ["later", 1],
      ["gone", 1],
    ] as const
  ).flatMap(([snapshot, instance]) => [
    {
      pod: crashing,
      field: new RegExp(String.raw`^${snapshot} \w+Statuses\[\w+\]\.lastState\.terminated\.containerID$`),
      kubelet: new RegExp(`^containerd://INSTANCE ${instance} OF `),
      berth: new RegExp(`^containerd://INSTANCE ${instance + 1} OF `),
      reason: showsBackOff,
    },
    {
      pod: crashing,
      field: new RegExp(String.raw`^${snapshot} \w+Statuses\[\w+\]\.lastState\.terminated\.exitCode$`),
      kubelet: String(instance + 11),
      berth: String(instance + 12),
      reason: showsBackOff,
    },
  ]),
  {
    pod: crashing,
    field: /^(settled|later) \w+Statuses\[\w+\]\.state\.waiting\.(reason|message)$/,
    berth: /^(CrashLoopBackOff$|back-off [12]0s restarting failed container=)/,
    reason: showsBackOff,
  },
  {
    pod: "sidecar-in-back-off-at-the-end",
    field:
      /^(settled|gone) initContainerStatuses\[side\]\.state\.terminated\.(exitCode|reason|message|startedAt|finishedAt)$/,
    kubelet: [
      "137",
      "ContainerStatusUnknown",
      "The container could not be located when the pod was terminated",
      "null",
    ],
    berth: ["5", "Error", "TIME", undefined],
    reason: hasItsExit,
  },
  ...unready,
  mirror(`${main}.ready`, "true", "false"),
  mirror(`${main}.started`, "true", "false"),
  mirror(`${main}.state.running.startedAt`, "TIME", undefined),
  mirror(`${main}.state.terminated.exitCode`, undefined, "143"),
  mirror(`${main}.state.terminated.reason`, undefined, "Error"),
  mirror(`${main}.state.terminated.startedAt`, undefined, "TIME"),
  mirror(`${main}.state.terminated.finishedAt`, undefined, "TIME"),
  mirror(`${main}.state.terminated.containerID`, undefined, "containerd://INSTANCE 0 OF main"),
  {
    pod: ["startup-fails", "liveness-ends-it"],
    field: "event Normal Killing spec.containers{main}: Stopping container main",
    kubelet: "×1",
    reason: namesProbe,
  },
  {
    pod: ["startup-fails", "liveness-ends-it"],
    field: /^event Normal Killing spec.containers\{main\}: Container main failed (startup|liveness) probe$/,
    berth: "×1",
    reason: namesProbe,
  },
  {
    pod: "debug-command-missing",
    field: /^(later|gone) ephemeralContainerStatuses\[debugger\]\.(state\.waiting|lastState\.terminated)\./,
    kubelet: /./,
    reason: isNotRetried,
  },
  {
    pod: "debug-command-missing",
    field: /^later ephemeralContainerStatuses\[debugger\]\.state\.terminated\./,
    berth: /./,
    reason: isNotRetried,
  },
  {
    pod: "unready-by-name",
    field: /^event Warning Unhealthy\b.*: strconv\.Atoi: parsing "none": invalid syntax$/,
    kubelet: fewTimes,
    reason: namesPort,
  },
  {
    pod: "unready-by-name",
    field: /^event Warning Unhealthy\b.*: container main has no port "none"$/,
    berth: fewTimes,
    reason: namesPort,
  },
  {
    pod: /^host-path-no-|unknown-handler$|-fqdn-too-long$|^user-namespace$/,
    field: `settled ${main}.state.waiting.message`,
    berth: /^(MountVolume\.SetUp failed|Failed to create pod sandbox)/,
    reason: "a waiting container names the cause in its message",
  },
  {
    pod: /^host-path-no-/,
    field: /^event Warning FailedMount: .* is not a (directory|file|socket file|block device)$/,
    kubelet: fewTimes,
    reason: "the actual type of the file follows the kubelet's message",
  },
  {
    pod: /^host-path-no-/,
    field: /^event Warning FailedMount: .* is not a (directory|file|socket file|block device): it (is|does) /,
    berth: /^×[1-3]$/,
    reason: "the actual type of the file follows the kubelet's message",
  },
  {
    pod: ended,
    field: /^(settled|gone) conditions\[PodReadyToStartContainers\]\.status$/,
    kubelet: ["True", "False"],
    berth: "False",
    reason: "a finished pod has no network; whether the kubelet's status shows that depends on its last sync",
  },
  ...amountsOfPodCgroups.flatMap(({ pod, ...amounts }) =>
    Object.entries(amounts).map(([amount, value]) => ({
      pod,
      field: new RegExp(`^(settled|gone) resources\\.${amount.replace("_", "\\.")}$`),
      kubelet: [value, undefined],
      berth: value,
      reason: "a pod that ends keeps its resources; the kubelet reads them from the pod's cgroup, which it lacks here",
    })),
  ),
  {
    pod: /ready-by-(exec|delay|no-command)$|^liveness-(fails-once|ends-it)$/,
    field: /^event Warning Unhealthy\b.* errored and resulted in unknown state: (?!.*no\/such\/command)/,
    kubelet: [/^×\d\d?$/, undefined],
    reason: "the container may be stopped during a probe: the kubelet repeats the probe, Berth ignores it",
  },
];

const endsTwice =
  "the kubelet reports the pod as failed before or after its container has ended; both hold when it is deleted";

const untilDeleted = "the event repeats until the pod is deleted, so its count depends on the time of the deletion";

const timingDependent: readonly KnownDifference[] = [
  {
    // When the second back-off (20s) is over, the kubelet's message names the next one (40s); a run may be read then.
    pod: crashing,
    field: /^later \w+Statuses\[\w+\]\.state\.waiting\.message$/,
    kubelet: [/^back-off 40s restarting failed container=/, undefined],
    berth: /^back-off 20s restarting failed container=/,
    reason: showsBackOff,
  },
  {
    pod: /^post-start-(by-http-fails|without-command|fails)$/,
    field: /^(settled|gone) containerStatuses\[main\]\.state\.terminated\.exitCode$/,
    // runc's own init process, which precedes the command, exits with 2 on SIGTERM.
    kubelet: ["143", "137", "2"],
    berth: ["143", "137", "2"],
    reason: "a hook that fails at once stops its container, perhaps before it has started or handles SIGTERM",
  },
  {
    // On all sides it depends on timing whether the network is already removed.
    pod: /^static(-crash-loop)?$/,
    field: "gone conditions[PodReadyToStartContainers].status",
    kubelet: ["True", "False"],
    berth: ["True", "False"],
    reason: manifestRemoved,
  },
  {
    pod: "static-crash-loop",
    field: `gone ${main}.state.waiting.reason`,
    kubelet: ["CrashLoopBackOff", undefined],
    reason: manifestRemoved,
  },
  {
    pod: "static-crash-loop",
    field: `gone ${main}.state.waiting.message`,
    kubelet: [/^back-off 20s restarting failed container=/, undefined],
    reason: manifestRemoved,
  },
  {
    pod: "static-crash-loop",
    field: new RegExp(String.raw`^gone containerStatuses\[main\]\.state\.${TERMINATED}`),
    kubelet: [/./, undefined],
    berth: /^(13|Error|TIME|containerd:\/\/INSTANCE 2 OF main)$/,
    reason: manifestRemoved,
  },
  {
    pod: /^deadline/,
    field: /^settled .*\.(ready|started)$/,
    kubelet: ["true", "false"],
    berth: "false",
    reason: endsTwice,
  },
  { pod: /^deadline/, field: /^settled .*\.running\.startedAt$/, kubelet: ["TIME", undefined], reason: endsTwice },
  {
    pod: /^deadline/,
    field: new RegExp(String.raw`^settled .*\.${TERMINATED}`),
    kubelet: [/./, undefined],
    berth: /^(143|137|Error|TIME|containerd:\/\/INSTANCE 0 OF \w+)$/,
    reason: endsTwice,
  },
  {
    pod: crashing,
    field: /^event Warning BackOff\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    within: 2,
    reason: untilDeleted,
  },
  {
    pod: /^pull-|^debug-image-refused$/,
    field: /^event (Normal (BackOff|Pulling)|Warning Failed)\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    within: 2,
    reason: untilDeleted,
  },
  {
    pod: /^unready-by-/,
    field: /^event Warning Unhealthy\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    within: 3,
    reason: untilDeleted,
  },
  {
    pod: /ready-by-(named-)?(http|tcp|tls|redirect|redirect-elsewhere)$/,
    field: /^event Warning Unhealthy\b.*: connection (refused|reset by peer)$/,
    kubelet: [/^×[1-3]$/, undefined],
    berth: [/^×[1-3]$/, undefined],
    reason: "the server may not listen yet at the first probe, or no longer at the last one",
  },
  {
    pod: /^(seccomp-missing|group-without-user)$/,
    field: /^event (Normal Pulled|Warning Failed)\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    within: 3,
    reason: untilDeleted,
  },
  {
    pod: /-unknown-handler$|-fqdn-too-long$|^user-namespace$/,
    field: /^event Warning FailedCreatePodSandBox\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    within: 2,
    reason: untilDeleted,
  },
];

/** Known differences between runs, with their reasons. A deliberate entry without a finding fails the suite. */
export const knownDifferences: KnownDifferences = { deliberate, timingDependent };
