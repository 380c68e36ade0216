import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Container, ContainerStatus, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import { describe } from "../pod/action.ts";
import { emptyMemory, type PodMemory } from "../pod/memory.ts";
import type { ObservedContainer, ObservedPod } from "../pod/observed.ts";
import { decidePod } from "../pod/pod.ts";

const now = 1_000_000_000;
const image = "busybox:1";
const uid = "u" as PodUid;
const rule = (action: "Restart" | "RestartAllContainers", ...values: readonly number[]) => ({
  action,
  exitCodes: { operator: "In" as const, values },
});
const asking: Partial<Container> = {
  restartPolicy: "Never",
  restartPolicyRules: [rule("Restart", 42), rule("RestartAllContainers", 42, 88)],
};
const pod: Pod = {
  metadata: { uid, name: "web", namespace: "default" },
  spec: {
    restartPolicy: "Never",
    initContainers: [
      { name: "first", image },
      { name: "proxy", image, restartPolicy: "Always", restartPolicyRules: [rule("RestartAllContainers", 88)] },
      { name: "second", image },
    ],
    containers: [
      { name: "a", image },
      { name: "watcher", image, ...asking },
    ],
    ephemeralContainers: [{ name: "debug", image }],
  },
};

/** `a exited 0`, `a running`, `a created`; of attempt 0, or as `#1` says. */
function instance(text: string): ObservedContainer {
  const [name = "", state = "", code = "", number = "#0"] = text.split(" ");
  const attempt = Number((code.startsWith("#") ? code : number).slice(1));
  return {
    id: `${name}${attempt}` as ContainerId,
    name,
    sandboxId: "s" as SandboxId,
    attempt,
    createdAt: text.endsWith("young") ? now - 300 : now - 40_000,
    image,
    imageRef: "sha256:1",
    hash: undefined,
    crashes: 0,
    state,
    startedAt: now - 40_000,
    finishedAt: now - (text.endsWith("before") ? 5_000 : 100),
    exitCode: Number(code),
    reason: "Error",
    message: "",
  } as ObservedContainer;
}

const observedWith = (instances: readonly string[], cleared: Readonly<Record<string, number>> = {}): ObservedPod => ({
  ...emptyObservedPod(uid, "default", "web"),
  images: new Map([[image, { present: true, ref: "sha256:1", user: { uid: undefined, username: "" } }]]),
  sandboxes: [
    { id: "s" as SandboxId, attempt: 0, createdAt: 0, ready: true, ips: ["10.0.0.2"], hostNetwork: false, crashes: 0 },
  ],
  containers: instances.map(instance),
  loggedAttempts: new Map(["first", "proxy", "a", "watcher"].map((name) => [name, 0])),
  removedAttempts: new Map(Object.entries(cleared)),
  resources: [{ of: "podDirs" }, { of: "logDir" }],
});

const text = ({ name, state, lastState, restartCount }: ContainerStatus) => {
  const reason = state?.running ? "running" : (state?.waiting?.reason ?? state?.terminated?.reason);
  const last = lastState?.terminated && ` after ${lastState.terminated.reason} ${lastState.terminated.exitCode}`;
  return `${name} ${reason}${last ?? ""}${restartCount > 0 ? ` #${restartCount}` : ""}`;
};

function decide(observed: ObservedPod, memory: Partial<PodMemory> = {}, of: Pod = pod) {
  const desired = {
    uid,
    pod: of,
    source: { kind: "api" },
    acceptedAt: now - 60_000,
    revision: 0,
  } as const;
  const settings = { maxContainerRestartPeriodMs: 300_000, runtimeName: "containerd", hostIPs: [] };
  return decidePod(
    desired,
    observed,
    { ...emptyMemory, madeResources: [{ of: "podDirs" }, { of: "logDir" }], ...memory },
    settings,
    now,
  );
}

