import { expect, test } from "bun:test";
import { sleep } from "../../../host/clock.ts";
import { KubeError } from "../../../kube/error.ts";
import { events } from "../../../kube/resource.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createEventRecorder } from "./recorder.ts";

const about = (name = "web") => ({ kind: "Pod", apiVersion: "v1", namespace: "shop", name, uid: name });
const unreachable = () => new KubeError("UNREACHABLE", "connection refused");

function createScene() {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kube = new FakeKube({ clock });
  const recorder = createEventRecorder({ kube, nodeName: "n", clock, log });
  const record = (message: string, name = "web") =>
    recorder.record(about(name), { type: "Normal", reason: "Tried", message });
  const all = async () => (await kube.user.list(events("shop"), {})).items;
  /** As the API server has taken them. */
  const inOrder = async () =>
    (await all()).toSorted((a, b) => Number(a.metadata.resourceVersion) - Number(b.metadata.resourceVersion));
  const stored = async () => (await all()).map((event) => `${event.count}x ${event.message}`);
  return { clock, log, kube, recorder, record, all, inOrder, stored, told: () => kube.calls.splice(0) };
}

test("what happens is told once, and what happens again counts", async () => {
  const { clock, recorder, record, stored, told } = createScene();
  record("m");
  await rest();
  await clock.advance(5000);
  record("m");
  await recorder.settled();
  expect(await stored()).toEqual(["2x m"]);
  expect(told().map((call) => call.split(" ")[0]!)).toEqual(["create", "patch"]);
});

test("an event that the cluster has forgotten is made anew, and keeps its count", async () => {
  const { kube, recorder, record, all, stored } = createScene();
  record("m");
  await recorder.settled();
  for (const { metadata } of await all()) await kube.user.delete(events("shop"), metadata.name!);
  record("m");
  await recorder.settled();
  expect(await stored()).toEqual(["2x m"]);
});

test("from the tenth that differ in their message alone they are one", async () => {
  const { recorder, record, stored } = createScene();
  for (let i = 1; i <= 12; i++) record(`m${i}`);
  await recorder.settled();
  expect(await stored()).toHaveLength(10);
  expect(await stored()).toContain("3x (combined from similar events): m12");
});

