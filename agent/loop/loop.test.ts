import { expect, test } from "bun:test";
import { CriError } from "../../cri/error.ts";
import type { ContainerId, PodUid, SandboxId } from "../../proto/ids.ts";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { emptyObservedPod } from "../../test/fakes/observed-pod.ts";
import { toFailure } from "../act/failure-reasons.ts";
import type { ActionKind } from "../decide/pod/action.ts";
import type { DesiredPodView } from "../decide/pod/desired.ts";
import type { ObservedPod } from "../decide/pod/observed.ts";
import { createLoop } from "./loop.ts";
import type { ActionOutput, SyncPorts } from "./ports.ts";
import type { SyncSubscriber } from "./sync-subscriber.ts";

/** Ports that replace those of the test, and methods of one more subscriber. */
type TestLoopOptions = Partial<SyncPorts & SyncSubscriber> & { readonly startSlots?: number };

type Act = (signal: AbortSignal, uid: PodUid) => Promise<ActionOutput>;

/**
 * A loop on a node that is empty except for `observedPods`, whose actions all succeed except for those in `acts`. `log` has
 * one line for each call of a port.
 */
function createTestLoop({ startSlots = 4, ...replaced }: TestLoopOptions = {}) {
  const clock = new FakeClock();
  const log: string[] = [];
  const desiredPods = new Map<PodUid, DesiredPodView | "unknown">();
  const observedPods = new Map<PodUid, Partial<ObservedPod>>();
  const acts: Partial<Record<ActionKind, Act>> = {};
  const record = (line: string) => void log.push(`${clock.elapsedMs / 1000}s ${line}`);
  const recorder: SyncSubscriber = {
    onActionFinished({ uid, action, result }) {
      if (result === "cancelled") record(`${uid}: ${action.kind} cancelled`);
      else if (!result.ok) record(`${uid}: ${action.kind} failed: ${result.message}`);
    },
    onPodFinished: (uid) => record(`${uid}: finished`),
    onSyncFailed: (uid) => record(`${uid}: sync failed`),
  };
  const ports: SyncPorts = {
    desired: (uid) => desiredPods.get(uid),
    observe: async (uid) => ({ ...emptyObservedPod(uid, "shop", uid), ...observedPods.get(uid) }),
    async act(uid, _desired, _observed, action, { signal }) {
      record(`${uid}: ${action.kind}`);
      return (await acts[action.kind]?.(signal, uid)) ?? {};
    },
    toFailure,
    subscribers: [recorder, replaced],
    ...replaced,
  };
  const settings = () => ({ maxContainerRestartPeriodMs: 300_000, runtimeName: "fake", hostIPs: [] });
  const loop = createLoop({ clock, ports, settings, startSlots });
  const addPod = (name: string, spec: Partial<PodSpec> = {}) => {
    const uid = name as PodUid;
    const pod: Pod = {
      metadata: { name, namespace: "shop", uid },
      spec: { containers: [{ name: "a", image: "busybox:1", imagePullPolicy: "IfNotPresent" }], ...spec },
    };
    desiredPods.set(uid, { uid, pod, source: { kind: "file", path: "/m" }, acceptedAt: clock.now(), revision: 0 });
    return uid;
  };
  const takeLog = () => log.splice(0);
  return { clock, desiredPods, observedPods, acts, loop, addPod, takeLog };
}

const present = new Map([
  ["busybox:1", { present: true, ref: "r", user: { uid: undefined, username: "" } }],
]) as ObservedPod["images"];
const sandbox = {
  id: "s" as SandboxId,
  attempt: 0,
  createdAt: 0,
  ready: true,
  ips: ["10.0.0.7"],
  hostNetwork: false,
  crashes: 0,
};
const until = (signal: AbortSignal) =>
  new Promise<never>((_, reject) => signal.addEventListener("abort", () => reject(signal.reason), { once: true }));

