import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import type { EventSource } from "../../../cri/runtime.ts";
import { ContainerConfig, PodSandboxConfig } from "../../../proto/cri/gen/api.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { FakeClock, rest } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { FakeRuntime } from "../../../test/fakes/runtime.ts";
import { createObservedImages } from "../images.ts";
import { createObservedPods } from "./pod-cache.ts";
import { createPodFiles } from "./pod-dirs.ts";
import { followRuntime } from "./runtime-relist.ts";
import { createLastWords } from "./termination-message.ts";

const labelsOf = (uid: string) => ({
  "io.kubernetes.pod.uid": uid,
  "io.kubernetes.pod.name": uid,
  "io.kubernetes.pod.namespace": "shop",
});
const sandboxOf = (uid: string) =>
  PodSandboxConfig.fromPartial({ metadata: { uid, name: uid, namespace: "shop" }, labels: labelsOf(uid) });
const containerOf = (uid: string) =>
  ContainerConfig.fromPartial({ metadata: { name: "a" }, image: { image: "busybox:1" }, labels: labelsOf(uid) });

/** A node with the pod `web`, followed. `audits` counts the lists of everything, `completed` the words that all is known. */
async function createScene(source: EventSource = "cri-events", prepare: (runtime: FakeRuntime) => void = () => {}) {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock, source });
  const log = new FakeLog();
  const woken: string[] = [];
  const disk = new FakeDisk(clock.now);
  runtime.addImage("busybox:1");
  const images = createObservedImages({ runtime, clock });
  const files = createPodFiles(disk.at("/root"), disk.at("/logs"));
  const lastWords = createLastWords(disk.at("/root"), disk.at("/logs"));
  const pods = createObservedPods({ runtime, images, files, lastWords, clock, log, wake: (uid) => woken.push(uid) });
  const sandbox = runtime.addForeignSandbox(sandboxOf("web"));
  const container = runtime.addForeignContainer(sandbox, containerOf("web"));
  prepare(runtime);
  const ending = new AbortController();
  let completed = 0;
  const complete = () => {
    completed++;
  };
  const followed = followRuntime({ runtime, pods, images, clock, log, complete }, ending.signal);
  await rest();
  const audits = () => runtime.calls.filter((call) => call === "listContainers").length;
  const look = async () => (await pods.observe("web" as PodUid, undefined)).containers.map(({ state }) => state);
  return { clock, runtime, log, woken, images, container, ending, followed, audits, look, completed: () => completed };
}

test("when the connection comes up everything is listed, the pods are woken, and that is told once", async () => {
  const { audits, completed, woken, log } = await createScene();
  expect([audits(), completed()]).toEqual([1, 1]);
  expect(woken).toEqual(["web"]);
  expect(log.told()).toEqual(["info: following the container runtime"]);
});

/** When what came with the connection has been listed once more, for the last time. */
const SETTLED_MS = 10_000;

const audited: readonly [source: EventSource, sentence: string, passedMs: number, count: number][] = [
  [
    "cri-events",
    "everything is listed once more after a second and after ten, and then nothing for five minutes",
    309_999,
    2,
  ],
  ["cri-events", "everything is listed every five minutes then", 910_000, 2 + 3],
  ["containerd-events", "everything is listed every five minutes then", 910_000, 2 + 3],
  ["none", "everything is listed every second", 10_000, 10],
];
for (const [source, sentence, passedMs, count] of audited)
  test(`with the source ${source}, ${sentence}`, async () => {
    const { clock, audits } = await createScene(source);
    await clock.advance(passedMs);
    expect(audits()).toBe(1 + count);
  });

test("an exit whose event came right before the connection, and whose status right behind the first list, is seen within a second", async () => {
  const { clock, runtime, woken, look, container } = await createScene("containerd-events");
  expect(await look()).toEqual(["running"]);
  woken.length = 0;
  runtime.losesEvents = true;
  runtime.exit(container, 1);
  await clock.advance(999);
  expect(woken).toEqual([]);
  await clock.advance(1);
  expect(woken).toEqual(["web"]);
  expect(await look()).toEqual(["exited"]);
});

test("a lost event is found by the audit", async () => {
  const { clock, runtime, woken, look, container } = await createScene();
  expect(await look()).toEqual(["running"]);
  await clock.advance(SETTLED_MS);
  woken.length = 0;
  runtime.losesEvents = true;
  runtime.exit(container, 1);
  await clock.advance(299_000);
  expect(woken).toEqual([]);
  await clock.advance(1000);
  expect(woken).toEqual(["web"]);
  expect(await look()).toEqual(["exited"]);
});

