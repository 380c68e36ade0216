import { plays } from "./cases/all.ts";
import { hasEnded } from "./cases/pod-case.ts";
import type { Entry, Lists } from "./compare.ts";
import { ORDER } from "./comparison-rows.ts";

const fewTimes = /^×[1-9]$/;
const crashing = /-loop$|-crashes$/;
const TERMINATED = String.raw`terminated\.(exitCode|reason|startedAt|finishedAt|containerID)$`;

const looksAgain =
  "the kubelet tells it at each of its looks while nothing changes, and Berth when it happens (decisions 6 and 7)";
/** These are told once by Berth. */
const toldOnce: readonly (readonly [pod: RegExp, event: RegExp])[] = [
  [/^deadline/, /^event Normal DeadlineExceeded\b/],
  [/^(init-)?image-(name-invalid|never-there)$/, /^event Warning (InspectFailed|ErrImageNeverPull|Failed)\b/],
  [/^root-(against-the-rule|by-number|by-name)$/, /^event (Normal Pulled|Warning Failed)\b/],
  [/^dns-too-many$/, /^event Warning DNSConfigForming\b/],
  [/^pull-secret-missing$/, /^event Warning FailedToRetrieveImagePullSecret\b/],
];

const takenAway =
  "the mirror of a static pod that is taken away shows how the pod has ended before it goes; the kubelet's goes at once";
const mirror = (field: string, kubelet: string | undefined, berth: string | undefined): Entry => ({
  pod: "static",
  field: `gone ${field}`,
  ...(kubelet === undefined ? {} : { kubelet }),
  ...(berth === undefined ? {} : { berth }),
  reason: takenAway,
});
const unready = ["Ready", "ContainersReady"].flatMap((type) => [
  mirror(`conditions[${type}].status`, "True", "False"),
  mirror(`conditions[${type}].reason`, undefined, "ContainersNotReady"),
  mirror(`conditions[${type}].message`, undefined, "containers with unready status: [main]"),
]);
const main = "containerStatuses[main]";

const showsWait =
  "that a container waits for its restart is shown while it waits; the kubelet shows it at its next look, when the wait is over";

const saysWhy =
  "a container whose probe has failed is said to be stopped for that; the kubelet does not say it where the whole pod ends with it";

const saysPort =
  "a port that the container does not have is called by its name; the kubelet tells how its parser failed";

const isNotTriedAgain =
  "an ephemeral container that could not be started has ended, since nobody starts it again; the kubelet shows it as waiting";

const deliberate: readonly Entry[] = [
  ...toldOnce.map(([pod, field]) => ({ pod, field, kubelet: fewTimes, berth: "×1", reason: looksAgain })),
  {
    pod: /^(secret|key|config-map)-missing$|^environment-(from-no-|of-a-file-without)/,
    field: /^event (Normal Pulled|Warning Failed)\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    reason: looksAgain,
  },
  {
    pod: crashing,
    field: new RegExp(String.raw`^(settled|later) \w+Statuses\[\w+\]\.state\.${TERMINATED}`),
    kubelet: /./,
    reason: showsWait,
  },
  {
    pod: crashing,
    field: /^(settled|later) \w+Statuses\[\w+\]\.state\.waiting\.(reason|message)$/,
    berth: /^(CrashLoopBackOff$|back-off [12]0s restarting failed container=)/,
    reason: showsWait,
  },
  {
    pod: crashing,
    field: new RegExp(String.raw`^gone \w+Statuses\[\w+\]\.lastState\.${TERMINATED}`),
    kubelet: /./,
    reason:
      "of the instances that have ended one is kept, at once; the kubelet removes the others when a minute has passed",
  },
  {
    pod: /^deadline/,
    field: ORDER,
    kubelet: / DeadlineExceeded: .*\nevent Normal Killing [^\n]*$/,
    berth: / Killing .*\nevent Normal DeadlineExceeded: [^\n]*$/,
    reason: "that a pod has run too long is told when its status says so, which is when its containers have stopped",
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
    reason: saysWhy,
  },
  {
    pod: ["startup-fails", "liveness-ends-it"],
    field: /^event Normal Killing spec.containers\{main\}: Container main failed (startup|liveness) probe$/,
    berth: "×1",
    reason: saysWhy,
  },
  {
    pod: "debugged-in-vain",
    field: /^(later|gone) ephemeralContainerStatuses\[look\]\.(state\.waiting|lastState\.terminated)\./,
    kubelet: /./,
    reason: isNotTriedAgain,
  },
  {
    pod: "debugged-in-vain",
    field: /^later ephemeralContainerStatuses\[look\]\.state\.terminated\./,
    berth: /./,
    reason: isNotTriedAgain,
  },
  {
    pod: "unready-by-name",
    field: /^event Warning Unhealthy\b.*: strconv\.Atoi: parsing "none": invalid syntax$/,
    kubelet: fewTimes,
    reason: saysPort,
  },
  {
    pod: "unready-by-name",
    field: /^event Warning Unhealthy\b.*: container main has no port "none"$/,
    berth: fewTimes,
    reason: saysPort,
  },
  {
    pod: /^host-path-no-|unknown-handler$|-too-long-a-domain$|^users-of-its-own$/,
    field: `settled ${main}.state.waiting.message`,
    berth: /^(MountVolume\.SetUp failed|Failed to create pod sandbox)/,
    reason: "a container that waits says for what",
  },
  {
    pod: /^host-path-no-/,
    field: /^event Warning FailedMount: .* is not a (directory|file|socket file|block device)$/,
    kubelet: fewTimes,
    reason: "what is there instead is said behind the kubelet's words",
  },
  {
    pod: /^host-path-no-/,
    field: /^event Warning FailedMount: .* is not a (directory|file|socket file|block device): it (is|does) /,
    berth: /^×[1-3]$/,
    reason: "what is there instead is said behind the kubelet's words",
  },
  {
    pod: /^(out-of-memory|environment-of-resources|burstable|guaranteed|limit-of-cpu|request-of-memory|little-of-a-cpu|runtime-class)$/,
    field: /^(settled|gone) (allocatedResources|resources\.(limits|requests))\.(cpu|memory)$/,
    kubelet: /./,
    reason: "resources of a pod as a whole (beta) come with their resize",
  },
];