test("an action that succeeds without an effect counts as a failure and backs off", async () => {
  const { clock, observedPods, loop, addPod, takeLog } = createTestLoop();
  const uid = addPod("web");
  observedPods.set(uid, { images: present });
  loop.wake(uid);
  await clock.advance(40_000);
  const sandboxes = takeLog().filter((line) => line.includes("runSandbox"));
  expect(sandboxes.slice(0, 3)).toEqual([
    "0s web: runSandbox",
    "0s web: runSandbox failed: Failed to create pod sandbox: the runtime reported success, but nothing has changed",
    "1s web: runSandbox",
  ]);
  expect(sandboxes.filter((line) => line.endsWith("runSandbox"))).toEqual(
    [0, 1, 3, 7, 15, 30].map((seconds) => `${seconds}s web: runSandbox`),
  );
});

test("a sync that does not end is late for as long as it runs", async () => {
  let end = () => {};
  const { clock, loop, addPod } = createTestLoop({
    observe: (uid) =>
      new Promise((resolve) => {
        end = () => resolve(emptyObservedPod(uid, "shop", uid));
      }),
  });
  loop.wake(addPod("web"));
  await clock.advance(130_000);
  expect(loop.longestDelayMs()).toBe(130_000);
  end();
  await loop.stop();
  expect(loop.longestDelayMs()).toBe(0);
});

test("a timer that ends in time is never late, however long the wait was", async () => {
  const { clock, observedPods, loop, addPod } = createTestLoop();
  const uid = addPod("web");
  observedPods.set(uid, { images: present });
  loop.wake(uid);
  await clock.advance(300_000);
  expect(loop.longestDelayMs()).toBe(0);
});

test("an exit known only from an event is reported at once, and acted on when the runtime's status shows it", async () => {
  const reports: string[] = [];
  const { clock, observedPods, loop, addPod, takeLog } = createTestLoop({
    onStatusDecided: ({ uid }) => void reports.push(uid),
  });
  const uid = addPod("web");
  observedPods.set(uid, { images: present, hasUnconfirmedExit: true });
  loop.wake(uid);
  await clock.advance(5000);
  expect({ reports, acts: takeLog() }).toEqual({ reports: ["web"], acts: [] });
  observedPods.set(uid, { images: present });
  loop.wake(uid);
  await settlePromises();
  expect(takeLog()[0]).toBe("5s web: runSandbox");
});

test("a failed action is retried after a delay that doubles", async () => {
  const { clock, observedPods, acts, loop, addPod, takeLog } = createTestLoop();
  acts.runSandbox = () => Promise.reject(new CriError("UNKNOWN", "RunPodSandbox", "no network"));
  const uid = addPod("web");
  observedPods.set(uid, { images: present });
  loop.wake(uid);
  await clock.advance(8000);
  expect(takeLog().filter((line) => line.endsWith("runSandbox"))).toEqual(
    [0, 1, 3, 7].map((seconds) => `${seconds}s web: runSandbox`),
  );
});

test("actions that failed during a runtime outage are retried at once after it", async () => {
  const { clock, observedPods, acts, loop, addPod, takeLog } = createTestLoop();
  acts.runSandbox = () => Promise.reject(new CriError("UNAVAILABLE", "RunPodSandbox", "away"));
  const uid = addPod("web");
  observedPods.set(uid, { images: present });
  loop.wake(uid);
  await clock.advance(500);
  takeLog();
  loop.retryAfterOutage();
  loop.wake(uid);
  await settlePromises();
  expect(takeLog()[0]).toBe("0.5s web: runSandbox");
});

test("wakes during an observation cause one more observation after it, never a concurrent one", async () => {
  const pendingObservations: (() => void)[] = [];
  const { loop, addPod, desiredPods } = createTestLoop({
    observe: (uid) =>
      new Promise((resolve) => pendingObservations.push(() => resolve(emptyObservedPod(uid, "shop", "web")))),
  });
  const uid = addPod("web");
  // The pod waits for an earlier pod of the same name, so there is nothing to do.
  desiredPods.set(uid, { ...(desiredPods.get(uid) as DesiredPodView), predecessorUid: "before" as PodUid });
  loop.wake(uid);
  await settlePromises();
  for (let n = 0; n < 3; n++) loop.wake(uid);
  expect(pendingObservations).toHaveLength(1);
  pendingObservations[0]?.();
  await settlePromises();
  expect(pendingObservations).toHaveLength(2);
  pendingObservations[1]?.();
  await loop.settled();
  expect(pendingObservations).toHaveLength(2);
});

