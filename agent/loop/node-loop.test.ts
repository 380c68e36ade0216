import { expect, test } from "bun:test";
import { createEventSource } from "../../host/async/event-source.ts";
import type { PodUid } from "../../proto/ids.ts";
import { FakeClock, settlePromises } from "../../test/fakes/clock.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { nodeSettings, observedNode } from "../../test/fakes/observed-node.ts";
import type { NodeRule } from "../decide/node/node.ts";
import type { NodeObservation } from "../decide/node/observed-node.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import { createNodeLoop, type NodeLoopPods, type NodeLoopPorts } from "./node-loop.ts";

const web: DesiredPod = {
  uid: "u" as PodUid,
  pod: { metadata: { name: "web" }, spec: { containers: [] } },
  source: { kind: "api" },
  acceptedAt: 0,
  revision: 0,
};

function startLoop(rules: readonly NodeRule[] = [], act: NodeLoopPorts["act"] = async () => {}) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const stop = new AbortController();
  const calls: string[] = [];
  let observed: NodeObservation = { ...observedNode, signals: undefined };
  let pods: readonly DesiredPod[] = [];
  const loop = createNodeLoop({
    clock,
    log,
    settings: nodeSettings,
    rules,
    observed: () => observed,
    onStatusChanged: () => void calls.push("the status has changed"),
  });
  const requestTermination = async (uid: PodUid, { reason }: { readonly reason: string }) =>
    void calls.push(`${clock.elapsedMs} ms end ${uid}: ${reason}`);
  const changes = createEventSource();
  const subscribe: NodeLoopPods["subscribe"] = ({ onPodUpdated }) => changes.subscribe(onPodUpdated);
  const desired = { all: () => pods, areAllSourcesReady: () => true, subscribe, requestTermination };
  const ended = loop.run(
    { desired, act, recordEvent: ({ reason }) => void calls.push(`event ${reason}`) },
    stop.signal,
  );
  return {
    clock,
    log,
    calls,
    loop,
    async measure(memory: number, disk = 50e9) {
      await clock.advance(1);
      const observations = {
        "memory.available": { capacity: 8 * 2 ** 30, available: memory },
        "nodefs.available": { capacity: 100e9, available: disk },
      };
      observed = { ...observedNode, signals: { at: clock.now(), observations } };
      loop.wake();
      await settlePromises();
    },
    async setPods(...next: readonly DesiredPod[]) {
      pods = next;
      changes.emit();
      await settlePromises();
    },
    async end() {
      stop.abort();
      await ended;
      expect(clock.pendingTimers).toBe(0);
    },
  };
}

test("a change of the pressure is decided, logged with its threshold and reported; an equal measurement is not", async () => {
  const { clock, log, calls, loop, measure, end } = startLoop();
  await measure(2 ** 30);
  expect([calls, log.takeLines()]).toEqual([[], []]);
  await measure(2 ** 20);
  await measure(2 ** 20);
  expect(loop.status().pressure).toEqual({ memory: true, disk: false, pid: false });
  expect(calls.splice(0)).toEqual(["the status has changed"]);
  expect(log.takeLines()).toEqual([
    "warn: the node is under pressure: memory.available is 1048576 of 8589934592, its hard threshold 100Mi",
  ]);
  await clock.advance(300_000);
  await measure(2 ** 30);
  expect([calls, log.takeLines()]).toEqual([
    ["the status has changed"],
    ["info: the node is no longer under pressure"],
  ]);
  await end();
});

test("a new pressure is a warning also where it replaces another; the log says which pressure remains", async () => {
  const { clock, log, measure, end } = startLoop();
  const [memoryMet, diskMet] = [
    "memory.available is 0 of 8589934592, its hard threshold 100Mi",
    "nodefs.available is 0 of 100000000000, its hard threshold 10%",
  ];
  const steps: readonly [memory: number, disk: number | undefined, line: string][] = [
    [0, undefined, `warn: the node is under pressure: ${memoryMet}`],
    [2 ** 30, 0, `warn: the node is under pressure: ${diskMet}`],
    [0, 0, `warn: the node is under pressure: ${memoryMet}; ${diskMet}`],
    [2 ** 30, 0, "info: the node is still under pressure: disk"],
    [2 ** 30, undefined, "info: the node is no longer under pressure"],
  ];
  for (const [memoryLeft, diskLeft, line] of steps) {
    await measure(memoryLeft, diskLeft);
    expect(log.takeLines()).toEqual([line]);
    await clock.advance(300_000);
  }
  await end();
});