const up = ["first exited 0", "proxy running", "second exited 0", "a running"];
const all = { first: 0, proxy: 0, a: 0, watcher: 0 };
/** Requests the restart of all containers unless it exits with 1. */
const allButOne: Partial<Container> = {
  restartPolicy: "Never",
  restartPolicyRules: [{ action: "RestartAllContainers", exitCodes: { operator: "NotIn", values: [1] } }],
};
const askingInit: Pod = { ...pod, spec: { ...pod.spec, initContainers: [{ name: "first", image, ...allButOne }] } };
const atInit = (...of: Parameters<typeof observedWith>): ObservedPod => ({
  ...observedWith(...of),
  loggedAttempts: new Map(),
});
const rows: readonly [sentence: string, observed: ObservedPod, memory?: Partial<PodMemory>, of?: Pod][] = [
  ["its first matching rule restarts the container alone", observedWith([...up, "watcher exited 42"])],
  ["no rule matches", observedWith([...up, "watcher exited 1"])],
  ["a rule restarts all containers", observedWith([...up, "watcher exited 88"])],
  [
    "a sidecar's rule restarts all containers too",
    observedWith(["first exited 0", "proxy exited 88", "a running", "watcher running"]),
  ],
  ["an ephemeral container is left alone", observedWith([...up, "watcher exited 88", "debug running"])],
  ["a round lasts at least a second", observedWith([...up, "watcher exited 88 #0 young"])],
  [
    "the removal waits for stops in progress",
    observedWith([...up, "watcher exited 88"]),
    { stopping: new Set(["proxy0" as ContainerId, "a0" as ContainerId]) },
  ],
  [
    "all instances are removed, also those that were never started",
    observedWith(["first exited 0", "a created #1", "a exited 1", "watcher exited 88 #1", "watcher exited 1"]),
  ],
  [
    "the requesting containers are removed last",
    observedWith(["watcher exited 88", "proxy exited 88"], { first: 0, a: 0 }),
  ],
  [
    "an exit caused by the restart does not complete the pod",
    observedWith(["first exited 0 #0 before", "proxy exited 88", "a exited 143", "watcher exited 143"]),
  ],
  [
    "such an exit of an init container does not complete the pod",
    observedWith(["first exited 0 #0 before", "proxy exited 88", "second exited 143"], { a: 0, watcher: 0 }),
  ],
  [
    "an exit before the request completes the pod",
    observedWith(["first exited 0 #0 before", "proxy exited 88", "a exited 0 #0 before", "watcher exited 1 #0 before"]),
  ],
  ["the first init container runs again", observedWith([], all)],
  ["a container that has not run again yet is not missing", observedWith(["first running #1"], all)],
  [
    "a container that has exited again has exited",
    observedWith(["first exited 0 #1", "proxy running #1", "a exited 0 #1", "watcher exited 0 #1"], all),
  ],
  [
    "a container that is missing after it has run again is missing",
    observedWith(["first exited 0 #1", "proxy running #1", "watcher running #1"], { first: 0, proxy: 0, watcher: 0 }),
  ],
  [
    "the success of an init container restarts all containers if a rule matches",
    atInit(["first exited 0"]),
    {},
    askingInit,
  ],
  [
    "the success of an init container restarts all containers after each round",
    atInit(["first exited 0 #1"], { first: 0 }),
    {},
    askingInit,
  ],
  ["an exit without a matching rule restarts nothing", atInit(["first exited 1"]), {}, askingInit],
];