const reentrant: readonly (readonly [component: string, wakesIn: "desired" | "observe"])[] = [
  ["reads the desired pod", "desired"],
  ["observes the node", "observe"],
];
for (const [sentence, wakesIn] of reentrant)
  test(`a wake while a sync ${sentence} starts no concurrent sync`, async () => {
    let observing = 0;
    let maxObserving = 0;
    let wakes = 0;
    const wakeOnceIn = (port: string) => {
      if (port === wakesIn && wakes++ === 0) loop.wake(uid);
    };
    const { loop } = createTestLoop({
      desired: () => {
        wakeOnceIn("desired");
        return undefined;
      },
      observe: async () => {
        wakeOnceIn("observe");
        maxObserving = Math.max(maxObserving, ++observing);
        await settlePromises();
        observing--;
        return { ...emptyObservedPod(uid, "shop", "web"), resources: [{ of: "podDirs" }] };
      },
      act: () => new Promise(() => {}),
    });
    const uid = "web" as PodUid;
    loop.wake(uid);
    await settlePromises();
    await settlePromises();
    expect([wakes > 0, maxObserving]).toEqual([true, 1]);
  });

test("any number of wakes during an action cause one observation after it", async () => {
  let observationCount = 0;
  const acting = Promise.withResolvers<ActionOutput>();
  const { loop, addPod } = createTestLoop({
    observe: async (uid) => {
      observationCount++;
      const sandboxes = observationCount === 1 ? [] : [sandbox];
      return { ...emptyObservedPod(uid, "shop", "web"), images: present, sandboxes };
    },
    act: async (_uid, _desired, _observed, action) =>
      action.kind === "createContainer" ? await new Promise(() => {}) : acting.promise,
  });
  const uid = addPod("web");
  loop.wake(uid);
  await settlePromises();
  expect(observationCount).toBe(1);
  for (let n = 0; n < 5; n++) loop.wake(uid);
  acting.resolve({});
  await settlePromises();
  expect(observationCount).toBe(2);
});

test("a wake before the sources are ready observes nothing and leaves no timer", async () => {
  let observationCount = 0;
  const { clock, desiredPods, loop } = createTestLoop({
    observe: async (uid) => {
      observationCount++;
      return emptyObservedPod(uid, "", "");
    },
  });
  desiredPods.set("web" as PodUid, "unknown");
  loop.wake("web" as PodUid);
  await clock.advance(600_000);
  expect(observationCount).toBe(0);
  expect(clock.pendingTimers).toBe(0);
  expect(await loop.settled()).toBeUndefined();
});

/** A pod whose sandbox is being run, and its image pulled, when it has to terminate. */
async function terminateStartingPod(runSandbox: Act) {
  const { clock, observedPods, acts, loop, addPod, desiredPods, takeLog } = createTestLoop();
  acts.runSandbox = runSandbox;
  acts.pullImage = until;
  const uid = addPod("web");
  observedPods.set(uid, { images: new Map([["busybox:1", { present: false }]]) });
  loop.wake(uid);
  await clock.advance(4_000);
  takeLog();
  const desired = desiredPods.get(uid) as DesiredPodView;
  desiredPods.set(uid, {
    ...desired,
    termination: { requestedAt: 0, gracePeriodSeconds: 1, why: "its manifest is gone" },
  });
  loop.cancelOutdated(uid);
  await settlePromises();
  return { clock, observedPods, uid, takeLog };
}

