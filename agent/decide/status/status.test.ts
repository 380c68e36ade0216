import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { ContainerState, Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import type { FailureKey } from "../actions/failure-key.ts";
import { createKeyMap } from "../actions/key-map.ts";
import type { DesiredPodView } from "../pod/desired.ts";
import { emptyMemory, type FailureRecord, type PodMemory } from "../pod/memory.ts";
import type { ExitedContainer, ObservedContainer, ObservedPod } from "../pod/observed.ts";
import { decidePod } from "../pod/pod.ts";
import { allocationOf } from "../resize/allocation.ts";
import { unobservedStatus } from "./status.ts";

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
const desired: DesiredPodView = {
  uid,
  pod,
  source: { kind: "file", path: "/m" },
  acceptedAt: at("10:00:00"),
  revision: 0,
};
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
  ...emptyObservedPod(uid, "default", "web"),
  resources: [{ of: "podDirs" }, { of: "logDir" }],
  sandboxes: [
    {
      id: "s" as SandboxId,
      attempt: 0,
      createdAt: at("10:00:02"),
      ready: true,
      // In the order of the network plugin, not of the node; the API accepts one of each family.
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
const decide = (observedPod: ObservedPod, memory: PodMemory, now: number) =>
  decidePod(desired, observedPod, memory, settings, now);
const conditions = (status: PodStatus) =>
  (status.conditions ?? []).map(
    ({ type, status: value, reason, message, lastTransitionTime }) =>
      `${type} ${value} since ${lastTransitionTime?.slice(11, 19)}${reason === undefined ? "" : ` ${reason}`}${message === undefined ? "" : `: ${message}`}`,
  );

test("a status has everything that the node knows of a pod", () => {
  const { status } = decide(observed, emptyMemory, at("11:00:00"));
  expect(status).toMatchInlineSnapshot(`
    {
      "allocatedResources": {
        "cpu": "100m",
        "memory": "64Mi",
      },
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
      "resources": {
        "limits": {
          "memory": "64Mi",
        },
        "requests": {
          "cpu": "100m",
          "memory": "64Mi",
        },
      },
      "startTime": "2026-01-01T10:00:00Z",
    }
  `);
});

test("a new agent derives since when the pod is ready from what it observes", () => {
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

test("the conditions name containers in the order of the spec, and the statuses are sorted by name", () => {
  const [first, ...rest] = desired.pod.spec.containers;
  const pod = {
    ...desired.pod,
    spec: { ...desired.pod.spec, containers: [{ ...first!, name: "z" }, first!, ...rest] },
  };
  const { status } = decidePod(
    { ...desired, pod },
    emptyObservedPod(uid, "shop", "web"),
    emptyMemory,
    settings,
    at("10:00:01"),
  );
  const names = status.containerStatuses?.map(({ name }) => name) ?? [];
  expect(names).toEqual(names.toSorted());
  expect(status.conditions?.find(({ type }) => type === "Ready")?.message).toBe(
    `containers with unready status: [${pod.spec.containers.map(({ name }) => name).join(" ")}]`,
  );
});

test("conditions change their transition time only with their status", () => {
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

test("the final status of a pod does not change as the pod is removed", () => {
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
  const second = decidePod(ending, emptyObservedPod(uid, "default", "web"), first.memory, settings, at("11:00:02"));
  expect(first.status.phase).toBe("Running");
  expect(second.stage.kind).toBe("finished");
  expect(second.status).toEqual(first.status);
});

test("an image without a tag is reported as written until the runtime has it", () => {
  const untagged: Pod = { ...pod, spec: { containers: [{ name: "a", image: "shop.test/app" }] } };
  const failure = { reason: "ErrImagePull", message: "no such host", at: 0, count: 1, isOutage: false };
  const failures = createKeyMap<FailureKey, FailureRecord>([[{ of: "image", image: "shop.test/app:latest" }, failure]]);
  const images = new Map([["shop.test/app:latest", { present: false }]] as const);
  const observedPod: ObservedPod = { ...observed, containers: [], images };
  const { status } = decidePod(
    { ...desired, pod: untagged },
    observedPod,
    { ...emptyMemory, failures },
    settings,
    9_000,
  );
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

test("the startTime of a pod is when its predecessor was gone, not when it was accepted", () => {
  const held = { ...desired, heldUntil: at("10:00:01") };
  const { status } = decidePod(held, observed, emptyMemory, settings, at("11:00:00"));
  expect(status.startTime).toBe("2026-01-01T10:00:01Z");
  expect(unobservedStatus(held, "no answer").startTime).toBe("2026-01-01T10:00:01Z");
  expect(conditions(status)).toContain("PodScheduled True since 10:00:00");
});

test("an unobserved pod is reported without containers", () => {
  expect(unobservedStatus(desired, "no answer")).toEqual({
    phase: "Pending",
    message: "no answer",
    startTime: "2026-01-01T10:00:00Z",
    qosClass: "Burstable",
  });
});

test("a created first container is reported as before its creation; one that fails to start is reported with its id", () => {
  const one: DesiredPodView = {
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
  const failures = createKeyMap<FailureKey, FailureRecord>([[{ of: "container", name: "a" }, failure]]);
  expect(shown([created], { ...emptyMemory, failures })?.containerID).toBe("containerd://a0");
});

const ofApi: DesiredPodView = {
  ...desired,
  source: { kind: "api" },
  termination: { requestedAt: at("11:00:00"), gracePeriodSeconds: 30, why: "it was deleted" },
};

test("a pod that is deleted before all of it has run is Failed and still shows what it was waiting for", () => {
  const started: ObservedPod = { ...observed, containers: observed.containers.filter(({ id }) => id === "a0") };
  const { status } = decidePod(ofApi, started, emptyMemory, settings, at("11:00:01"));
  expect(status.phase).toBe("Failed");
  expect(conditions(status)).toContain(
    "Ready False since 10:04:59 ContainersNotReady: containers with unready status: [b a]",
  );
  expect(conditions(status)).toContain("PodReadyToStartContainers False since 10:00:00");
});

test("a pod that is deleted after all of it has run is Failed, and its conditions show it", () => {
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

test("a container that failed to start has the start time 1970, as the runtime reports it", () => {
  const exit = {
    state: "exited",
    startedAt: 0,
    finishedAt: at("10:00:05"),
    exitCode: 128,
    reason: "StartError",
    message: "",
  } as const;
  const never: DesiredPodView = { ...desired, pod: { ...pod, spec: { ...pod.spec, restartPolicy: "Never" } } };
  const containers = ["a", "b"].map((name) => ({ ...identity(name, 0), ...exit }));
  const { status } = decidePod(never, { ...observed, containers }, emptyMemory, settings, at("11:00:00"));
  const [first] = status.containerStatuses ?? [];
  expect(first?.state?.terminated).toMatchObject({ reason: "StartError", startedAt: "1970-01-01T00:00:00Z" });
});

test("container fields from the runtime are reported for an existing instance only", () => {
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

test("the conditions of a resize come first, with the times of its record, until the pod has ended", () => {
  const allocation = {
    ...allocationOf(pod),
    pending: { reason: "Deferred", message: "no room", generation: 3, since: at("10:40:00") },
    started: { generation: 2, since: at("10:20:00") },
  } as const;
  const resized: DesiredPodView = {
    ...desired,
    pod: { ...pod, metadata: { ...pod.metadata, generation: 3 } },
    source: { kind: "api" },
    allocation,
  };
  const { status } = decidePod(resized, observed, emptyMemory, settings, at("11:00:00"));
  expect(conditions(status).slice(0, 3)).toEqual([
    "PodResizePending True since 10:40:00 Deferred: no room",
    "PodReadyToStartContainers True since 10:00:02",
    "Initialized True since 10:00:00",
  ]);
  expect(status.conditions?.[0]).toMatchObject({ observedGeneration: 3 });
  const ended = {
    ...resized,
    terminationRequest: { requestedAt: 0, reason: "Evicted", message: "", gracePeriodSeconds: 0 },
  };
  const gone = { ...observed, containers: [] };
  const last = decidePod(ended, gone, emptyMemory, settings, at("11:00:00")).status;
  expect(conditions(last).filter((line) => line.startsWith("PodResize"))).toEqual([]);
});

test("an init container without an instance is reported as completed, with the kubelet's message", () => {
  const spec = { ...pod.spec, initContainers: [{ name: "i", image: "busybox:1" }] };
  const { status } = decidePod({ ...desired, pod: { ...pod, spec } }, observed, emptyMemory, settings, at("11:00:00"));
  expect(status.initContainerStatuses?.[0]?.state?.terminated).toEqual({
    exitCode: 0,
    reason: "Completed",
    message:
      "Unable to get init container status from container runtime and pod has been initialized, treat it as exited normally",
  });
});

test("all termination messages of a pod fit into 12 KiB, whatever their encoding", () => {
  const message = "☃".repeat(4096);
  const containers = ["a", "b"].map((name) => ({
    ...(observed.containers[2] as ExitedContainer),
    ...identity(name, 0),
    message,
  }));
  const never: DesiredPodView = { ...desired, pod: { ...pod, spec: { ...pod.spec, restartPolicy: "Never" } } };
  const { status } = decidePod(never, { ...observed, containers }, emptyMemory, settings, at("11:00:00"));
  const messages = (status.containerStatuses ?? []).map(({ state }) => state?.terminated?.message ?? "");
  expect(messages.map((each) => Buffer.byteLength(each))).toEqual([6144, 6144]);
});

test("a created instance is reported with the exit of its predecessor and none of its own", () => {
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

test("a created instance that was reported is reported again after a restart of the agent", () => {
  const created = { ...identity("a", 0), state: "created" } as const;
  const idsAfter = (containerID: string | undefined) => {
    const waiting = { reason: "RunContainerError" };
    const before = { name: "a", state: { waiting }, ready: false, restartCount: 0, image: "", imageID: "" };
    const reported = { ...before, ...(containerID === undefined ? {} : { containerID }) };
    const asked = { ...ofApi, pod: { ...ofApi.pod, status: { containerStatuses: [reported] } } };
    const { status } = decidePod(asked, { ...observed, containers: [created] }, emptyMemory, settings, at("11:00:01"));
    return status.containerStatuses?.find(({ name }) => name === "a")?.containerID;
  };
  expect(idsAfter("containerd://a0")).toBe("containerd://a0");
  expect(idsAfter("containerd://other")).toBeUndefined();
  expect(idsAfter(undefined)).toBeUndefined();
});

test("the exit of an earlier instance stays reported after its removal", () => {
  const reported = (state: ContainerState, last?: ContainerState): ContainerState | undefined => {
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
  expect(reported({ running: {} }, earlier)).toEqual(earlier!);
  expect(reported(earlier!)).toEqual(earlier!);
  expect(reported({ waiting: {} }, own)).toBeUndefined();
  expect(reported({ terminated: { exitCode: 137 } })).toBeUndefined();
});

test("a container that is in back-off when its pod ends keeps the exit that it has shown", () => {
  const exit = { exitCode: 5, reason: "Error", containerID: "containerd://side1" };
  const sidecar = { name: "side", image: "busybox:1", restartPolicy: "Always" } as const;
  const ended = { state: "exited", exitCode: 5, reason: "", message: "", startedAt: 1 } as const;
  const waiting = { name: "side", image: "", imageID: "", ready: false, restartCount: 1 };
  const asked: Pod = {
    metadata: pod.metadata,
    spec: { restartPolicy: "Never", containers: [{ name: "a", image: "busybox:1" }], initContainers: [sidecar] },
    status: {
      initContainerStatuses: [
        { ...waiting, state: { waiting: { reason: "CrashLoopBackOff" } }, lastState: { terminated: exit } },
      ],
    },
  };
  const containers = [
    { ...identity("side", 1), ...ended, finishedAt: at("10:59:58") },
    { ...identity("a", 0), ...ended, exitCode: 0, finishedAt: at("10:59:59") },
  ];
  const end = (of: DesiredPodView) =>
    decidePod(of, { ...observed, containers }, emptyMemory, settings, at("11:00:00")).status;
  // A static pod has no status of its own to read it from.
  const { status: _, ...manifest } = asked;
  for (const status of [end({ ...desired, pod: asked, source: { kind: "api" } }), end({ ...desired, pod: manifest })]) {
    expect(status.phase).toBe("Succeeded");
    expect(status.initContainerStatuses).toMatchObject([
      { state: { terminated: { exitCode: 5, containerID: "containerd://side1" } }, lastState: { terminated: exit } },
    ]);
  }
});

test("a container that has never run ends as it waited; one of a deleted pod does not say why any more", () => {
  const debugger_ = { name: "debugger", image: "app:1" };
  const memory: PodMemory = {
    ...emptyMemory,
    failures: createKeyMap([
      [
        { of: "image", image: "app:1" },
        { reason: "ErrImagePull", message: "refused", at: at("10:30:00"), count: 1, isOutage: false },
      ],
    ]),
  };
  const exit = { state: "exited", exitCode: 1, reason: "", message: "", startedAt: 1, finishedAt: 2 } as const;
  const containers = ["a", "b"].map((name) => ({ ...identity(name, 0), ...exit }));
  const ended: ObservedPod = { ...observed, containers, images: new Map([["app:1", { present: false }]]) };
  const endOf = (spec: Partial<Pod["spec"]>, more: Partial<DesiredPodView>) => {
    const asked = { ...pod, spec: { ...pod.spec, ephemeralContainers: [debugger_], ...spec } };
    const view = { ...desired, source: { kind: "api" }, pod: asked, ...more } as const;
    const { status } = decidePod(view, ended, memory, settings, at("11:00:00"));
    return status.ephemeralContainerStatuses?.[0]?.state?.waiting?.reason;
  };
  expect(endOf({ restartPolicy: "Never" }, {})).toBe("ImagePullBackOff");
  const { termination } = ofApi;
  expect(endOf({}, { ...(termination && { termination }) })).toBe("ContainerCreating");
  const initContainers = [{ name: "a-first", image: "busybox:1" }];
  expect(endOf({ initContainers }, { ...(termination && { termination }) })).toBe("PodInitializing");
});

test("an initialized pod stays initialized; a new agent takes that from the reported status", () => {
  const initContainers = [{ name: "first", image: "busybox:1" }];
  const expected: Pod = { ...pod, spec: { ...pod.spec, initContainers } };
  const initialized = (of: Pod, memory: PodMemory = emptyMemory) => {
    const nothing = { ...observed, containers: [] };
    const { status } = decidePod({ ...desired, pod: of }, nothing, memory, settings, at("10:00:09"));
    return status.conditions?.find(({ type }) => type === "Initialized")?.status;
  };
  const conditions = new Map([["Initialized", { status: "True", since: 0 }]]);
  const reported = { conditions: [{ type: "Initialized", status: "True" as const }] };
  expect([initialized(expected), initialized(expected, { ...emptyMemory, conditions })]).toEqual(["False", "True"]);
  expect(initialized({ ...expected, status: reported })).toBe("True");
});

test("the stop signal is reported as the runtime reports it, if the gate is on", () => {
  const stopSignal = "SIGUSR1" as const;
  const containers = observed.containers.map((each, index) => (index === 0 ? { ...each, stopSignal } : each));
  const reported = (more: object) =>
    decidePod(
      desired,
      { ...observed, containers },
      emptyMemory,
      { ...settings, ...more },
      at("10:00:09"),
    ).status.containerStatuses?.map(({ name, stopSignal }) => `${name} ${stopSignal}`);
  expect(reported({ containerStopSignals: true })).toEqual(["a SIGUSR1", "b undefined"]);
  expect(reported({})).toEqual(["a undefined", "b undefined"]);
});

test("a read-only mount is reported as recursive where it is, as the handler of the pod's RuntimeClass supports it", () => {
  const reported = (recursiveReadOnly: "Enabled" | "IfPossible" | "Disabled", runtimeClassName = "") => {
    const volumeMounts = [
      { name: "v", mountPath: "/v", readOnly: true, recursiveReadOnly },
      { name: "v", mountPath: "/w" },
    ];
    const mounting: DesiredPodView = {
      ...desired,
      source: { kind: "api" },
      pod: { ...pod, spec: { ...pod.spec, runtimeClassName, containers: [{ name: "a", volumeMounts }] } },
    };
    const ofNode = { ...settings, recursiveReadOnlyClasses: new Set([""]) };
    return decidePod(mounting, observed, emptyMemory, ofNode, at("10:00:05")).status.containerStatuses?.[0]
      ?.volumeMounts;
  };
  const mount = (recursiveReadOnly: string) => [
    { name: "v", mountPath: "/v", readOnly: true, recursiveReadOnly },
    { name: "v", mountPath: "/w" },
  ];
  expect<unknown>([
    reported("Enabled"),
    reported("IfPossible"),
    reported("Disabled"),
    reported("IfPossible", "other"),
    reported("Enabled", "other"),
  ]).toEqual([mount("Enabled"), mount("Enabled"), mount("Disabled"), mount("Disabled"), mount("Disabled")]);
});
