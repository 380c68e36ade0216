import type { KnownDifference, KnownDifferences } from "./compare.ts";
import { mountFailures } from "./mount-failures.ts";
import { inOneRun, ofLiveKubelets } from "./rare-differences.ts";
import {
  backOffOf,
  canceledProbe,
  fewTimes,
  main,
  manifestRemoved,
  probesDuringStop,
  refusedSubPaths,
  showsBackOff,
  stopsDuringProbe,
  timingDependent,
  withoutNetwork,
} from "./timing-dependent-differences.ts";

/** The pods whose container exits again and again, with its status and the exit codes of its first three instances. */
const exitLoops: readonly {
  readonly pod: readonly string[];
  readonly container: string;
  readonly statuses: "containerStatuses" | "initContainerStatuses";
  readonly exitCodes: readonly [string, string, string];
}[] = [
  {
    pod: ["crash-loop", "failure-loop", "static-crash-loop"],
    container: "main",
    statuses: "containerStatuses",
    exitCodes: ["11", "12", "13"],
  },
  {
    pod: ["success-loop", "rule-for-success-loop"],
    container: "main",
    statuses: "containerStatuses",
    exitCodes: ["0", "0", "0"],
  },
  { pod: ["one-of-two-crashes"], container: "other", statuses: "containerStatuses", exitCodes: ["11", "12", "13"] },
  { pod: ["sidecar-crashes"], container: "side", statuses: "initContainerStatuses", exitCodes: ["11", "12", "13"] },
  { pod: ["init-loop"], container: "first", statuses: "initContainerStatuses", exitCodes: ["11", "12", "13"] },
];
const instanceOf = (container: string, instance: number) => `containerd://INSTANCE ${instance} OF ${container}`;
/**
 * The second instance has ended in `settled`, the third one in `later`. The kubelet shows the end, Berth the wait. The
 * instance that has ended before the wait is the last one of Berth, and the present one of the kubelet. At its end a pod
 * shows the instance before the last one on all sides, as long as Berth has not removed that instance.
 */
const waitsOfLoops = exitLoops.flatMap(({ pod, container, statuses, exitCodes }): readonly KnownDifference[] => {
  const status = `${statuses}[${container}]`;
  const doCodesDiffer = new Set(exitCodes).size > 1;
  const last = (
    snapshot: string,
    instance: 0 | 1,
    isLater: Pick<KnownDifference, "mayAgree">,
  ): readonly KnownDifference[] => [
    {
      pod,
      field: `${snapshot} ${status}.lastState.terminated.containerID`,
      kubelet: instanceOf(container, instance),
      berth: instanceOf(container, instance + 1),
      ...isLater,
      reason: showsBackOff,
    },
    ...(doCodesDiffer
      ? [
          {
            pod,
            field: `${snapshot} ${status}.lastState.terminated.exitCode`,
            kubelet: exitCodes[instance],
            berth: exitCodes[instance === 0 ? 1 : 2],
            ...isLater,
            reason: showsBackOff,
          },
        ]
      : []),
  ];
  const waits = ([snapshot, instance, seconds]: readonly ["settled" | "later", 1 | 2, number]) => {
    const end = {
      startedAt: "TIME",
      finishedAt: "TIME",
      containerID: instanceOf(container, instance),
      exitCode: exitCodes[instance],
      reason: exitCodes[instance] === "0" ? "Completed" : "Error",
    };
    const wait = { reason: "CrashLoopBackOff", message: backOffOf(seconds) };
    return [
      ...Object.entries(end).map(([field, kubelet]) => ({
        pod,
        field: `${snapshot} ${status}.state.terminated.${field}`,
        kubelet,
        reason: showsBackOff,
      })),
      ...Object.entries(wait).map(([field, berth]) => ({
        pod,
        field: `${snapshot} ${status}.state.waiting.${field}`,
        berth,
        reason: showsBackOff,
      })),
      ...last(snapshot, instance === 1 ? 0 : 1, {}),
    ];
  };
  const snapshots = [
    ["settled", 1, 10],
    ["later", 2, 20],
  ] as const;
  return [...snapshots.flatMap(waits), ...last("gone", 1, { mayAgree: true })];
});

const repeatedBySync =
  "the kubelet repeats the event at each sync while nothing changes, Berth only when it happens (decisions 6 and 7)";
/** Events that Berth reports once. */
const reportedOnce: readonly (readonly [pod: RegExp, event: RegExp])[] = [
  [/deadline/, /^event Normal DeadlineExceeded\b/],
  [/^(init-)?image-(name-invalid|(volume-)?never-there)$/, /^event Warning (InspectFailed|ErrImageNeverPull|Failed)\b/],
  [/^root-(with-run-as-non-root|by-number|by-name)$/, /^event (Normal Pulled|Warning Failed)\b/],
  [/^dns-too-many$/, /^event Warning DNSConfigForming\b/],
  [/^pull-secret-missing$/, /^event Warning FailedToRetrieveImagePullSecret\b/],
];

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