test("cancelOutdated aborts a pull at once, and a call that hangs after ten seconds; then the pod is synced", async () => {
  const { clock, takeLog } = await terminateStartingPod(until);
  await clock.advance(60_000);
  expect(takeLog()).toEqual(["4s web: pullImage cancelled", "10s web: runSandbox cancelled", "10s web: finished"]);
  expect(clock.pendingTimers).toBe(0);
});

test("cancelOutdated leaves a call that changes the node its time to end", async () => {
  const running = Promise.withResolvers<ActionOutput>();
  const { clock, observedPods, uid, takeLog } = await terminateStartingPod((signal) =>
    Promise.race([running.promise, until(signal)]),
  );
  await clock.advance(5_000);
  observedPods.set(uid, { sandboxes: [sandbox] });
  running.resolve({});
  await clock.advance(60_000);
  expect(takeLog().slice(0, 2)).toEqual(["4s web: pullImage cancelled", "9s web: stopSandbox"]);
});

test("a pull runs in the background, and its end causes a sync", async () => {
  const { observedPods, acts, loop, addPod, takeLog } = createTestLoop();
  const pulling = Promise.withResolvers<ActionOutput>();
  acts.pullImage = () => pulling.promise;
  const uid = addPod("web");
  acts.runSandbox = async () => {
    observedPods.set(uid, { sandboxes: [sandbox], images: new Map([["busybox:1", { present: false }]]) });
    return {};
  };
  observedPods.set(uid, { images: new Map([["busybox:1", { present: false }]]) });
  acts.createContainer = () => new Promise(() => {});
  loop.wake(uid);
  await settlePromises();
  expect(takeLog().toSorted()).toEqual([
    "0s web: makeResource",
    "0s web: makeResource",
    "0s web: pullImage",
    "0s web: runSandbox",
  ]);
  observedPods.set(uid, { sandboxes: [sandbox], images: present });
  pulling.resolve({ imageRef: "r" });
  await settlePromises();
  expect(takeLog()).toEqual(["0s web: createContainer"]);
});

const runningContainer = {
  id: "c" as ContainerId,
  name: "a",
  sandboxId: sandbox.id,
  attempt: 0,
  createdAt: 0,
  image: "busybox:1",
  imageRef: "r",
  hash: undefined,
  crashes: 0,
  state: "running",
  startedAt: 0,
} as const;
const exitedContainer = {
  ...runningContainer,
  state: "exited",
  finishedAt: 0,
  exitCode: 143,
  reason: "Error",
  message: "",
} as const;
const runningPod = { sandboxes: [sandbox], containers: [runningContainer] };
const deleted = { termination: { requestedAt: 0, gracePeriodSeconds: 30, why: "it was deleted" } };

/** A terminating pod whose container is being stopped. */
async function createStoppingPod(ports: TestLoopOptions = {}) {
  const loopTest = createTestLoop(ports);
  const uid = loopTest.addPod("web");
  loopTest.desiredPods.set(uid, { ...(loopTest.desiredPods.get(uid) as DesiredPodView), ...deleted });
  loopTest.observedPods.set(uid, runningPod);
  loopTest.acts.stopContainer = until;
  loopTest.loop.wake(uid);
  await settlePromises();
  expect(loopTest.takeLog()).toEqual(["0s web: stopContainer"]);
  return { ...loopTest, uid };
}

test("a container stop runs in the background: syncs continue to report, and the stop is started once", async () => {
  const reports: string[] = [];
  const { uid, loop, takeLog } = await createStoppingPod({
    onStatusDecided: (decided) => void reports.push(decided.uid),
  });
  loop.wake(uid);
  await settlePromises();
  expect({ reports, log: takeLog() }).toEqual({ reports: ["web", "web"], log: [] });
});

test("a stop is aborted and restarted when the grace period is shortened", async () => {
  const { uid, desiredPods, loop, takeLog } = await createStoppingPod();
  const sooner = { ...deleted.termination, gracePeriodSeconds: 5 };
  desiredPods.set(uid, { ...(desiredPods.get(uid) as DesiredPodView), termination: sooner });
  loop.cancelOutdated(uid);
  await settlePromises();
  expect(takeLog()).toEqual(["0s web: stopContainer cancelled", "0s web: stopContainer"]);
});

