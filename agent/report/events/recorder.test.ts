import { expect, test } from "bun:test";
import { sleep } from "../../../host/clock.ts";
import { KubeError } from "../../../kube/error.ts";
import { events } from "../../../kube/resource.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createEventRecorder } from "./recorder.ts";

const about = (name = "web") => ({ kind: "Pod", apiVersion: "v1", namespace: "shop", name, uid: name });
const unreachable = () => new KubeError("UNREACHABLE", "connection refused");

function createFixture(delayMs = 0) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock });
  const recorder = createEventRecorder({ kube, nodeName: "n", clock, log, random: () => 0, delayMs });
  const record = (message: string, name = "web") =>
    recorder.record(about(name), { type: "Normal", reason: "Tried", message });
  const all = async () => (await kube.user.list(events("shop"), {})).items;
  /** The events that the API server has stored. */
  const inOrder = async () =>
    (await all()).toSorted((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion));
  const stored = async () => (await all()).map((event) => `${event.count}x ${event.message}`);
  return { clock, log, kube, recorder, record, all, inOrder, stored, requests: () => kube.calls.splice(0) };
}

test("an event is created once, and repetitions increase its count", async () => {
  const { clock, recorder, record, stored, requests } = createFixture();
  record("m");
  await settlePromises();
  await clock.advance(5000);
  record("m");
  await recorder.settled();
  expect(await stored()).toEqual(["2x m"]);
  expect(requests().map((call) => call.split(" ")[0]!)).toEqual(["create", "patch"]);
});

test("two agents that record in the same millisecond give their events different names", async () => {
  const { clock, log, kube, recorder, record, stored } = createFixture();
  const next = createEventRecorder({ kube, nodeName: "n", clock, log, random: () => 0.5, delayMs: 0 });
  record("first");
  next.record(about(), { type: "Normal", reason: "Tried", message: "second" });
  for (const each of [recorder, next]) await each.settled();
  // The agent that names its event like an existing one takes its request for a repeated one.
  expect((await stored()).toSorted()).toEqual(["1x first", "1x second"]);
});

test("an event is sent after the delay, with those that have come since, and at once when its recorder settles", async () => {
  const { clock, recorder, record, stored } = createFixture(20);
  record("first");
  await clock.advance(19);
  record("second", "web-2");
  await settlePromises();
  expect(await stored()).toEqual([]);
  await clock.advance(1);
  await settlePromises();
  expect((await stored()).toSorted()).toEqual(["1x first", "1x second"]);
  record("third");
  await recorder.settled();
  expect((await stored()).toSorted()).toEqual(["1x first", "1x second", "1x third"]);
});

test("the counts of a forgotten object's events begin again at one, those of other objects go on", async () => {
  const { recorder, record, stored } = createFixture();
  for (const name of ["web", "web-2"]) record("m", name);
  recorder.forget("web");
  for (const name of ["web", "web-2"]) record("m", name);
  await recorder.settled();
  expect((await stored()).toSorted()).toEqual(["1x m", "1x m", "2x m"]);
});

test("an event that the API server has deleted is created again with its count", async () => {
  const { kube, recorder, record, all, stored } = createFixture();
  record("m");
  await recorder.settled();
  for (const { metadata } of await all()) await kube.user.delete(events("shop"), metadata.name!);
  record("m");
  await recorder.settled();
  expect(await stored()).toEqual(["2x m"]);
});

test("from the tenth on, events that differ only in their message are aggregated", async () => {
  const { recorder, record, stored } = createFixture();
  for (let i = 1; i <= 12; i++) record(`m${i}`);
  await recorder.settled();
  expect(await stored()).toHaveLength(10);
  expect(await stored()).toContain("3x (combined from similar events): m12");
});

test("one object sends at most 25 events at once, without limiting other objects", async () => {
  const { clock, recorder, record, stored } = createFixture();
  for (let i = 1; i <= 40; i++) record("m");
  record("other", "zoo");
  await recorder.settled();
  expect(await stored()).toEqual(["40x m", "1x other"]);
  for (let i = 1; i <= 5; i++) record("m");
  await recorder.settled();
  expect(await stored()).toEqual(["40x m", "1x other"]);
  await clock.advance(300_000);
  record("m");
  await recorder.settled();
  expect(await stored()).toEqual(["46x m", "1x other"]);
});

test("event names sort in the order of the events, also within a millisecond", async () => {
  const { clock, recorder, all } = createFixture();
  for (const message of ["1", "2", "3"]) recorder.record(about(), { reason: message, message });
  recorder.record(about(), { reason: "0", message: "0" }, clock.now() - 1);
  await recorder.settled();
  const byName = (await all()).toSorted((a, b) => (a.metadata.name! < b.metadata.name! ? -1 : 1));
  expect(byName.map(({ message }) => message!)).toEqual(["0", "1", "2", "3"]);
});

test("an event recorded at any moment of a send is sent", async () => {
  for (let moment = 0; moment < 60; moment++) {
    const { record, stored } = createFixture();
    record("first");
    for (let turn = 0; turn < moment; turn++) await Promise.resolve();
    record("second");
    await settlePromises();
    expect(`${moment} ${await stored()}`).toBe(`${moment} 1x first,1x second`);
  }
});