const showsPullBackOff =
  "ImagePullBackOff is shown during the first back-off; the kubelet shows it at its next sync, after another pull";

const hasItsExit =
  "a container that waits for its restart when its pod ends has its last exit; the kubelet reports it as unknown";

const namesProbe =
  "the event names the failed probe; the kubelet omits the event where the whole pod ends with the container";

const probeError =
  "event Warning Unhealthy spec.containers{main}: Readiness probe errored and resulted in unknown state: ";
const namesPort = "the message names the port that the container lacks; the kubelet reports the error of its parser";

const isNotRetried =
  "an ephemeral container that cannot start is terminated, because it is never retried; the kubelet shows it as waiting";

const keepsNodeToItself =
  "the message is the same for every path that a subPath may not lead to; the kubelet's shows which of them exist";

/**
 * Berth tries a container again 1 s and 2 s later, and then 4 s later. The pod is deleted once its last container has failed,
 * mostly before the first container's fourth try. On a busy machine the pod may be deleted after the fourth try.
 */
const triesOfSubPath = ["×1", "×2", "×3", "×4"];

/** The containers whose subPath the kubelet tries to create before it finds where it leads. */
const createdSubPaths = [
  ["sub-paths-that-leave-the-volume", ["absolute", "up-missing"]],
  ["sub-paths-that-lead-nowhere", ["main", "dangling-below", "dangling-outside"]],
] as const;
const wordsOfSubPaths = createdSubPaths.flatMap(([pod, containers]) =>
  containers.flatMap((container): readonly KnownDifference[] => {
    const failed = (what: string) => `failed to ${what} for volumeMount "data" of container "${container}"`;
    const [ofKubelet, ofBerth] = [failed("create subPath directory"), failed("prepare subPath")];
    const event = (error: string) => `event Warning Failed spec.containers{${container}}: Error: ${error}`;
    const waiting = `settled containerStatuses[${container}].state.waiting.message`;
    return [
      { pod, field: event(ofKubelet), kubelet: "×2", reason: keepsNodeToItself },
      { pod, field: event(ofBerth), berth: triesOfSubPath, reason: keepsNodeToItself },
      { pod, field: waiting, kubelet: ofKubelet, berth: ofBerth, reason: keepsNodeToItself },
    ];
  }),
);

/** The amounts that a kubelet with pod cgroups reads from there. */
const amountsOfPodCgroups: readonly {
  readonly pod: string | readonly string[];
  readonly requests_cpu?: string;
  readonly limits_cpu?: string;
  readonly limits_memory?: string;
}[] = [
  {
    pod: ["burstable", "environment-of-resources", "downward-volume-of-resources"],
    requests_cpu: "25m",
    limits_cpu: "250m",
    limits_memory: "48Mi",
  },
  { pod: "guaranteed", requests_cpu: "250m", limits_cpu: "250m", limits_memory: "48Mi" },
  { pod: "limit-of-cpu", requests_cpu: "1", limits_cpu: "1" },
  { pod: "cpu-below-minimum", requests_cpu: "1m", limits_cpu: "2m" },
  { pod: "out-of-memory", limits_memory: "16Mi" },
  { pod: "empty-dirs-of-two-containers", limits_memory: "32Mi" },
  { pod: "runtime-class", requests_cpu: "10m" },
  { pod: "resources-of-a-pod", requests_cpu: "60m", limits_cpu: "250m", limits_memory: "56Mi" },
];

const cannotStart =
  'failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: exec: "/no/such/command": stat /no/such/command: no such file or directory: unknown';
/** The end of the ephemeral container that cannot start, by the fields of its `terminated`. */
const startError: Readonly<Record<string, string>> = {
  containerID: "containerd://INSTANCE 0 OF debugger",
  exitCode: "128",
  finishedAt: "TIME",
  message: cannotStart,
  reason: "StartError",
  startedAt: "ZERO TIME",
};
const debuggerField = "ephemeralContainerStatuses[debugger]";

