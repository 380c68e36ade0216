import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { ContainerState, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { eventsOfStatus } from "../events/pod-events.ts";
import type { DesiredNow } from "../pod/desired.ts";
import { emptyMemory, type PodMemory } from "../pod/memory.ts";
import { type ExitedContainer, nothingObserved, type ObservedContainer, type ObservedPod } from "../pod/observed.ts";
import { decidePod } from "../pod/pod.ts";
import { unseenStatus } from "./status.ts";

const uid = "u" as PodUid;
const at = (time: string) => Date.parse(`2026-01-01T${time}Z`);
const settings = {
  maxContainerRestartPeriodMs: 300_000,
  runtimeName: "containerd",
  hostIPs: ["192.0.2.1", "2001:db8::1"],
};

const pod: Pod = {
  metadata: { uid, name: "web", namespace: "default" },
  spec: {
    restartPolicy: "Always",
    containers: [
      {
        name: "b",
        image: "busybox:1",
        resources: { requests: { cpu: "100m", memory: "64Mi" }, limits: { memory: "64Mi" } },
        volumeMounts: [{ name: "v", mountPath: "/v", readOnly: true }],
      },
      { name: "a", image: "busybox:1" },
    ],
    volumes: [{ name: "v", emptyDir: {} }],
  },
};
const desired: DesiredNow = { uid, pod, source: { kind: "file", path: "/m" }, acceptedAt: at("10:00:00"), revision: 0 };
const identity = (name: string, attempt: number) => ({
  id: `${name}${attempt}` as ContainerId,
  name,
  sandboxId: "s" as SandboxId,
  attempt,
  createdAt: at("10:00:03"),
  image: "docker.io/library/busybox:1",
  imageRef: "sha256:1",
  hash: undefined,
  crashes: attempt,
});
const observed: ObservedPod = {
  ...nothingObserved(uid, "default", "web"),
  hasFiles: true,
  sandboxes: [
    {
      id: "s" as SandboxId,
      attempt: 0,
      createdAt: at("10:00:02"),
      ready: true,
      // The network plugin's order, which is not the node's; the API takes one of each family.
      ips: ["fd00::2", "10.0.0.2", "fd00::3"],
      hostNetwork: false,
      crashes: 0,
    },
  ],
  containers: [
    { ...identity("a", 1), state: "running", startedAt: at("10:05:00") },
    { ...identity("b", 0), state: "running", startedAt: at("10:00:04") },
    {
      ...identity("a", 0),
      state: "exited",
      startedAt: at("10:00:04"),
      finishedAt: at("10:04:59"),
      exitCode: 137,
      reason: "OOMKilled",
      message: "",
    },
  ],
};
const decide = (seen: ObservedPod, memory: PodMemory, now: number) => decidePod(desired, seen, memory, settings, now);
const conditions = (status: PodStatus) =>
  (status.conditions ?? []).map(
    ({ type, status: value, reason, message, lastTransitionTime }) =>
      `${type} ${value} since ${lastTransitionTime?.slice(11, 19)}${reason === undefined ? "" : ` ${reason}`}${message === undefined ? "" : `: ${message}`}`,
  );

test("a status says everything that the node knows of a pod", () => {
  const { status } = decide(observed, emptyMemory, at("11:00:00"));
  expect(status).toMatchInlineSnapshot(`
    {
      "conditions": [
        {
          "lastTransitionTime": "2026-01-01T10:00:02Z",
          "status": "True",
          "type": "PodReadyToStartContainers",
        },
        {
          "lastTransitionTime": "2026-01-01T10:00:00Z",
          "status": "True",
          "type": "Initialized",
        },
        {
          "lastTransitionTime": "2026-01-01T10:05:00Z",
          "status": "True",
          "type": "Ready",
        },
        {
          "lastTransitionTime": "2026-01-01T10:05:00Z",
          "status": "True",
          "type": "ContainersReady",
        },
        {
          "lastTransitionTime": "2026-01-01T10:00:00Z",
          "status": "True",
          "type": "PodScheduled",
        },
      ],
      "containerStatuses": [
        {
          "containerID": "containerd://a1",
          "image": "docker.io/library/busybox:1",
          "imageID": "sha256:1",
          "lastState": {
            "terminated": {
              "containerID": "containerd://a0",
              "exitCode": 137,
              "finishedAt": "2026-01-01T10:04:59Z",
              "reason": "OOMKilled",
              "startedAt": "2026-01-01T10:00:04Z",
            },
          },
          "name": "a",
          "ready": true,
          "restartCount": 1,
          "started": true,
          "state": {
            "running": {
              "startedAt": "2026-01-01T10:05:00Z",
            },
          },
        },
        {
          "allocatedResources": {
            "cpu": "100m",
            "memory": "64Mi",
          },
          "containerID": "containerd://b0",
          "image": "docker.io/library/busybox:1",
          "imageID": "sha256:1",
          "name": "b",
          "ready": true,
          "resources": {
            "limits": {
              "memory": "64Mi",
            },
            "requests": {
              "cpu": "100m",
              "memory": "64Mi",
            },
          },
          "restartCount": 0,
          "started": true,
          "state": {
            "running": {
              "startedAt": "2026-01-01T10:00:04Z",
            },
          },
          "volumeMounts": [
            {
              "mountPath": "/v",
              "name": "v",
              "readOnly": true,
              "recursiveReadOnly": "Disabled",
            },
          ],
        },
      ],
      "hostIP": "192.0.2.1",
      "hostIPs": [
        {
          "ip": "192.0.2.1",
        },
        {
          "ip": "2001:db8::1",
        },
      ],
      "phase": "Running",
      "podIP": "10.0.0.2",
      "podIPs": [
        {
          "ip": "10.0.0.2",
        },
        {
          "ip": "fd00::2",
        },
      ],
      "qosClass": "Burstable",
      "startTime": "2026-01-01T10:00:00Z",
    }
  `);
});

test("a new agent tells since when the pod has been ready from what it sees", () => {
  expect(conditions(decide(observed, emptyMemory, at("11:00:00")).status)).toMatchInlineSnapshot(`
    [
      "PodReadyToStartContainers True since 10:00:02",
      "Initialized True since 10:00:00",
      "Ready True since 10:05:00",
      "ContainersReady True since 10:05:00",
      "PodScheduled True since 10:00:00",
    ]
  `);
});

test("conditions keep the time of their last change, and change it when they change", () => {
  const first = decide(observed, emptyMemory, at("11:00:00"));
  const down: ObservedPod = { ...observed, containers: observed.containers.filter(({ id }) => id !== "a1") };
  const second = decide(down, first.memory, at("11:10:00"));
  const third = decide(observed, second.memory, at("11:20:00"));
  expect(conditions(second.status)).toMatchInlineSnapshot(`
    [
      "PodReadyToStartContainers True since 10:00:02",
      "Initialized True since 10:00:00",
      "Ready False since 11:10:00 ContainersNotReady: containers with unready status: [a]",
      "ContainersReady False since 11:10:00 ContainersNotReady: containers with unready status: [a]",
      "PodScheduled True since 10:00:00",
    ]
  `);
  expect(conditions(third.status)).toMatchInlineSnapshot(`
    [
      "PodReadyToStartContainers True since 10:00:02",
      "Initialized True since 10:00:00",
      "Ready True since 11:20:00",
      "ContainersReady True since 11:20:00",
      "PodScheduled True since 10:00:00",
    ]
  `);
});

test("the last word on a pod that ends stays, whatever is removed of it", () => {
  const termination = { requestedAt: at("11:00:00"), gracePeriodSeconds: 30, why: "its manifest is gone" };
  const ending = { ...desired, termination };
  const ended: ObservedPod = {
    ...observed,
    containers: [
      {
        ...identity("a", 1),
        state: "exited",
        startedAt: 1,
        finishedAt: 2,
        exitCode: 0,
        reason: "Completed",
        message: "",
      },
      {
        ...identity("b", 0),
        state: "exited",
        startedAt: 1,
        finishedAt: 2,
        exitCode: 0,
        reason: "Completed",
        message: "",
      },
    ],
  };
  const first = decidePod(ending, ended, emptyMemory, settings, at("11:00:01"));
  const second = decidePod(ending, nothingObserved(uid, "default", "web"), first.memory, settings, at("11:00:02"));
  expect(first.status.phase).toBe("Running");
  expect(second.stage.kind).toBe("finished");
  expect(second.status).toEqual(first.status);
});

test("an image without a tag is told as it was written until the runtime has it", () => {
  const untagged: Pod = { ...pod, spec: { containers: [{ name: "a", image: "shop.test/app" }] } };
  const failure = { reason: "ErrImagePull", message: "no such host", at: 0, count: 1, isOutage: false };
  const failures = new Map([["image shop.test/app:latest", failure]]);
  const images = new Map([["shop.test/app:latest", { present: false }]] as const);
  const seen: ObservedPod = { ...observed, containers: [], images };
  const { status } = decidePod({ ...desired, pod: untagged }, seen, { ...emptyMemory, failures }, settings, 9_000);
  expect(status.containerStatuses?.[0]).toMatchObject({
    image: "shop.test/app",
    state: {
      waiting: {
        reason: "ImagePullBackOff",
        message: 'Back-off pulling image "shop.test/app": ErrImagePull: no such host',
      },
    },
  });
});

test("a pod that had to wait for its predecessor started when that was gone, and was accepted before", () => {
  const held = { ...desired, heldUntil: at("10:00:01") };
  const { status } = decidePod(held, observed, emptyMemory, settings, at("11:00:00"));
  expect(status.startTime).toBe("2026-01-01T10:00:01Z");
  expect(unseenStatus(held, "no answer").startTime).toBe("2026-01-01T10:00:01Z");
  expect(conditions(status)).toContain("PodScheduled True since 10:00:00");
});

test("of a pod that nobody could look at only that is said which needs no look", () => {
  expect(unseenStatus(desired, "no answer")).toEqual({
    phase: "Pending",
    message: "no answer",
    startTime: "2026-01-01T10:00:00Z",
    qosClass: "Burstable",
  });
});

test("between its creation and its start a first container is shown as it was before; one that does not start, by its id", () => {
  const one: DesiredNow = {
    ...desired,
    pod: { ...pod, spec: { ...pod.spec, containers: [{ name: "a", image: "busybox:1" }] } },
  };
  const shown = (containers: ObservedPod["containers"], memory = emptyMemory) => {
    const now = at("10:00:04");
    const { status } = decidePod(one, { ...observed, containers }, memory, settings, now);
    return status.containerStatuses?.[0];
  };
  const created = { ...identity("a", 0), state: "created" } as const;
  expect(shown([created])).toEqual(shown([]));
  const failure = {
    reason: "RunContainerError",
    message: "no such file",
    at: at("10:00:04"),
    count: 1,
    isOutage: false,
  };
  const failures = new Map([["container a", failure]]);
  expect(shown([created], { ...emptyMemory, failures })?.containerID).toBe("containerd://a0");
});

const ofApi: DesiredNow = {
  ...desired,
  source: { kind: "api" },
  termination: { requestedAt: at("11:00:00"), gracePeriodSeconds: 30, why: "it was deleted" },
};

test("a pod that is deleted before all of it has run has failed, and still says what it was waiting for", () => {
  const begun: ObservedPod = { ...observed, containers: observed.containers.filter(({ id }) => id === "a0") };
  const { status } = decidePod(ofApi, begun, emptyMemory, settings, at("11:00:01"));
  expect(status.phase).toBe("Failed");
  expect(conditions(status)).toContain(
    "Ready False since 10:04:59 ContainersNotReady: containers with unready status: [a b]",
  );
  expect(conditions(status)).toContain("PodReadyToStartContainers False since 10:00:00");
});

test("a pod that is deleted after all of it has run has failed, and its conditions say so", () => {
  const exit = {
    state: "exited",
    startedAt: 1,
    finishedAt: at("10:04:59"),
    exitCode: 1,
    reason: "",
    message: "",
  } as const;
  const containers = ["a", "b"].map((name) => ({ ...identity(name, 0), ...exit }));
  const { status } = decidePod(ofApi, { ...observed, containers }, emptyMemory, settings, at("11:00:01"));
  expect(conditions(status)).toContain("Ready False since 10:04:59 PodFailed");
});

test("a container that could not be started began in 1970, as the runtime tells it", () => {
  const exit = {
    state: "exited",
    startedAt: 0,
    finishedAt: at("10:00:05"),
    exitCode: 128,
    reason: "StartError",
    message: "",
  } as const;
  const never: DesiredNow = { ...desired, pod: { ...pod, spec: { ...pod.spec, restartPolicy: "Never" } } };
  const containers = ["a", "b"].map((name) => ({ ...identity(name, 0), ...exit }));
  const { status } = decidePod(never, { ...observed, containers }, emptyMemory, settings, at("11:00:00"));
  const [first] = status.containerStatuses ?? [];
  expect(first?.state?.terminated).toMatchObject({ reason: "StartError", startedAt: "1970-01-01T00:00:00Z" });
});

test("what a container has of the node is told of one that the runtime has, and not of one that is awaited or lost", () => {
  const shown = (containers: ObservedPod["containers"], loggedAttempts = new Map<string, number>()) => {
    const { status } = decide({ ...observed, containers, loggedAttempts }, emptyMemory, at("11:00:00"));
    const { resources, allocatedResources } = status.containerStatuses?.find(({ name }) => name === "b") ?? {};
    return { resources, allocatedResources };
  };
  const { resources } = pod.spec.containers[0] ?? {};
  const nothing = { resources: undefined, allocatedResources: undefined };
  expect(shown(observed.containers)).toEqual({ resources, allocatedResources: resources?.requests });
  expect(shown([])).toEqual(nothing);
  expect(shown([], new Map([["b", 0]]))).toEqual(nothing);
});

test("a change of resources waits for the next instance: what is told of this one stays, and a condition says so", () => {
  const now = at("11:00:00");
  const generations = (generation: number) => ({ ...pod.metadata, generation });
  const created = { ...desired, pod: { ...pod, metadata: generations(1) }, source: { kind: "api" } } as const;
  const before = decidePod(created, observed, emptyMemory, settings, at("10:30:00")).status;
  const [b, a] = pod.spec.containers;
  const asks = (cpu: string, status: PodStatus = before): DesiredNow => {
    const resources = { ...b!.resources, requests: { cpu, memory: "64Mi" } };
    return {
      ...created,
      pod: { ...pod, metadata: generations(2), spec: { ...pod.spec, containers: [{ ...b!, resources }, a!] }, status },
    };
  };
  const shown = (wanted: DesiredNow, seen = observed, memory: PodMemory = emptyMemory) => {
    const { status } = decidePod(wanted, seen, memory, settings, now);
    const told = status.containerStatuses?.find(({ name }) => name === "b");
    const events = eventsOfStatus(wanted.pod, wanted.pod.status, status).map(
      ({ reason, message }) => `${reason} ${message}`,
    );
    return {
      requested: [told?.allocatedResources?.["cpu"], told?.resources?.requests?.["cpu"]],
      pending: conditions(status).filter((line) => line.startsWith("PodResize")),
      events: events.filter((line) => line.startsWith("Resize")),
      status,
    };
  };
  const message =
    "This node does not resize containers in place: [b] keep what they were made with until they are made anew";
  const resized = shown(asks("4"));
  expect(resized).toMatchObject({
    requested: ["100m", "100m"],
    pending: [`PodResizePending True since 11:00:00 Infeasible: ${message}`],
    events: [
      `ResizeInfeasible Pod resize Infeasible: {"containers":[{"name":"b","resources":{"limits":{"memory":"64Mi"},"requests":{"cpu":"4","memory":"64Mi"}}},{"name":"a","resources":{}}],"generation":2,"error":"${message}"}`,
    ],
  });
  // Told once, also by an agent that has just begun.
  expect(shown(asks("4", resized.status))).toMatchObject({ pending: resized.pending, events: [] });
  // Another way of writing the same.
  expect(shown(asks("0.1"))).toMatchObject({ requested: ["100m", "100m"], pending: [], events: [] });
  // Taken back, or carried out by another instance.
  expect(shown(asks("100m", resized.status))).toMatchObject({ requested: ["100m", "100m"], pending: [], events: [] });
  const next = { ...identity("b", 1), state: "running", startedAt: at("10:59:00") } as const;
  const again = { ...observed, containers: [next, ...observed.containers.filter(({ name }) => name === "a")] };
  expect(shown(asks("4", resized.status), again)).toMatchObject({ requested: ["4", "4"], pending: [], events: [] });
});

test("an init container of which nothing is left has done its work, in the kubelet's words", () => {
  const spec = { ...pod.spec, initContainers: [{ name: "i", image: "busybox:1" }] };
  const { status } = decidePod({ ...desired, pod: { ...pod, spec } }, observed, emptyMemory, settings, at("11:00:00"));
  expect(status.initContainerStatuses?.[0]?.state?.terminated).toEqual({
    exitCode: 0,
    reason: "Completed",
    message:
      "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
  });
});

test("all messages of a pod fit into 12 KiB together, whatever they are written in", () => {
  const message = "☃".repeat(4096);
  const containers = ["a", "b"].map((name) => ({
    ...(observed.containers[2] as ExitedContainer),
    ...identity(name, 0),
    message,
  }));
  const never: DesiredNow = { ...desired, pod: { ...pod, spec: { ...pod.spec, restartPolicy: "Never" } } };
  const { status } = decidePod(never, { ...observed, containers }, emptyMemory, settings, at("11:00:00"));
  const messages = (status.containerStatuses ?? []).map(({ state }) => state?.terminated?.message ?? "");
  expect(messages.map((each) => Buffer.byteLength(each))).toEqual([6144, 6144]);
});

test("of an instance that is only created the end before it is told, and never an end of its own", () => {
  const created = { ...identity("a", 1), state: "created" } as const;
  const lastOf = (loggedAttempts: ReadonlyMap<string, number>, containers: readonly ObservedContainer[]) => {
    const { status } = decide({ ...observed, containers, loggedAttempts }, emptyMemory, at("11:00:01"));
    const { lastState, restartCount } = status.containerStatuses?.find(({ name }) => name === "a") ?? {};
    return { restartCount, last: lastState?.terminated?.reason };
  };
  const logged = new Map([["a", 1]]);
  expect(lastOf(logged, [created])).toEqual({ restartCount: 1, last: "ContainerStatusUnknown" });
  expect(lastOf(logged, [created, observed.containers[2]!])).toEqual({ restartCount: 1, last: "OOMKilled" });
  expect(lastOf(logged, [{ ...created, ...identity("a", 2) }])).toEqual({
    restartCount: 2,
    last: "ContainerStatusUnknown",
  });
  expect(lastOf(new Map([["a", 0]]), [{ ...created, ...identity("a", 0) }])).toEqual({
    restartCount: 0,
    last: undefined,
  });
});

test("a created instance that the API server was told of stays told after a restart of the agent", () => {
  const created = { ...identity("a", 0), state: "created" } as const;
  const idsAfter = (containerID: string | undefined) => {
    const waiting = { reason: "RunContainerError" };
    const before = { name: "a", state: { waiting }, ready: false, restartCount: 0, image: "", imageID: "" };
    const told = { ...before, ...(containerID === undefined ? {} : { containerID }) };
    const asked = { ...ofApi, pod: { ...ofApi.pod, status: { containerStatuses: [told] } } };
    const { status } = decidePod(asked, { ...observed, containers: [created] }, emptyMemory, settings, at("11:00:01"));
    return status.containerStatuses?.find(({ name }) => name === "a")?.containerID;
  };
  expect(idsAfter("containerd://a0")).toBe("containerd://a0");
  expect(idsAfter("containerd://other")).toBeUndefined();
  expect(idsAfter(undefined)).toBeUndefined();
});

test("the end of an earlier instance is told on when nothing is left of it", () => {
  const told = (state: ContainerState, last?: ContainerState): ContainerState | undefined => {
    const containerStatuses = [
      { name: "a", state, ...(last && { lastState: last }), ready: false, restartCount: 1, image: "", imageID: "" },
    ];
    const asked = { ...ofApi.pod, status: { containerStatuses } };
    const containers = observed.containers.filter(({ id }) => id === "a1");
    const { status } = decidePod(
      { ...desired, pod: asked },
      { ...observed, containers },
      emptyMemory,
      settings,
      at("11:00:01"),
    );
    return status.containerStatuses?.find(({ name }) => name === "a")?.lastState;
  };
  const [earlier, own] = ["a0", "a1"].map((id) => ({ terminated: { exitCode: 4, containerID: `containerd://${id}` } }));
  expect(told({ running: {} }, earlier)).toEqual(earlier!);
  expect(told(earlier!)).toEqual(earlier!);
  expect(told({ waiting: {} }, own)).toBeUndefined();
  expect(told({ terminated: { exitCode: 137 } })).toBeUndefined();
});

test("a pod that was initialized stays so, whatever becomes of its init containers; who begins anew believes the API server", () => {
  const initContainers = [{ name: "first", image: "busybox:1" }];
  const wanted: Pod = { ...pod, spec: { ...pod.spec, initContainers } };
  const initialized = (of: Pod, memory: PodMemory = emptyMemory) => {
    const nothing = { ...observed, containers: [] };
    const { status } = decidePod({ ...desired, pod: of }, nothing, memory, settings, at("10:00:09"));
    return status.conditions?.find(({ type }) => type === "Initialized")?.status;
  };
  const conditions = new Map([["Initialized", { status: "True", since: 0 }]]);
  const told = { conditions: [{ type: "Initialized", status: "True" as const }] };
  expect([initialized(wanted), initialized(wanted, { ...emptyMemory, conditions })]).toEqual(["False", "True"]);
  expect(initialized({ ...wanted, status: told })).toBe("True");
});

test("the signal that a container is stopped with is told as the runtime tells it, where the gate for it is on", () => {
  const stopSignal = "SIGUSR1" as const;
  const containers = observed.containers.map((each, index) => (index === 0 ? { ...each, stopSignal } : each));
  const told = (more: object) =>
    decidePod(
      desired,
      { ...observed, containers },
      emptyMemory,
      { ...settings, ...more },
      at("10:00:09"),
    ).status.containerStatuses?.map(({ name, stopSignal }) => `${name} ${stopSignal}`);
  expect(told({ tellsStopSignals: true })).toEqual(["a SIGUSR1", "b undefined"]);
  expect(told({})).toEqual(["a undefined", "b undefined"]);
});