test("a rule is decided with each change of the pods and when it is due; its requests go to the desired pods", async () => {
  const { clock, calls, setPods, end } = startLoop([
    {
      name: "drain",
      decide({ pods, now }) {
        const dueAt = FakeClock.start + 10_000;
        if (now < dueAt) return { lookAgainAt: dueAt };
        const requests = pods.map(({ uid }) => ({ uid, reason: "Drained", message: "m", gracePeriodSeconds: 1 }));
        return { terminationRequests: requests };
      },
    },
  ]);
  await setPods(web);
  await clock.advance(9_999);
  expect(calls).toEqual([]);
  await clock.advance(1);
  expect(calls.splice(0)).toEqual(["10000 ms end u: Drained"]);
  await clock.advance(60_000);
  expect([calls, clock.pendingTimers]).toEqual([[], 0]);
  await setPods(web, { ...web, uid: "v" as PodUid });
  expect(calls).toEqual(["70000 ms end u: Drained", "70000 ms end v: Drained"]);
  await end();
});

test("a rule that fails is logged and does not end the loop", async () => {
  let isBroken = true;
  const { log, calls, setPods, end } = startLoop([
    {
      name: "broken",
      decide({ pods }) {
        if (isBroken) throw new Error("a bug");
        return {
          terminationRequests: pods.map(({ uid }) => ({ uid, reason: "R", message: "m", gracePeriodSeconds: 1 })),
        };
      },
    },
  ]);
  expect(log.takeLines()).toEqual([
    "error: a bug: nothing can be decided about the node; its pressure stays, and the next change of the node or of a pod decides again",
  ]);
  isBroken = false;
  await setPods(web);
  expect(calls).toEqual(["0 ms end u: R"]);
  await end();
});

const removal: NodeRule<boolean> = {
  name: "removal",
  emptyMemory: true,
  decide: ({ now }) => ({
    actions: now < FakeClock.start + 10_000 ? [{ kind: "removeImage", image: "sha256:1", why: "no pod uses it" }] : [],
  }),
};

test("an action of the node runs once at a time and is retried after a failure; each end is logged", async () => {
  const results: PromiseWithResolvers<void>[] = [];
  const { clock, log, end, loop } = startLoop([removal], () => {
    const result = Promise.withResolvers<void>();
    results.push(result);
    return result.promise;
  });
  loop.wake();
  await settlePromises();
  expect([results.length, log.takeLines()]).toEqual([1, []]);
  results[0]?.reject(new Error("the image is in use"));
  await settlePromises();
  expect(log.takeLines()).toEqual(["warn: failed to remove image sha256:1: no pod uses it"]);
  await clock.advance(999);
  expect(results).toHaveLength(1);
  await clock.advance(1);
  expect(results).toHaveLength(2);
  results[1]?.resolve();
  await clock.advance(60_000);
  expect([results.length, log.takeLines()]).toEqual([2, ["info: remove image sha256:1: no pod uses it"]]);
  await end();
});

test("the loop ends when its actions have ended", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const aborted: boolean[] = [];
  const { end } = startLoop([removal], (_, signal) => {
    signal.addEventListener("abort", () => {
      aborted.push(true);
      setImmediate(resolve);
    });
    return promise;
  });
  await settlePromises();
  await end();
  expect(aborted).toEqual([true]);
});

test("the events of a decision are recorded", async () => {
  const event = { type: "Normal", reason: "NodeAllocatableEnforced", message: "Updated" } as const;
  const { calls, end } = startLoop([{ name: "a", decide: () => ({ events: [event] }) }]);
  await settlePromises();
  expect(calls).toEqual(["event NodeAllocatableEnforced"]);
  await end();
});