test("one object tells no more than 25 at once, and does not keep others from telling", async () => {
  const { clock, recorder, record, stored } = createScene();
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

test("names sort in the order in which things happened, within a millisecond too", async () => {
  const { clock, recorder, all } = createScene();
  for (const message of ["1", "2", "3"]) recorder.record(about(), { reason: message, message });
  recorder.record(about(), { reason: "0", message: "0" }, clock.now() - 1);
  await recorder.settled();
  const byName = (await all()).toSorted((a, b) => (a.metadata.name! < b.metadata.name! ? -1 : 1));
  expect(byName.map(({ message }) => message!)).toEqual(["0", "1", "2", "3"]);
});

test("an event that comes at whatever moment is told", async () => {
  for (let moment = 0; moment < 60; moment++) {
    const { record, stored } = createScene();
    record("first");
    for (let turn = 0; turn < moment; turn++) await Promise.resolve();
    record("second");
    await rest();
    expect(`${moment} ${await stored()}`).toBe(`${moment} 1x first,1x second`);
  }
});

test("in an outage what happens again takes no second place, and all is told when it is over", async () => {
  const { clock, kube, recorder, record, stored } = createScene();
  kube.goDown();
  record("first");
  for (let i = 1; i <= 5; i++) record("again");
  await clock.advance(60_000);
  expect(await stored()).toEqual([]);
  kube.comeBack();
  recorder.back();
  await recorder.settled();
  expect(await stored()).toEqual(["1x first", "5x again"]);
});

test("an outage without an end forgets the oldest, and says how many", async () => {
  const { kube, recorder, record, all, log } = createScene();
  kube.goDown();
  for (let i = 0; i < 1500; i++) record("m", `p${i}`);
  await rest();
  kube.comeBack();
  recorder.back();
  await recorder.settled();
  const told = (await all()).map(({ involvedObject }) => involvedObject.name);
  expect([told.length, told.includes("p1499"), told.includes("p0")]).toEqual([1000, true, false]);
  expect(log.told()).toEqual(["warn: events forgotten, since the API server did not take them in time: 500"]);
  record("later");
  await recorder.settled();
  expect(log.told()).toEqual([]);
});

test("what the server does not take is not sent again, and holds up nothing", async () => {
  const { kube, recorder, record, stored, log } = createScene();
  const ends = { status: 403, fields: ["metadata.namespace"] };
  kube.failures = { create: [new KubeError("FORBIDDEN", "the namespace ends", ends)] };
  record("refused");
  record("taken");
  await recorder.settled();
  expect(await stored()).toEqual(["1x taken"]);
  expect(log.lines.map(({ level, message }) => `${level}: ${message}`)).toEqual(["debug: an event was refused"]);
});

test("an API server that has just started may refuse what it takes a moment later", async () => {
  const { clock, kube, recorder, record, stored } = createScene();
  const refusal = () => new KubeError("FORBIDDEN", "not allowed", { status: 403 });
  kube.failures = { create: [refusal(), refusal(), refusal()] };
  record("m");
  await clock.advance(1_000);
  await recorder.settled();
  expect(await stored()).toEqual(["1x m"]);
});

test("where events are forbidden for good, none holds up the others for long", async () => {
  const { clock, kube, recorder, record, told, log } = createScene();
  kube.before.create = () => {
    throw new KubeError("FORBIDDEN", "not allowed", { status: 403 });
  };
  for (let i = 1; i <= 5; i++) record("m", `p${i}`);
  await clock.advance(10_000);
  await recorder.settled();
  // The first of all at once, then one alone until it is given up, and each of the others.
  expect(told()).toHaveLength(5 + 6 + 4);
  expect(log.lines).toHaveLength(5);
  expect(log.told()).toEqual(["warn: an event was refused"]);
});

test("what is said of a refused event holds nothing of its message, which may be a container's own words", async () => {
  const { kube, recorder, record, log } = createScene();
  kube.failures = { create: [new KubeError("INVALID", "not valid", { status: 422 })] };
  record("Readiness probe failed: the password is hunter2");
  await recorder.settled();
  expect(log.lines.map(({ fields: { err: _, ...fields } }) => fields)).toEqual([
    { reason: "Tried", kind: "Pod", name: "web", namespace: "shop" },
  ]);
});

test("a try whose answer was lost is not told twice", async () => {
  const { clock, kube, recorder, record, stored } = createScene();
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

test("those of different objects do not wait for each other, and those of one are told in order", async () => {
  const { clock, kube, recorder, record, inOrder } = createScene();
  let delayMs = 200;
  kube.before.create = () => sleep(clock, delayMs--);
  for (let i = 1; i <= 80; i++) record("m", `p${i}`);
  for (const message of ["1", "2", "3"]) record(message, "p1");
  await clock.advance(2_600);
  await recorder.settled();
  const messages = (await inOrder()).map(({ message }) => message);
  expect([messages.length, ...messages.filter((each) => each !== "m")]).toEqual([83, "1", "2", "3"]);
});

test("after a failure one alone tries whether the server takes any, and none loses its place", async () => {
  const { clock, kube, record, told, inOrder } = createScene();
  kube.goDown();
  for (let i = 1; i <= 20; i++) record("m", `p${i}`);
  await rest();
  expect(told()).toHaveLength(8);
  await clock.advance(10_000);
  expect(told().length).toBeLessThan(9);
  kube.comeBack();
  await clock.advance(10_000);
  expect((await inOrder()).map(({ involvedObject }) => involvedObject.name!)).toEqual(
    Array.from({ length: 20 }, (_, i) => `p${i + 1}`),
  );
});

test("an event that a namespace takes with it is no trouble", async () => {
  const { kube, recorder, record, log } = createScene();
  kube.failures = { create: [new KubeError("NOT_FOUND", "namespaces shop not found", { status: 404 })] };
  record("m");
  await recorder.settled();
  expect(log.told()).toEqual([]);
});

test("who has stopped sends nothing more, and leaves no timer", async () => {
  const { clock, kube, recorder, record, told, log } = createScene();
  kube.goDown();
  record("m");
  await rest();
  told();
  recorder.stop();
  await recorder.settled();
  record("n");
  await clock.advance(60_000);
  expect([...told(), clock.timers]).toEqual([0]);
  expect(log.told()).toEqual(["warn: events forgotten, since the API server did not take them in time: 1"]);
});
