import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import type { FailureKey } from "../actions/failure-key.ts";
import { createKeyMap } from "../actions/key-map.ts";
import type { Action } from "./action.ts";
import { clearInProgress, recordDequeued, recordResult, recordStarted } from "./action-memory.ts";
import { pullErrorShownUntil, pullRetryAt, retryAt } from "./backoff.ts";
import {
  type ActionResult,
  clearOutageFailures,
  clearReferenceFailures,
  emptyMemory,
  memoryOfRevision,
  withObserved,
} from "./memory.ts";
import { type ExitedContainer, instanceKey, type ObservedContainer } from "./observed.ts";

const nothing = emptyObservedPod("u" as PodUid, "default", "web");
const ok: ActionResult = { ok: true };
const bad: ActionResult = { ok: false, reason: "CreateContainerError", message: "why", isOutage: false };
const create: Action = {
  kind: "createContainer",
  name: "a",
  attempt: 0,
  sandboxId: "s" as SandboxId,
  podIPs: [],
  image: "app:1",
  imageRef: "",
  crashes: 0,
  why: "",
};
const start: Action = { kind: "startContainer", name: "a", id: "c" as ContainerId, attempt: 3 };
const preStop = { kind: "runPreStop", name: "a", id: "c" as ContainerId, gracePeriodSeconds: 9, why: "" } as const;
const pull: Action = { kind: "pullImage", image: "app:1", why: "" };

test("failures of one key are counted until an action succeeds", () => {
  const twice = recordResult(recordResult(emptyMemory, create, bad, 1), create, bad, 5);
  expect(twice.failures.get({ of: "container", name: "a" })).toEqual({
    reason: "CreateContainerError",
    message: "why",
    at: 5,
    count: 2,
    isOutage: false,
  });
  expect(recordResult(twice, start, ok, 6).failures.size).toBe(0);
});

test("a successful creation does not clear the failures of the start", () => {
  const failed = recordResult(emptyMemory, start, { ...bad, reason: "RunContainerError" }, 1);
  expect(recordResult(failed, create, ok, 2).failures.get({ of: "container", name: "a" })?.count).toBe(1);
});

test("only a started attempt counts", () => {
  expect(recordResult(emptyMemory, create, ok, 1).startedAttempts.size).toBe(0);
  expect(recordResult(emptyMemory, start, ok, 1).startedAttempts.get("a")).toBe(3);
});

test("a pull is recorded while it runs, and with its result", () => {
  const queued = recordStarted(emptyMemory, pull, 1);
  expect(queued.pulls.get("app:1")).toEqual({ state: "queued", since: 1 });
  const pulling = recordDequeued(queued, pull, 2);
  expect(pulling.pulls.get("app:1")).toEqual({ state: "pulling", since: 2 });
  expect(recordResult(pulling, pull, { ok: true, imageRef: "sha256:1" }, 2).pulls.get("app:1")).toEqual({
    state: "pulled",
    ref: "sha256:1",
    usedBy: new Set(),
  });
  expect(recordResult(pulling, pull, bad, 2).pulls.size).toBe(0);
  expect(recordStarted(emptyMemory, create, 1)).toBe(emptyMemory);
  // A cancelled pull leaves no record.
  expect(recordDequeued(emptyMemory, pull, 2)).toBe(emptyMemory);
});

const failure = (count: number) => ({ reason: "", message: "", at: 100_000, count, isOutage: false });

test.each([
  [1, 1],
  [2, 2],
  [3, 4],
  [4, 8],
  [5, 15],
  [500, 15],
])("failure number %i is retried after %i seconds", (count, seconds) => {
  expect(retryAt(failure(count), 100_000)).toBe(100_000 + seconds * 1000);
});

test.each([
  [1, 10, 1],
  [2, 20, 10],
  [5, 160, 80],
  [6, 300, 150],
  [500, 300, 150],
])("pull failure number %i is retried after %i seconds, and shown as an error for %i", (count, seconds, shown) => {
  expect(pullRetryAt(failure(count), 100_000)).toBe(100_000 + seconds * 1000);
  expect(pullErrorShownUntil(failure(count), 100_000)).toBe(100_000 + shown * 1000);
});

test("a failure in the future means that the clock was set back, and is retried at once", () => {
  expect(retryAt(failure(9), 50)).toBe(50);
  expect(pullRetryAt(failure(9), 50)).toBe(50);
  expect(pullErrorShownUntil(failure(1), 50)).toBe(50);
});

test("a pull counts for one instance of each container", () => {
  const pulled = recordResult(emptyMemory, pull, { ok: true, imageRef: "sha256:1" }, 2);
  expect(recordResult(pulled, create, ok, 3).pulls.get("app:1")).toMatchObject({ usedBy: new Set(["a"]) });
  expect(recordResult(recordResult(pulled, create, ok, 3), pull, { ok: true }, 4).pulls.get("app:1")).toMatchObject({
    usedBy: new Set(),
  });
});

test("a changed manifest keeps the actions in progress and nothing else", () => {
  const hook: Action = { kind: "runPostStart", name: "a", id: "c" as ContainerId, attempt: 0 };
  const other: Action = { ...pull, image: "other:1" };
  const first = { ...emptyMemory, revision: 0 };
  const started = recordStarted(recordStarted(first, hook, 1), pull, 1);
  const next = memoryOfRevision(recordResult(started, other, { ok: true, imageRef: "sha256:1" }, 2), 1);
  expect({ hooks: [...next.runningPostStartHooks], pulls: [...next.pulls.keys()] }).toEqual({
    hooks: [hook.id],
    pulls: ["app:1"],
  });
});

