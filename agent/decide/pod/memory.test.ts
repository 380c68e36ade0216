import { expect, test } from "bun:test";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Action } from "./action.ts";
import {
  type ActionResult,
  emptyMemory,
  forgetUnderWay,
  forgiveOutages,
  forgiveReference,
  ofThisRevision,
  pullAgainAt,
  pullNewsUntil,
  remember,
  rememberPulling,
  rememberStart,
  retryAt,
  withoutVanished,
} from "./memory.ts";
import { nothingObserved } from "./observed.ts";

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

test("failures of one subject are counted until it succeeds", () => {
  const twice = remember(remember(emptyMemory, create, bad, 1), create, bad, 5);
  expect(twice.failures.get("container a")).toEqual({
    reason: "CreateContainerError",
    message: "why",
    at: 5,
    count: 2,
    isOutage: false,
  });
  expect(remember(twice, start, ok, 6).failures.size).toBe(0);
});

test("a creation that works does not forgive the start that failed before", () => {
  const failed = remember(emptyMemory, start, { ...bad, reason: "RunContainerError" }, 1);
  expect(remember(failed, create, ok, 2).failures.get("container a")?.count).toBe(1);
});

test("a start is what makes an attempt count", () => {
  expect(remember(emptyMemory, create, ok, 1).attempts.size).toBe(0);
  expect(remember(emptyMemory, start, ok, 1).attempts.get("a")).toBe(3);
});

test("a pull is known while it lasts, and by what it gave", () => {
  const queued = rememberStart(emptyMemory, pull, 1);
  expect(queued.pulls.get("app:1")).toEqual({ state: "queued", since: 1 });
  const pulling = rememberPulling(queued, pull, 2);
  expect(pulling.pulls.get("app:1")).toEqual({ state: "pulling", since: 2 });
  expect(remember(pulling, pull, { ok: true, imageRef: "sha256:1" }, 2).pulls.get("app:1")).toEqual({
    state: "pulled",
    ref: "sha256:1",
    usedBy: new Set(),
  });
  expect(remember(pulling, pull, bad, 2).pulls.size).toBe(0);
  expect(rememberStart(emptyMemory, create, 1)).toBe(emptyMemory);
  // Of a pull that was given up nothing is known.
  expect(rememberPulling(emptyMemory, pull, 2)).toBe(emptyMemory);
});

const failure = (count: number) => ({ reason: "", message: "", at: 100_000, count, isOutage: false });

test.each([
  [1, 1],
  [2, 2],
  [3, 4],
  [4, 8],
  [5, 15],
  [500, 15],
])("failure number %i is tried again after %i seconds", (count, seconds) => {
  expect(retryAt(failure(count), 100_000)).toBe(100_000 + seconds * 1000);
});

test.each([
  [1, 10],
  [2, 20],
  [5, 160],
  [6, 300],
  [500, 300],
])("pull failure number %i is tried again after %i seconds, and is news for half of them", (count, seconds) => {
  expect(pullAgainAt(failure(count), 100_000)).toBe(100_000 + seconds * 1000);
  expect(pullNewsUntil(failure(count), 100_000)).toBe(100_000 + seconds * 500);
});

test("a failure in the future is a clock set back: it is not waited for", () => {
  expect(retryAt(failure(9), 50)).toBe(50);
  expect(pullAgainAt(failure(9), 50)).toBe(50);
});

test("a pull is good for one instance of each container", () => {
  const pulled = remember(emptyMemory, pull, { ok: true, imageRef: "sha256:1" }, 2);
  expect(remember(pulled, create, ok, 3).pulls.get("app:1")).toMatchObject({ usedBy: new Set(["a"]) });
  expect(remember(remember(pulled, create, ok, 3), pull, { ok: true }, 4).pulls.get("app:1")).toMatchObject({
    usedBy: new Set(),
  });
});

test("a pod that becomes another one knows what is under way for it, and nothing that is over", () => {
  const hook: Action = { kind: "runHook", name: "a", id: "c" as ContainerId, attempt: 0 };
  const other: Action = { ...pull, image: "other:1" };
  const first = { ...emptyMemory, revision: 0 };
  const begun = rememberStart(rememberStart(first, hook, 1), pull, 1);
  const next = ofThisRevision(remember(begun, other, { ok: true, imageRef: "sha256:1" }, 2), 1);
  expect({ hooks: [...next.hooks], pulls: [...next.pulls.keys()] }).toEqual({ hooks: [hook.id], pulls: ["app:1"] });
});

test("an outage is forgiven, a failure is not", () => {
  const outage = remember(emptyMemory, create, { ...bad, isOutage: true }, 1);
  expect(forgiveOutages(outage).failures.size).toBe(0);
  expect(forgiveOutages(remember(emptyMemory, create, bad, 1)).failures.size).toBe(1);
});

test("what is gone is not remembered", () => {
  const nothing = nothingObserved("u" as PodUid, "default", "web");
  const stop: Action = { kind: "stopSandbox", id: "s" as SandboxId, why: "" };
  const memory = remember(remember(emptyMemory, stop, ok, 1), { ...stop, id: "t" as SandboxId }, bad, 2);
  const hooked = remember(memory, preStop, ok, 3);
  const kept = withoutVanished(remember(hooked, create, bad, 4), nothing);
  const { stoppedSandboxes: stopped, preStopped, failures } = kept;
  expect({ stopped: [...stopped], preStopped: [...preStopped], failures: [...failures.keys()] }).toEqual({
    stopped: [],
    preStopped: [],
    failures: ["container a"],
  });
});

test("a preStop hook has run when it has ended, and not when it was given up", () => {
  const begun = rememberStart(emptyMemory, preStop, 1);
  expect([...begun.stopping]).toEqual([preStop.id]);
  const given = forgetUnderWay(begun, preStop);
  const ended = ofThisRevision({ ...remember(begun, preStop, ok, 2), revision: 0 }, 1);
  expect([given, ended].map(({ stopping, preStopped }) => [[...stopping], [...preStopped]])).toEqual([
    [[], []],
    [[], [preStop.id]],
  ]);
});

test("news of a Secret forgives what may have failed for want of it, and nothing else", () => {
  const env = [{ name: "A", valueFrom: { secretKeyRef: { name: "login", key: "k" } } }];
  const containers = ["a", "b", "c"].map((name) => ({ name, ...(name === "c" ? {} : { env }) }));
  const pod = { metadata: { name: "web", namespace: "shop" }, spec: { containers } };
  const failed = (name: string, reason: string) => ({ action: { ...create, name }, result: { ...bad, reason } });
  const all = [
    failed("a", "CreateContainerConfigError"),
    failed("b", "CreateContainerError"),
    failed("c", "CreateContainerConfigError"),
  ];
  const before = all.reduce((memory, { action, result }) => remember(memory, action, result, 1), emptyMemory);
  expect([...forgiveReference(before, pod, "secret shop/login").failures.keys()]).toEqual([
    "container b",
    "container c",
  ]);
  expect(forgiveReference(before, pod, "configmap shop/login")).toBe(before);
});

test("news of a Secret for pulls forgives pulls that have failed", () => {
  const spec = { containers: [], imagePullSecrets: [{ name: "registry" }] };
  const pod = { metadata: { name: "web", namespace: "shop" }, spec };
  const before = remember(remember(emptyMemory, pull, bad, 1), create, bad, 1);
  expect([...forgiveReference(before, pod, "secret shop/registry").failures.keys()]).toEqual(["container a"]);
  expect(forgiveReference(before, pod, "secret shop/login")).toBe(before);
});
