import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { ContainerStatus, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { formatGoDuration } from "../go-duration.ts";
import type { Action } from "../pod/action.ts";
import type { Taken } from "../pod/action-call.ts";
import { eventsAtBegin, eventsAtEnd, eventsOfStatus, longPullEvent, type PodEvent } from "./pod-events.ts";

const uid = "u" as PodUid;
const why = "because";
const pod: Pod = {
  metadata: { uid, name: "web", namespace: "shop" },
  spec: {
    containers: [
      { name: "a", image: "busybox", imagePullPolicy: "IfNotPresent" },
      { name: "b", image: "nginx:1", imagePullPolicy: "Always" },
      { name: "c", image: "nginx:1", imagePullPolicy: "IfNotPresent" },
    ],
  },
};
const create = (name: string, image: string): Action => ({
  kind: "createContainer",
  name,
  attempt: 0,
  sandboxId: "s" as SandboxId,
  podIPs: [],
  image,
  imageRef: "r",
  crashes: 0,
  why,
});
const pull: Action = { kind: "pullImage", image: "busybox:latest", why };
const start: Action = { kind: "startContainer", name: "a", id: "c0ffee" as ContainerId, attempt: 0 };
const stop = (reason: string, event?: string): Action => ({
  kind: "stopContainer",
  name: "a",
  id: "c0ffee" as ContainerId,
  gracePeriodSeconds: 30,
  why: reason,
  ...(event === undefined ? {} : { event }),
});
const sandbox = (attempt: number): Action => ({ kind: "runSandbox", attempt, crashes: 0, why });
const stopSandbox: Action = { kind: "stopSandbox", id: "s" as SandboxId, why };

const show = (events: readonly PodEvent[]) =>
  events.map(({ type, reason, message, container = "-" }) => `${type} ${reason} ${container} ${message}`);
const begin = (action: Action, pulled: readonly string[] = [], of: Pod | undefined = pod) =>
  show(eventsAtBegin({ action }, { pod: of, pulled: new Set(pulled), isAccessVerified: true }));
const end = (action: Action, result: Taken["result"] = { ok: true }, sizeBytes?: number, of: Pod | undefined = pod) => {
  const taken: Taken = { uid, pod: "shop/web", action, startedAt: 0, beganAt: 1000, endedAt: 3500, result };
  return show(eventsAtEnd(taken, { pod: of }, sizeBytes));
};
const failed = (message: string, reason = "Reason", isOutage = false) =>
  ({ ok: false, reason, message, isOutage }) as const;

const rows: readonly [name: string, events: readonly string[], says: readonly string[]][] = [
  ["a pull that begins", begin(pull), ['Normal Pulling a Pulling image "busybox"']],
  [
    "a pull that takes long",
    show([longPullEvent(pod, "busybox:latest", 300_000)]),
    ['Normal Pulling a Still pulling image "busybox" after 5m0s'],
  ],
  [
    "a pull that has ended tells how long it took, and how large the image is",
    end(pull, { ok: true }, 1234),
    ['Normal Pulled a Successfully pulled image "busybox" in 2.5s (3.5s including waiting). Image size: 1234 bytes.'],
  ],
  [
    "where nobody knows how large it is, nothing is said of that",
    end(pull),
    ['Normal Pulled a Successfully pulled image "busybox" in 2.5s (3.5s including waiting).'],
  ],
  [
    "a pull that failed",
    end(pull, failed("no such image", "ErrImagePull")),
    ['Warning Failed a Failed to pull image "busybox": no such image', "Warning Failed a Error: ErrImagePull"],
  ],
  [
    "an image that was there",
    begin(create("a", "busybox:latest")),
    ['Normal Pulled a Container image "busybox" already present on machine and can be accessed by the pod'],
  ],
  ["an image that was pulled for it is not told twice", begin(create("a", "busybox:latest"), ["busybox:latest"]), []],
  ["one that is always asked for was not simply there", begin(create("b", "nginx:1")), []],
  ["a container that was made", end(create("a", "busybox:latest")), ["Normal Created a Container created"]],
  ["a container that was started", end(start), ["Normal Started a Container started"]],
  ["a container that cannot be made", end(create("a", "i"), failed("no")), ["Warning Failed a Error: no"]],
  [
    "a container that cannot be started is called by its name, not by its id",
    end(start, failed("task c0ffee must be created: c0ffee")),
    ["Warning Failed a Error: task a must be created: a"],
  ],
  ["a container that is stopped", begin(stop("its manifest is gone")), ["Normal Killing a Stopping container a"]],
  [
    "a container whose image is another one now",
    begin(stop("container a definition changed", "Container a definition changed, will be restarted")),
    ["Normal Killing a Container a definition changed, will be restarted"],
  ],
  [
    "a container of a pod that nobody wants",
    begin(stop(why), [], undefined),
    ["Normal Killing a Stopping container a"],
  ],
  ["a first sandbox is no news", [...begin(sandbox(0)), ...end(sandbox(0))], []],
  [
    "a second one is",
    begin(sandbox(1)),
    ["Normal SandboxChanged - Pod sandbox changed, it will be killed and re-created."],
  ],
  [
    "one that is to be replaced is told of before what is stopped for that",
    begin({ ...stop(why), isForSandbox: true } as Action),
    [
      "Normal SandboxChanged - Pod sandbox changed, it will be killed and re-created.",
      "Normal Killing a Stopping container a",
    ],
  ],
  [
    "a sandbox that cannot be made",
    end(sandbox(0), failed("Failed to create pod sandbox: no network")),
    ["Warning FailedCreatePodSandBox - Failed to create pod sandbox: no network"],
  ],
  [
    "volumes that cannot be prepared",
    end({ kind: "prepareVolumes" }, failed("no such path")),
    ["Warning FailedMount - no such path"],
  ],
  [
    "a sandbox that cannot be stopped",
    end(stopSandbox, failed('rpc error: code = Unknown desc = "s" is stuck', "KillPodSandboxError")),
    [
      'Warning FailedKillPod - error killing pod: failed to "KillPodSandbox" for "u" with KillPodSandboxError: "rpc error: code = Unknown desc = \\"s\\" is stuck"',
    ],
  ],
  [
    "a container that cannot be stopped",
    end(stop(why), failed("stuck", "KillContainerError")),
    ['Warning FailedKillPod - error killing pod: failed to "KillContainer" for "a" with KillContainerError: "stuck"'],
  ],
  [
    "a hook that was asked for over HTTPS, and heard in plain HTTP",
    end(
      { kind: "runHook", name: "a", id: "c0ffee" as ContainerId, attempt: 0 },
      { ok: true, askedInPlainText: "10.0.0.5:80" },
    ),
    [
      "Warning LifecycleHTTPFallback - request to HTTPS lifecycle hook 10.0.0.5:80 got HTTP response, retry with HTTP succeeded",
    ],
  ],
  [
    "so with the hook before a stop",
    end(stop(why), { ok: true, askedInPlainText: "10.0.0.5:80" }),
    [
      "Warning LifecycleHTTPFallback - request to HTTPS lifecycle hook 10.0.0.5:80 got HTTP response, retry with HTTP succeeded",
    ],
  ],
  ["what was given up is no news", end(pull, "given up"), []],
  ["what fails because the runtime is away is no news", end(sandbox(0), failed("away", "x", true)), []],
];
for (const [name, events, says] of rows)
  test(name, () => {
    expect(events).toEqual([...says]);
  });

const waits = (reason: string | undefined, message = "", restartCount = 1): PodStatus => {
  const a: ContainerStatus = {
    name: "a",
    image: "busybox",
    imageID: "",
    ready: false,
    restartCount,
    state: reason === undefined ? { running: {} } : { waiting: { reason, message } },
  };
  return { phase: "Pending", containerStatuses: [a] };
};
const becomes = (before: PodStatus | undefined, after: PodStatus) => show(eventsOfStatus(pod, before, after));
const crash = waits("CrashLoopBackOff", "back-off 10s");
const backOff = ["Warning BackOff a Back-off restarting failed container a in pod web_shop(u)"];
const news: readonly [name: string, events: readonly string[], says: readonly string[]][] = [
  ["a crash loop is told when it begins to wait", becomes(waits(undefined), crash), backOff],
  ["and not while it waits", becomes(crash, waits("CrashLoopBackOff", "still")), []],
  ["and again after the next crash", becomes(crash, waits("CrashLoopBackOff", "", 2)), backOff],
  ["and by a new agent", becomes(undefined, crash), backOff],
  [
    "a pull that waits",
    becomes(waits("ErrImagePull"), waits("ImagePullBackOff")),
    ['Normal BackOff a Back-off pulling image "busybox"', "Warning Failed a Error: ImagePullBackOff"],
  ],
  [
    "an image that must not be pulled",
    becomes(undefined, waits("ErrImageNeverPull", "it is not there")),
    ["Warning ErrImageNeverPull a it is not there", "Warning Failed a Error: ErrImageNeverPull"],
  ],
  [
    "an image whose name is none",
    becomes(undefined, waits("InvalidImageName", "bad name")),
    ["Warning InspectFailed a bad name", "Warning Failed a Error: InvalidImageName"],
  ],
  [
    "a pod that was rejected",
    becomes(
      { phase: "Pending" },
      { phase: "Failed", reason: "PodFeatureUnsupported", message: "Pod was rejected: no" },
    ),
    ["Warning PodFeatureUnsupported - no"],
  ],
  [
    "a pod that has run too long",
    becomes({ phase: "Running" }, { phase: "Failed", reason: "DeadlineExceeded", message: "too long" }),
    ["Normal DeadlineExceeded - too long"],
  ],
  [
    "and not again",
    becomes({ phase: "Failed" }, { phase: "Failed", reason: "DeadlineExceeded", message: "too long" }),
    [],
  ],
  ["a pod that has failed by itself tells nothing", becomes({ phase: "Running" }, { phase: "Failed" }), []],
];
for (const [name, events, says] of news)
  test(name, () => {
    expect(events).toEqual([...says]);
  });

const durations: readonly [ms: number, text: string][] = [
  [0, "0s"],
  [345, "345ms"],
  [1500, "1.5s"],
  [59_999, "59.999s"],
  [130_250, "2m10.25s"],
  [3_605_000, "1h0m5s"],
  [-5, "0s"],
];
for (const [ms, text] of durations)
  test(`${ms} ms is ${text}`, () => {
    expect(formatGoDuration(ms)).toBe(text);
  });