test("the end of an outage clears its failures and no others", () => {
  const outage = recordResult(emptyMemory, create, { ...bad, isOutage: true }, 1);
  expect(clearOutageFailures(outage).failures.size).toBe(0);
  expect(clearOutageFailures(recordResult(emptyMemory, create, bad, 1)).failures.size).toBe(1);
});

test("the entries of removed containers and sandboxes are dropped", () => {
  const stop: Action = { kind: "stopSandbox", id: "s" as SandboxId, why: "" };
  const memory = recordResult(recordResult(emptyMemory, stop, ok, 1), { ...stop, id: "t" as SandboxId }, bad, 2);
  const hooked = recordResult(memory, preStop, ok, 3);
  const kept = withObserved(recordResult(hooked, create, bad, 4), nothing);
  const { stoppedSandboxes: stopped, preStopDone, failures } = kept;
  expect({ stopped: [...stopped], preStopped: [...preStopDone], failures: failures.keys() }).toEqual({
    stopped: [],
    preStopped: [],
    failures: [{ of: "container", name: "a" }],
  });
});

test("a preStop hook counts as run if an earlier agent has left its mark, and the memory stays the same from then on", () => {
  const container = { id: preStop.id, name: "a", attempt: 3, state: "running" } as ObservedContainer;
  const observed = { ...nothing, containers: [container], endedPreStopHooks: new Set([instanceKey(container)]) };
  const marked = withObserved(emptyMemory, observed);
  expect([...marked.preStopDone]).toEqual([preStop.id]);
  expect(withObserved(marked, observed)).toBe(marked);
});

test("a preStop hook counts as run when it has ended, not when it was cancelled", () => {
  const started = recordStarted(emptyMemory, preStop, 1);
  expect([...started.stopping]).toEqual([preStop.id]);
  const given = clearInProgress(started, preStop);
  const ended = memoryOfRevision({ ...recordResult(started, preStop, ok, 2), revision: 0 }, 1);
  expect([given, ended].map(({ stopping, preStopDone }) => [[...stopping], [...preStopDone]])).toEqual([
    [[], []],
    [[], [preStop.id]],
  ]);
});

test("a changed Secret clears the failures that it may have caused, and no others", () => {
  const env = [{ name: "A", valueFrom: { secretKeyRef: { name: "login", key: "k" } } }];
  const containers = ["a", "b", "c"].map((name) => ({ name, ...(name === "c" ? {} : { env }) }));
  const pod = { metadata: { name: "web", namespace: "shop" }, spec: { containers } };
  const failed = (name: string, reason: string) => ({ action: { ...create, name }, result: { ...bad, reason } });
  const all = [
    failed("a", "CreateContainerConfigError"),
    failed("b", "CreateContainerError"),
    failed("c", "CreateContainerConfigError"),
  ];
  const before = all.reduce((memory, { action, result }) => recordResult(memory, action, result, 1), emptyMemory);
  expect(clearReferenceFailures(before, pod, "secret shop/login").failures.keys()).toEqual([
    { of: "container", name: "b" },
    { of: "container", name: "c" },
  ]);
  expect(clearReferenceFailures(before, pod, "configmap shop/login")).toBe(before);
});

test("a changed Secret keeps the failures that are of no container, image or volume", () => {
  const keys: readonly FailureKey[] = [
    { of: "sandbox" },
    { of: "podCgroupWrite" },
    { of: "postStart", id: "c1" as ContainerId },
    { of: "containerResources", id: "c1" as ContainerId },
    { of: "sandboxResources", id: "s1" as SandboxId },
    { of: "endOfContainer", id: "c1" as ContainerId },
    { of: "endOfSandbox", id: "s1" as SandboxId },
    { of: "endOfResource", resource: { of: "logDir" } },
  ];
  const failure = { reason: "Failed", message: "why", at: 1, count: 1, isOutage: false };
  const before = { ...emptyMemory, failures: createKeyMap(keys.map((key) => [key, failure] as const)) };
  const spec = { containers: [], imagePullSecrets: [{ name: "login" }] };
  const pod = { metadata: { name: "web", namespace: "shop" }, spec };
  expect(clearReferenceFailures(before, pod, "secret shop/login")).toBe(before);
});

test("a changed pull secret clears the failures of pulls", () => {
  const spec = { containers: [], imagePullSecrets: [{ name: "registry" }] };
  const pod = { metadata: { name: "web", namespace: "shop" }, spec };
  const before = recordResult(recordResult(emptyMemory, pull, bad, 1), create, bad, 1);
  expect(clearReferenceFailures(before, pod, "secret shop/registry").failures.keys()).toEqual([
    { of: "container", name: "a" },
  ]);
  expect(clearReferenceFailures(before, pod, "secret shop/login")).toBe(before);
});

test("the last removed exit of a container counts, in whatever order the removals end", () => {
  const removal = (attempt: number): Action => {
    const id = `a${attempt}` as ContainerId;
    const exit = { name: "a", attempt, id, state: "exited" } as ExitedContainer;
    return { kind: "removeContainer", name: "a", id, why: "", exit };
  };
  for (const order of [
    [0, 1],
    [1, 0],
  ])
    expect(order.reduce((memory, attempt) => recordResult(memory, removal(attempt), ok, 1), emptyMemory)).toMatchObject(
      {
        removedExits: new Map([["a", { attempt: 1 }]]),
      },
    );
});