test("without any events an exit is seen within a second", async () => {
  const { clock, runtime, woken, look, container } = await createScene("none");
  await look();
  woken.length = 0;
  runtime.exit(container, 1);
  await clock.advance(1000);
  expect(woken).toEqual(["web"]);
});

test("an outage is told once, and so is its end; everything is listed and every image doubted then", async () => {
  const { clock, runtime, log, woken, images, audits, look, completed } = await createScene();
  await look();
  await images.presence("busybox:1");
  log.told();
  woken.length = 0;
  runtime.goDown();
  runtime.goDown();
  await expect(look()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await clock.advance(900_000);
  expect(audits()).toBe(1);
  runtime.comeBack();
  await rest();
  expect([audits(), completed()]).toEqual([2, 2]);
  expect(woken).toEqual(["web"]);
  expect(log.told()).toEqual([
    "warn: the container runtime is away; pods keep running, and it is waited for",
    "error: the container runtime could not be listed for three minutes; what is shown of pods may be out of date",
    "info: the container runtime is back",
    "info: the container runtime can be listed again",
  ]);
  runtime.calls.length = 0;
  await images.presence("busybox:1");
  expect(runtime.calls).toEqual(["imageStatus busybox:1"]);
});

test("a runtime that is away when the agent starts is told once, with its socket, and followed when it comes", async () => {
  const { clock, runtime, log, audits, completed } = await createScene("cri-events", (down) => down.goDown());
  await clock.advance(900_000);
  expect(log.lines[0]).toMatchObject({ level: "warn", fields: { socket: "/run/fake.sock" } });
  expect(log.told()).toEqual([
    "warn: the container runtime is away; pods keep running, and it is waited for",
    "error: the container runtime could not be listed for three minutes; what is shown of pods may be out of date",
  ]);
  expect(audits()).toBe(0);
  runtime.comeBack();
  await rest();
  expect(log.told()).toEqual([
    "info: following the container runtime",
    "info: the container runtime can be listed again",
  ]);
  expect([audits(), completed()]).toEqual([1, 1]);
});

test("a connection that comes and goes is told once, until it has held for ten seconds", async () => {
  const { clock, runtime, log } = await createScene();
  const flap = async () => {
    runtime.restart();
    await clock.advance(1000);
  };
  for (let time = 0; time < 20; time++) await flap();
  expect(log.told()).toEqual([
    "info: following the container runtime",
    "warn: the container runtime is away; pods keep running, and it is waited for",
    "info: the container runtime is back",
  ]);
  await clock.advance(10_000);
  await flap();
  expect(log.told()).toHaveLength(2);
});

test("a second outage soon after the first is told when it lasts", async () => {
  const { clock, runtime, log } = await createScene();
  runtime.restart();
  await clock.advance(1000);
  log.told();
  runtime.goDown();
  await clock.advance(9_999);
  expect(log.told()).toEqual([]);
  await clock.advance(60_000);
  expect(log.told()).toEqual(["warn: the container runtime is away; pods keep running, and it is waited for"]);
  runtime.comeBack();
  await rest();
  expect(log.told()).toEqual(["info: the container runtime is back"]);
});

test("a list that fails is tried again after half a second, and only then is everything known", async () => {
  const failure = () => new CriError("DEADLINE_EXCEEDED", "ListContainers", "no answer");
  const { clock, log, completed, audits, woken } = await createScene("cri-events", (runtime) => {
    runtime.failures.listContainers = [failure(), failure()];
  });
  expect([completed(), woken.length]).toEqual([0, 0]);
  await clock.advance(499);
  expect(audits()).toBe(1);
  await clock.advance(1);
  expect([audits(), completed()]).toEqual([2, 0]);
  await clock.advance(500);
  expect([audits(), completed()]).toEqual([3, 1]);
  await clock.advance(299_000);
  // And once more, ten seconds after the beginning.
  expect(audits()).toBe(4);
  expect(log.told()).toEqual([
    "info: following the container runtime",
    "warn: the container runtime could not be listed; trying again",
    "info: the container runtime can be listed again",
  ]);
});

const overdue =
  "error: the container runtime could not be listed for three minutes; what is shown of pods may be out of date";

test("lists that fail for three minutes are told once more, with the reason, and so is their end", async () => {
  const noAnswer = new CriError("DEADLINE_EXCEEDED", "ListContainers", "no answer");
  const { clock, runtime, log } = await createScene();
  log.told();
  await clock.advance(SETTLED_MS);
  await clock.advance(299_000);
  runtime.failures.listContainers = Array.from({ length: 2000 }, () => noAnswer);
  await clock.advance(180_999);
  expect(log.told()).toEqual(["warn: the container runtime could not be listed; trying again"]);
  await clock.advance(1);
  expect(log.lines).toMatchObject([{ level: "error", fields: { err: noAnswer } }]);
  expect(log.told()).toEqual([overdue]);
  await clock.advance(600_000);
  expect(log.told()).toEqual([]);
  runtime.failures.listContainers = [];
  await clock.advance(500);
  expect(log.told()).toEqual(["info: the container runtime can be listed again"]);
  await clock.advance(3_600_000);
  expect(log.told()).toEqual([]);
});

test("a connection that comes and goes without a list counts as three minutes without one", async () => {
  const { clock, runtime, log } = await createScene();
  const letGo = runtime.hang("listContainers");
  for (let second = 0; second < 180; second++) {
    runtime.restart();
    await clock.advance(1000);
  }
  expect(log.told().filter((line) => line === overdue)).toHaveLength(1);
  letGo();
  await rest();
  expect(log.told()).toContain("info: the container runtime can be listed again");
});

test("an outage that is over within three minutes is told as that alone, and so is one that ends with the agent", async () => {
  const { clock, runtime, log, ending, followed } = await createScene();
  runtime.goDown();
  await clock.advance(179_000);
  runtime.comeBack();
  await clock.advance(280_000);
  runtime.goDown();
  ending.abort();
  await followed;
  await clock.advance(600_000);
  expect(log.told()).not.toContain(overdue);
});

test("a new pod that somebody else has made is found by its event", async () => {
  const { clock, runtime, woken, audits } = await createScene();
  const sandbox = runtime.addForeignSandbox(sandboxOf("other"));
  runtime.addForeignContainer(sandbox, containerOf("other"));
  await clock.advance(1);
  expect(audits()).toBeGreaterThan(1);
  expect(woken).toContain("other");
});

test("where events name no pod it is looked for when no call of ours can be meant any more", async () => {
  const { clock, runtime, woken, audits } = await createScene("containerd-events");
  await clock.advance(SETTLED_MS);
  const before = audits();
  runtime.addForeignSandbox(sandboxOf("other"));
  await clock.advance(3_099);
  expect(audits()).toBe(before);
  await clock.advance(1);
  expect(audits()).toBeGreaterThan(before);
  expect(woken).toContain("other");
});

test("however many unknown things turn up while a list is under way, one more list is made", async () => {
  const { clock, runtime, audits, woken } = await createScene();
  await clock.advance(SETTLED_MS);
  const before = audits();
  const release = runtime.hang("listContainers");
  for (let number = 0; number < 10; number++) {
    runtime.addForeignSandbox(sandboxOf(`other${number}`));
    await clock.advance(101);
  }
  expect(audits()).toBe(before + 1);
  release();
  await rest();
  expect(audits()).toBe(before + 2);
  expect(new Set(woken).size).toBe(11);
  await clock.advance(299_000);
  expect(audits()).toBe(before + 2);
});

test("a list that was begun before an outage counts for nothing after it", async () => {
  const answers: (() => void)[] = [];
  const { runtime, completed, look } = await createScene("cri-events", (real) => {
    const list = real.listPodSandbox.bind(real);
    real.listPodSandbox = async (filter) => {
      const found = await list(filter);
      await new Promise<void>((resolve) => answers.push(resolve));
      return found;
    };
  });
  runtime.restart();
  answers.shift()?.();
  await rest();
  await expect(look()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(completed()).toBe(0);
  answers.shift()?.();
  await rest();
  expect(completed()).toBe(1);
  expect(await look()).toEqual(["running"]);
});

test("the end of something that nobody knows is no reason to list everything", async () => {
  const { clock, runtime, audits } = await createScene("containerd-events");
  await clock.advance(SETTLED_MS);
  const before = audits();
  runtime.losesEvents = true;
  const sandbox = runtime.addForeignSandbox(sandboxOf("other"));
  runtime.losesEvents = false;
  await runtime.removePodSandbox(sandbox);
  await clock.advance(1000);
  expect(audits()).toBe(before);
});

test("a stranger's events are not asked about again and again", async () => {
  const { clock, runtime, audits, log } = await createScene("containerd-events");
  const stranger = runtime.addForeignSandbox(PodSandboxConfig.fromPartial({ metadata: { name: "who" } }));
  await clock.advance(3_100);
  const before = audits();
  runtime.exitSandbox(stranger);
  await clock.advance(1000);
  expect(audits()).toBe(before);
  expect(log.told().filter((line) => line.includes("belongs to no pod"))).toHaveLength(1);
});

test("it ends when the signal aborts, and no audit follows", async () => {
  const { clock, ending, followed, audits } = await createScene("none");
  ending.abort();
  await followed;
  await clock.advance(10_000);
  expect(audits()).toBe(1);
});