test("cancelOutdated aborts nothing that started under the same termination request, so that no hook runs twice", async () => {
  const { uid, desiredPods, loop, takeLog } = await createStoppingPod();
  // The same request, decoded again.
  desiredPods.set(uid, { ...(desiredPods.get(uid) as DesiredPodView), termination: { ...deleted.termination } });
  loop.cancelOutdated(uid);
  await settlePromises();
  expect(takeLog()).toEqual([]);
});

test("cancelOutdated keeps the calls of the current request, and aborts them when the pod is no longer desired", async () => {
  const { clock, desiredPods, observedPods, acts, loop, addPod, takeLog } = createTestLoop();
  const uid = addPod("web");
  desiredPods.set(uid, { ...(desiredPods.get(uid) as DesiredPodView), ...deleted });
  observedPods.set(uid, { sandboxes: [sandbox] });
  acts.stopSandbox = until;
  loop.wake(uid);
  await settlePromises();
  loop.cancelOutdated(uid);
  await clock.advance(20_000);
  expect(takeLog()).toEqual(["0s web: stopSandbox"]);
  desiredPods.delete(uid);
  loop.cancelOutdated(uid);
  await clock.advance(0);
  expect(takeLog()).toEqual(["20s web: stopSandbox cancelled", "20s web: stopSandbox"]);
});

test("stopping the loop does not wait for grace periods", async () => {
  const { loop, takeLog } = await createStoppingPod();
  await loop.stop();
  expect(takeLog()).toEqual(["0s web: stopContainer cancelled"]);
});

const lastObservations: readonly (readonly [
  name: string,
  end: (pending: PromiseWithResolvers<ObservedPod>) => void,
])[] = [
  ["that succeeds", ({ resolve }) => resolve({ ...emptyObservedPod("web" as PodUid, "shop", "web"), ...runningPod })],
  ["that fails", ({ reject }) => reject(new CriError("UNAVAILABLE", "ListPodSandbox", "away"))],
];
for (const [name, end] of lastObservations)
  test(`stopping the loop during an observation ${name} starts no call and leaves no timer`, async () => {
    const pending = Promise.withResolvers<ObservedPod>();
    const { clock, loop, acts, addPod, desiredPods, takeLog } = createTestLoop({ observe: () => pending.promise });
    acts.stopContainer = until;
    const uid = addPod("web");
    desiredPods.set(uid, { ...(desiredPods.get(uid) as DesiredPodView), ...deleted });
    loop.wake(uid);
    await settlePromises();
    const stopped = loop.stop();
    end(pending);
    await settlePromises();
    expect(takeLog().filter((line) => !line.endsWith("sync failed"))).toEqual([]);
    await stopped;
    expect(clock.pendingTimers).toBe(0);
  });

test("a pod whose first observation does not end is reported after two seconds, once", async () => {
  const pending = Promise.withResolvers<ObservedPod>();
  const reports: (string | undefined)[] = [];
  const { clock, loop, addPod } = createTestLoop({
    observe: () => pending.promise,
    onStatusDecided: ({ status }) => reports.push(status.message),
  });
  loop.wake(addPod("web"));
  await clock.advance(1_999);
  expect(reports).toEqual([]);
  await clock.advance(60_000);
  expect(reports).toEqual(["the pod's containers cannot be observed yet: the container runtime has not answered yet"]);
  expect(clock.pendingTimers).toBe(0);
});

test("the sandbox is not stopped before the stop call of its container has returned, even if the container has exited", async () => {
  const { uid, loop, observedPods, takeLog } = await createStoppingPod();
  observedPods.set(uid, { sandboxes: [sandbox], containers: [exitedContainer] });
  loop.wake(uid);
  await settlePromises();
  expect(takeLog()).toEqual([]);
});