test("a pod with a RestartAllContainers rule acts and reports as the kubelet does", () => {
  const lines = rows.map(([sentence, observed, memory, of]) => {
    const { actions, status, lookAgainAt } = decide(observed, memory, of);
    const restarting = status.conditions?.find(({ type }) => type === "AllContainersRestarting");
    const again = lookAgainAt === undefined ? "" : `; again in ${(lookAgainAt - now) / 1000}s`;
    const reported = [...(status.initContainerStatuses ?? []), ...(status.containerStatuses ?? [])]
      .map(text)
      .join(", ");
    const done = actions.map(describe).join("; ") || "nothing";
    return `${sentence}: ${done}${again}\n  ${status.phase}, restarting ${restarting?.status}: ${reported}`;
  });
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    its first matching rule restarts the container alone: create container watcher (attempt 1): it exited with code 42; create container debug (attempt 0): it has not run yet
      Running, restarting False: first Error, proxy running, second Error, a running, watcher Error
    no rule matches: create container debug (attempt 0): it has not run yet
      Running, restarting False: first Error, proxy running, second Error, a running, watcher Error
    a rule restarts all containers: stop container proxy within 2s: container watcher asks for a restart of all; stop container a within 2s: container watcher asks for a restart of all
      Running, restarting True: first Error, proxy running, second Error, a running, watcher Error
    a sidecar's rule restarts all containers too: stop container a within 2s: container proxy asks for a restart of all; stop container watcher within 2s: container proxy asks for a restart of all
      Running, restarting True: first Error, proxy Error, second Completed, a running, watcher running
    an ephemeral container is left alone: stop container proxy within 2s: container watcher asks for a restart of all; stop container a within 2s: container watcher asks for a restart of all
      Running, restarting True: first Error, proxy running, second Error, a running, watcher Error
    a round lasts at least a second: nothing; again in 0.7s
      Running, restarting True: first Error, proxy running, second Error, a running, watcher Error
    the removal waits for stops in progress: nothing
      Running, restarting True: first Error, proxy running, second Error, a running, watcher Error
    all instances are removed, also those that were never started: remove container first: container watcher asks for a restart of all; remove container a: container watcher asks for a restart of all; remove container a: container watcher asks for a restart of all; remove container watcher: container watcher asks for a restart of all
      Running, restarting True: first Error, proxy PodInitializing, second Completed, a PodInitializing after Error 1 #1, watcher Error after Error 1 #1
    the requesting containers are removed last: remove container watcher: container proxy asks for a restart of all; remove container proxy: container proxy asks for a restart of all
      Running, restarting True: first RestartingAllContainers after RestartingAllContainers 137 #1, proxy Error, second Completed, a RestartingAllContainers after RestartingAllContainers 137 #1, watcher Error
    an exit caused by the restart does not complete the pod: remove container first: container proxy asks for a restart of all; remove container a: container proxy asks for a restart of all; remove container watcher: container proxy asks for a restart of all
      Running, restarting True: first Error, proxy Error, second Completed, a Error, watcher Error
    such an exit of an init container does not complete the pod: remove container first: container proxy asks for a restart of all; remove container second: container proxy asks for a restart of all
      Pending, restarting True: first Error, proxy Error, second Error, a RestartingAllContainers after RestartingAllContainers 137 #1, watcher RestartingAllContainers after RestartingAllContainers 137 #1
    an exit before the request completes the pod: stop sandbox: all its containers are done
      Failed, restarting False: first Error, proxy Error, second Completed, a Error, watcher Error
    the first init container runs again: create container first (attempt 1): all containers are restarted; create container debug (attempt 0): it has not run yet
      Running, restarting False: first RestartingAllContainers after RestartingAllContainers 137 #1, proxy RestartingAllContainers after RestartingAllContainers 137 #1, second PodInitializing, a RestartingAllContainers after RestartingAllContainers 137 #1, watcher RestartingAllContainers after RestartingAllContainers 137 #1
    a container that has not run again yet is not missing: create container debug (attempt 0): it has not run yet
      Pending, restarting False: first running after RestartingAllContainers 137 #1, proxy PodInitializing after RestartingAllContainers 137 #1, second PodInitializing, a PodInitializing after RestartingAllContainers 137 #1, watcher PodInitializing after RestartingAllContainers 137 #1
    a container that has exited again has exited: stop container proxy within 30s: all its containers are done
      Running, restarting False: first Error after RestartingAllContainers 137 #1, proxy running after RestartingAllContainers 137 #1, second Completed, a Error after RestartingAllContainers 137 #1, watcher Error after RestartingAllContainers 137 #1
    a container that is missing after it has run again is missing: create container debug (attempt 0): it has not run yet
      Running, restarting False: first Error after RestartingAllContainers 137 #1, proxy running after RestartingAllContainers 137 #1, second Completed, a ContainerStatusUnknown, watcher running after RestartingAllContainers 137 #1
    the success of an init container restarts all containers if a rule matches: remove container first: container first asks for a restart of all
      Pending, restarting True: first Error, a PodInitializing, watcher PodInitializing
    the success of an init container restarts all containers after each round: remove container first: container first asks for a restart of all
      Pending, restarting True: first Error after RestartingAllContainers 137 #1, a PodInitializing, watcher PodInitializing
    an exit without a matching rule restarts nothing: stop sandbox: its init container first has failed
      Failed, restarting False: first Error, a PodInitializing, watcher PodInitializing
    "
  `);
});

test("the condition AllContainersRestarting is the last one; a pod without such a rule does not have it", () => {
  const conditions = decide(observedWith([...up, "watcher exited 88"])).status.conditions ?? [];
  expect(conditions.map(({ type }) => type)).toMatchInlineSnapshot(`
    [
      "PodReadyToStartContainers",
      "Initialized",
      "Ready",
      "ContainersReady",
      "PodScheduled",
      "AllContainersRestarting",
    ]
  `);
  expect(conditions.at(-1)).toMatchInlineSnapshot(`
    {
      "lastTransitionTime": "1970-01-12T13:45:40Z",
      "message": "container exited with restart policy rule",
      "reason": "RestartAllContainersStarted",
      "status": "True",
      "type": "AllContainersRestarting",
    }
  `);
  const plain: Pod = { ...pod, spec: { ...pod.spec, initContainers: [], containers: [{ name: "a", image }] } };
  expect(decide(observedWith(["a running"]), {}, plain).status.conditions?.at(-1)?.type).toBe("PodScheduled");
});

test("a container is killed without a grace period or hook, with the kubelet's event", () => {
  const drain = { preStop: { exec: { command: ["drain"] } } };
  const containers = pod.spec.containers.map((each) => ({ ...each, lifecycle: drain }));
  const { actions } = decide(
    observedWith([...up, "watcher exited 88"]),
    {},
    { ...pod, spec: { ...pod.spec, containers } },
  );
  expect(actions.find((each) => each.kind === "stopContainer" && each.name === "a")).toMatchInlineSnapshot(`
    {
      "eventMessage": "killing",
      "gracePeriodSeconds": 2,
      "id": "a0",
      "kind": "stopContainer",
      "name": "a",
      "why": "container watcher asks for a restart of all",
    }
  `);
});

test("a reported restart is not taken for an instance that has run", () => {
  const lastState = { terminated: { exitCode: 137, reason: "RestartingAllContainers" } };
  const state = { waiting: { reason: "PodInitializing" } };
  const reported = { name: "a", state, lastState, restartCount: 1, ready: false, image: "", imageID: "" };
  const of: Pod = { ...pod, status: { containerStatuses: [reported] } };
  const { status, actions } = decide(observedWith(["first exited 0 #1", "proxy running #1"], all), {}, of);
  expect(actions.map(describe)).toMatchInlineSnapshot(`
    [
      "create container second (attempt 0): it has not run yet",
      "create container debug (attempt 0): it has not run yet",
    ]
  `);
  expect((status.containerStatuses ?? []).map(text)).toMatchInlineSnapshot(`
    [
      "a PodInitializing after RestartingAllContainers 137 #1",
      "watcher PodInitializing after RestartingAllContainers 137 #1",
    ]
  `);
});