test("an outage queues a repeated event once and sends everything afterwards", async () => {
  const { clock, kube, recorder, record, stored } = createFixture();
  kube.goDown();
  record("first");
  for (let i = 1; i <= 5; i++) record("again");
  await clock.advance(60_000);
  expect(await stored()).toEqual([]);
  kube.comeBack();
  recorder.onRecovered();
  await recorder.settled();
  expect(await stored()).toEqual(["1x first", "5x again"]);
});

test("an endless outage drops the oldest events and logs their number", async () => {
  const { kube, recorder, record, all, log } = createFixture();
  kube.goDown();
  for (let i = 0; i < 1500; i++) record("m", `p${i}`);
  await settlePromises();
  kube.comeBack();
  recorder.onRecovered();
  await recorder.settled();
  const objectNames = (await all()).map(({ involvedObject }) => involvedObject.name);
  expect([objectNames.length, objectNames.includes("p1499"), objectNames.includes("p0")]).toEqual([1000, true, false]);
  expect(log.takeLines()).toEqual(["warn: events dropped because too many waited for the API server: 500"]);
  record("later");
  await recorder.settled();
  expect(log.takeLines()).toEqual([]);
});

test("a rejected event is not retried and blocks no other event", async () => {
  const { kube, recorder, record, stored, log } = createFixture();
  const ends = { status: 403, fields: ["metadata.namespace"] };
  kube.failures = { create: [new KubeError("FORBIDDEN", "the namespace ends", ends)] };
  record("refused");
  record("taken");
  await recorder.settled();
  expect(await stored()).toEqual(["1x taken"]);
  expect(log.lines.map(({ level, message }) => `${level}: ${message}`)).toEqual([
    "debug: the API server rejected an event",
  ]);
});

test("an event forbidden by a server that has just started is retried", async () => {
  const { clock, kube, recorder, record, stored } = createFixture();
  const refusal = () => new KubeError("FORBIDDEN", "not allowed", { status: 403 });
  kube.failures = { create: [refusal(), refusal(), refusal()] };
  record("m");
  await clock.advance(1_000);
  await recorder.settled();
  expect(await stored()).toEqual(["1x m"]);
});

test("events that stay forbidden block the others only briefly", async () => {
  const { clock, kube, recorder, record, requests, log } = createFixture();
  kube.before.create = () => {
    throw new KubeError("FORBIDDEN", "not allowed", { status: 403 });
  };
  for (let i = 1; i <= 5; i++) record("m", `p${i}`);
  await clock.advance(10_000);
  await recorder.settled();
  // The first round sends all, then a single one until it is dropped, then each of the others.
  expect(requests()).toHaveLength(5 + 6 + 4);
  expect(log.lines).toHaveLength(5);
  expect(log.takeLines()).toEqual(["warn: the API server rejected an event"]);
});

test("the log of a rejected event omits its message, which may contain a container's output", async () => {
  const { kube, recorder, record, log } = createFixture();
  kube.failures = { create: [new KubeError("INVALID", "not valid", { status: 422 })] };
  record("Readiness probe failed: the password is hunter2");
  await recorder.settled();
  expect(log.lines.map(({ fields: { err: _, ...fields } }) => fields)).toEqual([
    { reason: "Tried", kind: "Pod", name: "web", namespace: "shop" },
  ]);
});

test("an event whose response was lost is not created twice", async () => {
  const { clock, kube, recorder, record, stored } = createFixture();
  kube.after = {
    create() {
      kube.after = {};
      throw unreachable();
    },
  };
  record("m");
  await clock.advance(1000);
  await recorder.settled();
  expect(await stored()).toEqual(["1x m"]);
});

test("events of different objects are sent concurrently, those of one object in order", async () => {
  const { clock, kube, recorder, record, inOrder } = createFixture();
  let delayMs = 200;
  kube.before.create = () => sleep(clock, delayMs--);
  for (let i = 1; i <= 80; i++) record("m", `p${i}`);
  for (const message of ["1", "2", "3"]) record(message, "p1");
  await clock.advance(2_600);
  await recorder.settled();
  const messages = (await inOrder()).map(({ message }) => message);
  expect([messages.length, ...messages.filter((each) => each !== "m")]).toEqual([83, "1", "2", "3"]);
});

test("after a failure a single event probes the server, and all keep their order", async () => {
  const { clock, kube, record, requests, inOrder } = createFixture();
  kube.goDown();
  for (let i = 1; i <= 20; i++) record("m", `p${i}`);
  await settlePromises();
  expect(requests()).toHaveLength(8);
  await clock.advance(10_000);
  expect(requests().length).toBeLessThan(9);
  kube.comeBack();
  await clock.advance(10_000);
  expect((await inOrder()).map(({ involvedObject }) => involvedObject.name!)).toEqual(
    Array.from({ length: 20 }, (_, i) => `p${i + 1}`),
  );
});

test("an event of a terminating namespace is dropped without a warning", async () => {
  const { kube, recorder, record, log } = createFixture();
  kube.failures = { create: [new KubeError("NOT_FOUND", "namespaces shop not found", { status: 404 })] };
  record("m");
  await recorder.settled();
  expect(log.takeLines()).toEqual([]);
});

test("a stopped recorder sends nothing and leaves no timer", async () => {
  const { clock, kube, recorder, record, requests, log } = createFixture();
  kube.goDown();
  record("m");
  await settlePromises();
  requests();
  recorder.stop();
  await recorder.settled();
  record("n");
  await clock.advance(60_000);
  expect([...requests(), clock.pendingTimers]).toEqual([0]);
  expect(log.takeLines()).toEqual(["warn: events dropped because the agent stops: 1"]);
});
