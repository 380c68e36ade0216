import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { ContainerStatus, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { ImageUse } from "../container/image.ts";
import type { Action } from "../pod/action.ts";
import type { ActionFinished } from "../pod/action-call.ts";
import type { PodOutcome } from "../pod/memory.ts";
import type { PodEvent } from "./pod-event.ts";
import { eventsAtEnd, eventsAtStart, eventsOfStatusChange, longPullEvent, outcomeEvents } from "./pod-events.ts";

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
const stop = (reason: string, eventMessage?: string): Action => ({
  kind: "stopContainer",
  name: "a",
  id: "c0ffee" as ContainerId,
  gracePeriodSeconds: 30,
  why: reason,
  ...(eventMessage === undefined ? {} : { eventMessage }),
});
const sandbox = (attempt: number): Action => ({ kind: "runSandbox", attempt, crashes: 0, why });
const stopSandbox: Action = { kind: "stopSandbox", id: "s" as SandboxId, why };

const show = (events: readonly PodEvent[]) =>
  events.map(({ type, reason, message, container = "-" }) => `${type} ${reason} ${container} ${message}`);
const startEvents = (action: Action, pulled: readonly string[] = [], of: Pod | undefined = pod) =>
  show(eventsAtStart({ action }, { pod: of, pulledImages: new Set(pulled), isImageAccessVerified: true }));
const endEvents = (
  action: Action,
  result: ActionFinished["result"] = { ok: true },
  sizeBytes?: number,
  of: Pod | undefined = pod,
) => {
  const finished: ActionFinished = {
    uid,
    pod: "shop/web",
    action,
    startedAt: 0,
    dequeuedAt: 1000,
    endedAt: 3500,
    result,
  };
  return show(eventsAtEnd(finished, { pod: of }, sizeBytes));
};
const failed = (message: string, reason = "Reason", isOutage = false) =>
  ({ ok: false, reason, message, isOutage }) as const;

const rows: readonly [name: string, events: readonly string[], says: readonly string[]][] = [
  ["a pull that starts is recorded", startEvents(pull), ['Normal Pulling a Pulling image "busybox"']],
  [
    "a long pull is recorded while it runs",
    show([longPullEvent(pod, "busybox:latest", 300_000)]),
    ['Normal Pulling a Still pulling image "busybox" after 5m0s'],
  ],
  [
    "a finished pull is recorded with its duration and the image size",
    endEvents(pull, { ok: true }, 1234),
    ['Normal Pulled a Successfully pulled image "busybox" in 2.5s (3.5s including waiting). Image size: 1234 bytes.'],
  ],
  [
    "an unknown image size is left out",
    endEvents(pull),
    ['Normal Pulled a Successfully pulled image "busybox" in 2.5s (3.5s including waiting).'],
  ],
  [
    "a failed pull is recorded",
    endEvents(pull, failed("no such image", "ErrImagePull")),
    ['Warning Failed a Failed to pull image "busybox": no such image', "Warning Failed a Error: ErrImagePull"],
  ],
  [
    "an image that is already present is recorded",
    startEvents(create("a", "busybox:latest")),
    ['Normal Pulled a Container image "busybox" already present on machine and can be accessed by the pod'],
  ],
  [
    "an image that was just pulled is not recorded again",
    startEvents(create("a", "busybox:latest"), ["busybox:latest"]),
    [],
  ],
  ["an image with the policy Always is not recorded as present", startEvents(create("b", "nginx:1")), []],
  ["a created container is recorded", endEvents(create("a", "busybox:latest")), ["Normal Created a Container created"]],
  ["a started container is recorded", endEvents(start), ["Normal Started a Container started"]],
  ["a failed creation is recorded", endEvents(create("a", "i"), failed("no")), ["Warning Failed a Error: no"]],
  [
    "a failed start names the container, not its id",
    endEvents(start, failed("task c0ffee must be created: c0ffee")),
    ["Warning Failed a Error: task a must be created: a"],
  ],
  ["a stop is recorded", startEvents(stop("its manifest is gone")), ["Normal Killing a Stopping container a"]],
  [
    "a stop after an image change is recorded with its reason",
    startEvents(stop("container a definition changed", "Container a definition changed, will be restarted")),
    ["Normal Killing a Container a definition changed, will be restarted"],
  ],
  [
    "a stop of a pod without a source is recorded",
    startEvents(stop(why), [], undefined),
    ["Normal Killing a Stopping container a"],
  ],
  ["the first sandbox is not recorded", [...startEvents(sandbox(0)), ...endEvents(sandbox(0))], []],
  [
    "the second sandbox is recorded as a change",
    startEvents(sandbox(1)),
    ["Normal SandboxChanged - Pod sandbox changed, it will be killed and re-created."],
  ],
  [
    "a sandbox replacement is recorded before its stops",
    startEvents({ ...stop(why), isSandboxReplacement: true } as Action),
    [
      "Normal SandboxChanged - Pod sandbox changed, it will be killed and re-created.",
      "Normal Killing a Stopping container a",
    ],
  ],
  [
    "a failed sandbox is recorded",
    endEvents(sandbox(0), failed("Failed to create pod sandbox: no network")),
    ["Warning FailedCreatePodSandBox - Failed to create pod sandbox: no network"],
  ],
  [
    "failed volumes are recorded",
    endEvents({ kind: "makeResource", resource: { of: "volume", name: "v" } }, failed("no such path")),
    ["Warning FailedMount - no such path"],
  ],
  [
    "a failed stop of a sandbox is recorded",
    endEvents(stopSandbox, failed('rpc error: code = Unknown desc = "s" is stuck', "KillPodSandboxError")),
    [
      'Warning FailedKillPod - error killing pod: failed to "KillPodSandbox" for "u" with KillPodSandboxError: "rpc error: code = Unknown desc = \\"s\\" is stuck"',
    ],
  ],
  [
    "a failed stop of a container is recorded",
    endEvents(stop(why), failed("stuck", "KillContainerError")),
    ['Warning FailedKillPod - error killing pod: failed to "KillContainer" for "a" with KillContainerError: "stuck"'],
  ],
  [
    "an HTTPS postStart hook that was answered over HTTP is recorded",
    endEvents(
      { kind: "runPostStart", name: "a", id: "c0ffee" as ContainerId, attempt: 0 },
      { ok: true, plainHttpHost: "10.0.0.5:80" },
    ),
    [
      "Warning LifecycleHTTPFallback - request to HTTPS lifecycle hook 10.0.0.5:80 got HTTP response, retry with HTTP succeeded",
    ],
  ],
  [
    "an HTTPS preStop hook that was answered over HTTP is recorded",
    endEvents(stop(why), { ok: true, plainHttpHost: "10.0.0.5:80" }),
    [
      "Warning LifecycleHTTPFallback - request to HTTPS lifecycle hook 10.0.0.5:80 got HTTP response, retry with HTTP succeeded",
    ],
  ],
  ["a cancelled action is not recorded", endEvents(pull, "cancelled"), []],
  ["a failure because of an outage is not recorded", endEvents(sandbox(0), failed("away", "x", true)), []],
];
for (const [name, events, expected] of rows)
  test(name, () => {
    expect(events).toEqual([...expected]);
  });

const waitingStatus = (reason: string | undefined, message = "", restartCount = 1): PodStatus => {
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
const changeEvents = (before: PodStatus | undefined, after: PodStatus, unusable: readonly ImageUse[] = []) =>
  show(eventsOfStatusChange(pod, before, after, new Map(unusable.map((use) => [use.name, use]))));
const outcome = (how: Partial<PodOutcome>) => show(outcomeEvents({ phase: "Failed", at: 0, ...how }));
const crash = waitingStatus("CrashLoopBackOff", "back-off 10s");
const backOff = ["Warning BackOff a Back-off restarting failed container a in pod web_shop(u)"];
const waitingFor = (cause: string) => waitingStatus("ContainerCreating", `network is not ready: ${cause}`);
const [noFile, noBinary] = [waitingFor("/etc/cni/net.d has no network configuration"), waitingFor("bridge is missing")];
const statusRows: readonly [name: string, events: readonly string[], says: readonly string[]][] = [
  ["a crash loop is recorded when its back-off starts", changeEvents(waitingStatus(undefined), crash), backOff],
  [
    "a crash loop is not recorded during its back-off",
    changeEvents(crash, waitingStatus("CrashLoopBackOff", "still")),
    [],
  ],
  [
    "a crash loop is recorded again after the next crash",
    changeEvents(crash, waitingStatus("CrashLoopBackOff", "", 2)),
    backOff,
  ],
  ["a new agent records a crash loop again", changeEvents(undefined, crash), backOff],
  [
    "a pod that waits for the network says why",
    changeEvents(waitingStatus("ContainerCreating"), noFile),
    ["Warning NetworkNotReady - network is not ready: /etc/cni/net.d has no network configuration"],
  ],
  ["the same cause is not recorded again", changeEvents(noFile, noFile), []],
  [
    "another cause is recorded, since the event still names the old one",
    changeEvents(noFile, noBinary),
    ["Warning NetworkNotReady - network is not ready: bridge is missing"],
  ],
  ["a network that becomes ready is no event", changeEvents(noBinary, waitingStatus("ContainerCreating")), []],
  [
    "a pull back-off is recorded",
    changeEvents(waitingStatus("ErrImagePull"), waitingStatus("ImagePullBackOff")),
    ['Normal BackOff a Back-off pulling image "busybox"', "Warning Failed a Error: ImagePullBackOff"],
  ],
  [
    "a back-off of the image of a volume is recorded for the pod, whatever its message quotes",
    changeEvents(undefined, waitingStatus("ImagePullBackOff", 'of "busybox"'), [
      { name: "a", image: "models:1", volume: "v" },
    ]),
    ['Normal BackOff - Back-off pulling image "models:1"', "Warning Failed a Error: ImagePullBackOff"],
  ],
  [
    "a missing image with the policy Never is recorded",
    changeEvents(undefined, waitingStatus("ErrImageNeverPull", "it is not there")),
    ["Warning ErrImageNeverPull a it is not there", "Warning Failed a Error: ErrImageNeverPull"],
  ],
  [
    "an invalid image name is recorded",
    changeEvents(undefined, waitingStatus("InvalidImageName", "bad name")),
    ["Warning InspectFailed a bad name", "Warning Failed a Error: InvalidImageName"],
  ],
  [
    "a rejected pod is recorded",
    outcome({ reason: "PodFeatureUnsupported", message: "Pod was rejected: no", isRejection: true }),
    ["Warning PodFeatureUnsupported - no"],
  ],
  [
    "a passed deadline is recorded",
    outcome({ reason: "DeadlineExceeded", message: "too long" }),
    ["Normal DeadlineExceeded - too long"],
  ],
  ["a pod that failed without a reason is not recorded", outcome({}), []],
  ["a status with another reason is not recorded", outcome({ reason: "Evicted", message: "no memory" }), []],
];
for (const [name, events, expected] of statusRows)
  test(name, () => {
    expect(events).toEqual([...expected]);
  });