test("an observation that started before a stop returned does not make the stop a failure", async () => {
  const pendingObservations: (() => void)[] = [];
  const stopping = Promise.withResolvers<ActionOutput>();
  let containers: ObservedPod["containers"] = [runningContainer];
  const { loop, acts, takeLog, addPod, desiredPods } = createTestLoop({
    async observe(about) {
      const found = containers;
      await new Promise<void>((resolve) => pendingObservations.push(resolve));
      return { ...emptyObservedPod(about, "shop", about), sandboxes: [sandbox], containers: found };
    },
  });
  const uid = addPod("web");
  desiredPods.set(uid, { ...(desiredPods.get(uid) as DesiredPodView), ...deleted });
  acts.stopContainer = () => stopping.promise;
  acts.stopSandbox = () => new Promise(() => {});
  const observeOnce = async () => {
    await settlePromises();
    pendingObservations.shift()?.();
    await settlePromises();
  };
  loop.wake(uid);
  await observeOnce();
  loop.wake(uid);
  await settlePromises();
  containers = [exitedContainer];
  stopping.resolve({});
  await observeOnce();
  await observeOnce();
  expect(takeLog()).toEqual(["0s web: stopContainer", "0s web: stopSandbox"]);
});

test("an observation that started before a pull returned does not make the pull a failure", async () => {
  const pendingObservations: (() => void)[] = [];
  const pulling = Promise.withResolvers<ActionOutput>();
  let images: ObservedPod["images"] = new Map([["busybox:1", { present: false }]]);
  const { loop, acts, takeLog, addPod } = createTestLoop({
    async observe(about) {
      const found = images;
      await new Promise<void>((resolve) => pendingObservations.push(resolve));
      return { ...emptyObservedPod(about, "shop", about), sandboxes: [sandbox], images: found };
    },
  });
  const uid = addPod("web");
  acts.pullImage = () => pulling.promise;
  acts.createContainer = () => new Promise(() => {});
  const observeOnce = async () => {
    await settlePromises();
    pendingObservations.shift()?.();
    await settlePromises();
  };
  loop.wake(uid);
  for (let turn = 0; turn < 4; turn++) await observeOnce();
  expect(takeLog()).toContain("0s web: pullImage");
  loop.wake(uid);
  await settlePromises();
  images = present;
  pulling.resolve({ imageRef: "r" });
  for (let turn = 0; turn < 4; turn++) await observeOnce();
  expect(takeLog().filter((line) => line.includes("failed"))).toEqual([]);
});

test("an exception while one pod is decided or reported does not affect other pods, and is retried", async () => {
  let isBroken = true;
  const { clock, loop, addPod, takeLog } = createTestLoop({
    onStatusDecided({ uid }) {
      if (uid === "odd" && isBroken) throw new TypeError("undefined is not an object");
    },
  });
  for (const name of ["odd", "well"]) loop.wake(addPod(name));
  await clock.advance(1_000);
  expect(takeLog().filter((line) => /sync failed|makeResource/.test(line))).toEqual([
    "0s odd: sync failed",
    "0s well: makeResource",
    "0s well: makeResource",
  ]);
  isBroken = false;
  await clock.advance(2_000);
  expect(takeLog()).toContain("2s odd: makeResource");
});

