import { allCases } from "./cases/all.ts";
import { hasEnded } from "./cases/pod-case.ts";
import type { KnownDifference, KnownDifferences } from "./compare.ts";
import { EVENT_ORDER } from "./comparison-rows.ts";

const fewTimes = /^×[1-9]$/;
const crashing = /-loop$|-crashes$/;
const TERMINATED = String.raw`terminated\.(exitCode|reason|startedAt|finishedAt|containerID)$`;

const repeatedBySync =
  "the kubelet repeats the event at each sync while nothing changes, Berth only when it happens (decisions 6 and 7)";
/** Events that Berth reports once. */
const reportedOnce: readonly (readonly [pod: RegExp, event: RegExp])[] = [
  [/^deadline/, /^event Normal DeadlineExceeded\b/],
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

const namesProbe =
  "the event names the failed probe; the kubelet omits the event where the whole pod ends with the container";

const namesPort = "the message names the port that the container lacks; the kubelet reports the error of its parser";

const isNotRetried =
  "an ephemeral container that cannot start is terminated, because it is never retried; the kubelet shows it as waiting";

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
  {
    pod: crashing,
    field: /^(settled|later) \w+Statuses\[\w+\]\.state\.waiting\.(reason|message)$/,
    berth: /^(CrashLoopBackOff$|back-off [12]0s restarting failed container=)/,
    reason: showsBackOff,
  },
  {
    pod: crashing,
    field: new RegExp(String.raw`^gone \w+Statuses\[\w+\]\.lastState\.${TERMINATED}`),
    kubelet: /./,
    reason: "Berth keeps one dead instance and removes the others at once; the kubelet removes them after a minute",
  },
  {
    pod: /^deadline/,
    field: EVENT_ORDER,
    kubelet: / DeadlineExceeded: .*\nevent Normal Killing [^\n]*$/,
    berth: / Killing .*\nevent Normal DeadlineExceeded: [^\n]*$/,
    reason: "DeadlineExceeded is reported together with the status, which is when the containers have stopped",
  },
  ...unready,
  mirror(`${main}.ready`, "true", "false"),
  mirror(`${main}.started`, "true", "false"),
  mirror(`${main}.state.running.startedAt`, "TIME", undefined),
  mirror(`${main}.state.terminated.exitCode`, undefined, "143"),
  mirror(`${main}.state.terminated.reason`, undefined, "Error"),
  mirror(`${main}.state.terminated.startedAt`, undefined, "TIME"),
  mirror(`${main}.state.terminated.finishedAt`, undefined, "TIME"),
  mirror(`${main}.state.terminated.containerID`, undefined, "containerd://ID"),
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
    pod: /^(out-of-memory|environment-of-resources|burstable|guaranteed|limit-of-cpu|request-of-memory|cpu-below-minimum|runtime-class)$/,
    field: /^(settled|gone) (allocatedResources|resources\.(limits|requests))\.(cpu|memory)$/,
    kubelet: /./,
    reason: "pod-level resources in the status (beta) come with pod resize",
  },
];

const ended = allCases.filter(({ until }) => until === hasEnded).map(({ name }) => name);

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
    berth: /^(1|Error|TIME|containerd:\/\/ID)$/,
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
    berth: /^(143|137|Error|TIME|containerd:\/\/ID)$/,
    reason: endsTwice,
  },
  {
    pod: ended,
    field: /^(settled|gone) conditions\[PodReadyToStartContainers\]\.status$/,
    kubelet: ["True", "False"],
    berth: "False",
    reason: "a finished pod has no network; whether the kubelet's status shows that depends on its last sync",
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
    pod: /^pull-/,
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
  ...[
    /^event Warning Unhealthy\b.* errored and resulted in unknown state: (?!.*no\/such\/command)/,
    // The command dies with its container and leaves no output.
    /^event Warning Unhealthy\b.*: (Readiness|Liveness) probe failed: $/,
  ].map((field) => ({
    pod: /ready-by-(exec|delay|no-command)$|^liveness-(fails-once|ends-it)$/,
    field,
    kubelet: [/^×\d\d?$/, undefined],
    berth: ["×1", undefined],
    reason: "the container may be stopped during a probe, and the kubelet then repeats the probe",
  })),
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