const deliberate: readonly KnownDifference[] = [
  ...reportedOnce.map(([pod, field]) => ({ pod, field, kubelet: fewTimes, berth: "×1", reason: repeatedBySync })),
  {
    pod: /^(secret|key|config-map|seccomp)-missing$|^image-volume-refused$|^environment-(from-no-|from-file-missing)/,
    field: /^event (Normal Pulled|Warning Failed)\b/,
    kubelet: "×2",
    berth: "×1",
    reason: repeatedBySync,
  },
  {
    pod: refusedSubPaths,
    field: /^event (Normal Pulled|Warning Failed)\b/,
    kubelet: "×2",
    berth: ["×1", "×3"],
    mayAgree: true,
    reason: "the kubelet repeats the event at its next sync, Berth at its next try",
  },
  ...wordsOfSubPaths,
  ...(
    [
      [/^pull-(refused|not-found|latest|digest|without-credentials|with-wrong-credentials)$/, "×2"],
      ["debug-image-refused", "×3"],
    ] as const
  ).map(([pod, kubelet]) => ({
    pod,
    field: /^event (Normal Pulling|Warning Failed)\b/,
    kubelet,
    berth: "×1",
    reason: showsPullBackOff,
  })),
  ...waitsOfLoops,
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
    berth: ["12", "Error", "TIME", undefined],
    reason: hasItsExit,
  },
  {
    pod: "sidecar-in-back-off-at-the-end",
    field: /^(settled|gone) initContainerStatuses\[side\]\.state\.terminated\.containerID$/,
    berth: "containerd://INSTANCE 1 OF side",
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
  ...(
    [
      ["startup-fails", "startup"],
      ["liveness-ends-it", "liveness"],
    ] as const
  ).map(([pod, probe]) => ({
    pod,
    field: `event Normal Killing spec.containers{main}: Container main failed ${probe} probe`,
    berth: "×1",
    reason: namesProbe,
  })),
  ...Object.entries(startError).flatMap(([field, value]) => [
    ...["later", "gone"].map((snapshot) => ({
      pod: "debug-command-missing",
      field: `${snapshot} ${debuggerField}.lastState.terminated.${field}`,
      kubelet: value,
      reason: isNotRetried,
    })),
    {
      pod: "debug-command-missing",
      field: `later ${debuggerField}.state.terminated.${field}`,
      berth: value,
      reason: isNotRetried,
    },
  ]),
  {
    pod: "debug-command-missing",
    field: `later ${debuggerField}.state.waiting.reason`,
    kubelet: "RunContainerError",
    reason: isNotRetried,
  },
  {
    pod: "debug-command-missing",
    field: `later ${debuggerField}.state.waiting.message`,
    kubelet: cannotStart,
    reason: isNotRetried,
  },
  // The pod is deleted 2 s after its second probe, and ends at once; the third one is due 5 s after the second.
  {
    pod: "unready-by-name",
    field: `${probeError}strconv.Atoi: parsing "none": invalid syntax`,
    // The first two, and those during the stop.
    kubelet: ["×3", "×4", "×5"],
    reason: namesPort,
  },
  {
    pod: "unready-by-name",
    field: `${probeError}container main has no port "none"`,
    // On a busy machine the pod may end after the third one.
    berth: ["×2", "×3"],
    reason: namesPort,
  },
  ...mountFailures,
  {
    pod: ["token-of-a-group", "empty-dirs-of-a-group", "objects-of-a-group"],
    field: /^(settled|gone) inside main: mountinfo \//,
    kubelet: /^- r[ow],relatime tmpfs rw,size=NODE-MEMORY-K$/,
    berth: /^- r[ow],relatime tmpfs rw,size=NODE-MEMORY-K,mode=3777,gid=2345$/,
    examples: ["- rw,relatime tmpfs rw,size=NODE-MEMORY-K,mode=3777,gid=2345"],
    reason: "a tmpfs has its mode and group from the start; the kubelet changes them once it is mounted",
  },
  {
    pod: /^token-of-a-user/,
    field: /^(settled|gone) inside main: file \/var\/run\/secrets\/kubernetes\.io\/serviceaccount\/token$/,
    kubelet: /^lrwxrwxrwx 1234:(0|2345) \.\.data\/token$/,
    berth: /^lrwxrwxrwx 0:(0|2345) \.\.data\/token$/,
    reason:
      "links in a volume belong to root; the kubelet gives a token's link to the user, which permits nothing more",
  },
  {
    pod: "static-once",
    field: "settled conditions[PodReadyToStartContainers].status",
    kubelet: "True",
    berth: "False",
    reason: withoutNetwork,
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
    pod: ["ready-by-exec", "unready-by-exec", "unready-by-delay", "unready-by-no-command"],
    field: canceledProbe("Readiness"),
    kubelet: probesDuringStop,
    reason: stopsDuringProbe,
  },
];

/**
 * Known differences between runs, with their reasons. Each pod that a deliberate entry names has to show the difference, or
 * the suite fails.
 */
export const knownDifferences: KnownDifferences = { deliberate, timingDependent, inOneRun, ofLiveKubelets };