test("no more pods start at once than there are slots, and higher priorities go first", async () => {
  const { observedPods, acts, loop, addPod, takeLog } = createTestLoop({ startSlots: 2 });
  const starting = new Map<PodUid, number>();
  let maxStarting = 0;
  const ends: (() => void)[] = [];
  acts.makeResource = async (_signal, uid) => {
    starting.set(uid, (starting.get(uid) ?? 0) + 1);
    maxStarting = Math.max(maxStarting, starting.size);
    await new Promise<void>((resolve) => ends.push(resolve));
    const left = (starting.get(uid) ?? 0) - 1;
    if (left === 0) starting.delete(uid);
    else starting.set(uid, left);
    observedPods.set(uid, { sandboxes: [sandbox], images: new Map([["busybox:1", { present: true }]]) as never });
    return {};
  };
  acts.runSandbox = () => Promise.reject(new CriError("UNKNOWN", "RunPodSandbox", "no"));
  acts.createContainer = () => Promise.reject(new CriError("UNKNOWN", "CreateContainer", "no"));
  for (const [name, priority] of [
    ["a", 0],
    ["b", 0],
    ["low", 0],
    ["high", 1000],
  ] as const)
    loop.wake(addPod(name, { priority }));
  await settlePromises();
  while (ends.length > 0) {
    ends.shift()?.();
    await settlePromises();
  }
  expect(maxStarting).toBe(2);
  const order = new Set(takeLog().filter((line) => line.endsWith("makeResource")));
  expect([...order]).toEqual(["a", "b", "high", "low"].map((name) => `0s ${name}: makeResource`));
});

test("terminations need no start slot and continue while all slots are taken", async () => {
  const { observedPods, acts, loop, addPod, takeLog } = createTestLoop({ startSlots: 1 });
  acts.makeResource = () => new Promise(() => {});
  loop.wake(addPod("web"));
  await settlePromises();
  const gone = "gone" as PodUid;
  observedPods.set(gone, { sandboxes: [sandbox] });
  acts.stopSandbox = async () => {
    observedPods.set(gone, { sandboxes: [{ ...sandbox, ready: false }] });
    return {};
  };
  acts.removeSandbox = async () => {
    observedPods.delete(gone);
    return {};
  };
  loop.wake(gone);
  await settlePromises();
  expect(takeLog()).toEqual([
    "0s web: runSandbox",
    "0s web: makeResource",
    "0s web: makeResource",
    "0s gone: stopSandbox",
    "0s gone: removeSandbox",
    "0s gone: finished",
  ]);
});

test("a pod that terminates while it starts frees its slot", async () => {
  const { clock, acts, loop, addPod, desiredPods, takeLog } = createTestLoop({ startSlots: 1 });
  const making = Promise.withResolvers<ActionOutput>();
  acts.makeResource = async (_, uid) => (uid === "a" ? await making.promise : {});
  const [first, second] = [addPod("a"), addPod("b")];
  loop.wake(first);
  loop.wake(second);
  await settlePromises();
  desiredPods.delete(first);
  loop.cancelOutdated(first);
  await clock.advance(1_000);
  making.resolve({});
  await settlePromises();
  expect(takeLog().slice(0, 6)).toEqual([
    "0s a: runSandbox",
    "0s a: makeResource",
    "0s a: makeResource",
    "1s a: finished",
    "1s b: runSandbox",
    "1s b: makeResource",
  ]);
});

test("a failed observation is reported and retried after two seconds, then with delays that double up to thirty seconds", async () => {
  let isAway = true;
  const { clock, loop, addPod, takeLog } = createTestLoop({
    observe: async (uid) => {
      if (isAway) throw new CriError("UNAVAILABLE", "ListPodSandbox", "away");
      return emptyObservedPod(uid, "shop", uid);
    },
  });
  const uid = addPod("web");
  const failedSyncTimes = () => takeLog().flatMap((line) => (line.endsWith("sync failed") ? [line.split(" ")[0]] : []));
  loop.wake(uid);
  await clock.advance(121_000);
  expect(failedSyncTimes()).toEqual(["0s", "2s", "6s", "14s", "30s", "60s", "90s", "120s"]);
  // A wake in between syncs at once and does not move the next retry.
  loop.wake(uid);
  await clock.advance(29_000);
  expect(failedSyncTimes()).toEqual(["121s", "150s"]);
  // The runtime is back, and away again.
  loop.retryAfterOutage();
  loop.wake(uid);
  await clock.advance(2_000);
  expect(failedSyncTimes()).toEqual(["150s", "152s"]);
  isAway = false;
  await clock.advance(4_000);
  isAway = true;
  loop.wake(uid);
  await clock.advance(2_000);
  expect(failedSyncTimes().slice(-2)).toEqual(["156s", "158s"]);
});