const ended = plays.filter(({ until }) => until === hasEnded).map(({ name }) => name);

const endsTwice =
  "the kubelet says that the pod has failed before or after its container has ended; when it goes both have";

const untilDeleted = "it is told again and again until the pod is deleted, and how often depends on when it is";

const momentary: readonly Entry[] = [
  {
    // A run of the kubelet may show the second wait when it is over, which it calls by the next one's name.
    pod: crashing,
    field: /^later \w+Statuses\[\w+\]\.state\.waiting\.message$/,
    kubelet: [/^back-off 40s restarting failed container=/, undefined],
    berth: /^back-off 20s restarting failed container=/,
    reason: showsWait,
  },
  {
    pod: /^post-start-(by-http-fails|without-command|fails)$/,
    field: /^(settled|gone) containerStatuses\[main\]\.state\.terminated\.exitCode$/,
    // With 2 ends what runs ahead of its command, runc's own process, on SIGTERM.
    kubelet: ["143", "137", "2"],
    berth: ["143", "137", "2"],
    reason: "a hook that fails at once ends its container before that may have set up a handler for SIGTERM, or begun",
  },
  {
    // Whether its network is gone by then depends on the moment, on either side.
    pod: /^static(-crash-loop)?$/,
    field: "gone conditions[PodReadyToStartContainers].status",
    kubelet: ["True", "False"],
    berth: ["True", "False"],
    reason: takenAway,
  },
  {
    pod: "static-crash-loop",
    field: `gone ${main}.state.waiting.reason`,
    kubelet: ["CrashLoopBackOff", undefined],
    reason: takenAway,
  },
  {
    pod: "static-crash-loop",
    field: `gone ${main}.state.waiting.message`,
    kubelet: [/^back-off 20s restarting failed container=/, undefined],
    reason: takenAway,
  },
  {
    pod: "static-crash-loop",
    field: new RegExp(String.raw`^gone containerStatuses\[main\]\.state\.${TERMINATED}`),
    kubelet: [/./, undefined],
    berth: /^(1|Error|TIME|containerd:\/\/ID)$/,
    reason: takenAway,
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
    reason: "a pod that has ended has no network any more; whether the kubelet says so depends on when it looked last",
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
    reason: "its server may not listen yet when it is asked first, or no more when it is asked last",
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
    // The command ends with its container, without a word.
    /^event Warning Unhealthy\b.*: (Readiness|Liveness) probe failed: $/,
  ].map((field) => ({
    pod: /ready-by-(exec|delay|no-command)$|^liveness-(fails-once|ends-it)$/,
    field,
    kubelet: [/^×\d\d?$/, undefined],
    berth: ["×1", undefined],
    reason: "its container may be stopped while it is asked, and the kubelet asks again and again then",
  })),
  {
    pod: /-unknown-handler$|-too-long-a-domain$|^users-of-its-own$/,
    field: /^event Warning FailedCreatePodSandBox\b/,
    kubelet: fewTimes,
    berth: fewTimes,
    within: 2,
    reason: untilDeleted,
  },
];

/** In what runs need not be the same, and why. A deliberate entry that nothing is found for any more fails the suite. */
export const lists: Lists = { deliberate, momentary };