test("a pod is decided after every subscriber has followed the observation, and retried if one fails", async () => {
  const steps: string[] = [];
  let isBroken = true;
  const { clock, loop, addPod, takeLog } = createTestLoop({
    onObserved({ uid }, desired) {
      steps.push(`${uid} observed${desired === undefined ? "" : ", desired"}`);
      if (isBroken) throw new Error("the disk is full");
    },
    onStatusDecided: ({ uid }) => void steps.push(`${uid} decided`),
  });
  loop.wake(addPod("web"));
  await settlePromises();
  expect([steps.splice(0), takeLog()]).toEqual([["web observed, desired"], ["0s web: sync failed"]]);
  isBroken = false;
  await clock.advance(2_000);
  expect(steps.slice(0, 2)).toEqual(["web observed, desired", "web decided"]);
});

test("a decision that keeps failing is retried with delays that double", async () => {
  const { clock, loop, addPod, takeLog } = createTestLoop({
    onStatusDecided() {
      throw new TypeError("undefined is not an object");
    },
  });
  loop.wake(addPod("odd"));
  await clock.advance(60_000);
  expect(takeLog()).toEqual([0, 2, 6, 14, 30, 60].map((seconds) => `${seconds}s odd: sync failed`));
});

test("an exception while an unobserved pod is reported is a failure of its sync, and the pod is observed again", async () => {
  const { clock, loop, addPod, takeLog } = createTestLoop({
    observe: () => Promise.reject(new CriError("UNAVAILABLE", "ListPodSandbox", "away")),
    onStatusDecided() {
      throw new TypeError("undefined is not an object");
    },
  });
  loop.wake(addPod("odd"));
  await clock.advance(6_000);
  // The first failure is not reported.
  expect(takeLog()).toEqual([0, 2, 2, 6, 6].map((seconds) => `${seconds}s odd: sync failed`));
});

test("an exception while a finished action is reported does not lose its result", async () => {
  const { uid, desiredPods, loop, takeLog } = await createStoppingPod({
    onActionFinished() {
      throw new TypeError("undefined is not an object");
    },
  });
  const sooner = { ...deleted.termination, gracePeriodSeconds: 5 };
  desiredPods.set(uid, { ...(desiredPods.get(uid) as DesiredPodView), termination: sooner });
  loop.cancelOutdated(uid);
  await settlePromises();
  expect(takeLog()).toEqual(["0s web: stopContainer cancelled", "0s web: sync failed", "0s web: stopContainer"]);
});

test("a pod of which nothing is left is finished once, and a wake during its last sync creates it again", async () => {
  const { loop, takeLog } = createTestLoop({
    observe: async (uid) => {
      await settlePromises();
      if (observationCount++ === 0) loop.wake(uid);
      return emptyObservedPod(uid, "shop", "web");
    },
  });
  let observationCount = 0;
  loop.wake("web" as PodUid);
  await loop.settled();
  expect(takeLog()).toEqual(["0s web: finished", "0s web: finished"]);
  expect(observationCount).toBe(2);
});

test("stop waits for the calls under way, and no sync or timer runs afterwards", async () => {
  const { clock, observedPods, acts, loop, addPod, takeLog } = createTestLoop();
  const acting = Promise.withResolvers<ActionOutput>();
  acts.makeResource = () => acting.promise;
  const uid = addPod("web");
  observedPods.set(uid, { images: present });
  loop.wake(uid);
  await settlePromises();
  let hasStopped = false;
  const stopped = loop.stop().then(() => {
    hasStopped = true;
  });
  await settlePromises();
  expect(hasStopped).toBe(false);
  acting.resolve({});
  await stopped;
  expect(clock.pendingTimers).toBe(0);
  loop.wake(uid);
  await clock.advance(60_000);
  expect(takeLog()).toEqual(["0s web: runSandbox", "0s web: makeResource", "0s web: makeResource"]);
});
