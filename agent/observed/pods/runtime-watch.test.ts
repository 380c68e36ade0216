import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import type { RuntimeEventSource } from "../../../cri/runtime.ts";
import { FilesError } from "../../../host/fs/files.ts";
import { ContainerConfig, PodSandboxConfig } from "../../../proto/cri/gen/api.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { FakeRuntime } from "../../../test/fakes/runtime.ts";
import { createObservedImages } from "../image-presence.ts";
import { createPodCache } from "./pod-cache.ts";
import { createPodDirReader } from "./pod-dirs.ts";
import { watchRuntime } from "./runtime-watch.ts";
import { createTerminationMessages } from "./termination-message.ts";

const labelsOf = (uid: string) => ({
  "io.kubernetes.pod.uid": uid,
  "io.kubernetes.pod.name": uid,
  "io.kubernetes.pod.namespace": "shop",
});
const sandboxOf = (uid: string) =>
  PodSandboxConfig.fromPartial({ metadata: { uid, name: uid, namespace: "shop" }, labels: labelsOf(uid) });
const containerOf = (uid: string) =>
  ContainerConfig.fromPartial({ metadata: { name: "a" }, image: { image: "busybox:1" }, labels: labelsOf(uid) });

/** Watches a runtime with the pod `web`. `audits` counts the relists, `completed` the calls of `onListed`. */
async function createFixture(
  source: RuntimeEventSource = "cri-events",
  prepare: (runtime: FakeRuntime) => void = () => {},
) {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock, source });
  const log = new FakeLog();
  const woken: string[] = [];
  const disk = new FakeDisk(clock.now);
  runtime.addImage("busybox:1");
  const images = createObservedImages({ runtime, clock });
  const podDirs = createPodDirReader(disk.at("/root"), disk.at("/logs"));
  const terminationMessages = createTerminationMessages(disk.at("/root"), disk.at("/logs"));
  const pods = createPodCache({
    runtime,
    images,
    podDirs,
    podCgroups: undefined,
    terminationMessages,
    clock,
    log,
    wake: (uid) => woken.push(uid),
  });
  const sandbox = runtime.addForeignSandbox(sandboxOf("web"));
  const container = runtime.addForeignContainer(sandbox, containerOf("web"));
  prepare(runtime);
  const ending = new AbortController();
  let completed = 0;
  const onListed = () => {
    completed++;
  };
  let nodeAudits = 0;
  const audit = async () => void nodeAudits++;
  const followed = watchRuntime({ runtime, pods, images, clock, log, onListed, audit }, ending.signal);
  await settlePromises();
  const audits = () => runtime.calls.filter((call) => call === "listContainers").length;
  const look = async () => (await pods.observe("web" as PodUid, undefined)).containers.map(({ state }) => state);
  const counts = { completed: () => completed, nodeAudits: () => nodeAudits };
  return { clock, runtime, disk, log, woken, images, container, ending, followed, audits, look, ...counts };
}

test("at connect everything is listed, the pods are woken, and the connection is logged once", async () => {
  const { audits, completed, woken, log } = await createFixture();
  expect([audits(), completed()]).toEqual([1, 1]);
  expect(woken).toEqual(["web"]);
  expect(log.takeLines()).toEqual(["info: following the container runtime"]);
});

/** When the last of the early relists after a connect has run. */
const SETTLED_MS = 10_000;

const audited: readonly [source: RuntimeEventSource, sentence: string, passedMs: number, count: number][] = [
  ["cri-events", "a relist runs after one second and after ten, and then none for five minutes", 309_999, 2],
  ["cri-events", "a relist runs every five minutes", 910_000, 2 + 3],
  ["containerd-events", "a relist runs every five minutes", 910_000, 2 + 3],
  ["none", "a relist runs every second", 10_000, 10],
];
for (const [source, sentence, passedMs, count] of audited)
  test(`with the source ${source}, ${sentence}`, async () => {
    const { clock, audits } = await createFixture(source);
    await clock.advance(passedMs);
    expect(audits()).toBe(1 + count);
  });

test("an exit whose event precedes the connect and whose status follows the first list is observed within a second", async () => {
  const { clock, runtime, woken, look, container } = await createFixture("containerd-events");
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

test("what else the agent keeps on the node is audited with each list", async () => {
  const { clock, audits, nodeAudits } = await createFixture();
  await clock.advance(SETTLED_MS + 600_000);
  expect(audits()).toBeGreaterThan(2);
  expect(nodeAudits()).toBe(audits());
});

test("a relist finds what a lost event would have reported", async () => {
  const { clock, runtime, woken, look, container } = await createFixture();
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

test("without events an exit is observed within a second", async () => {
  const { clock, runtime, woken, look, container } = await createFixture("none");
  await look();
  woken.length = 0;
  runtime.exit(container, 1);
  await clock.advance(1000);
  expect(woken).toEqual(["web"]);
});

test("an outage and its end are logged once; then everything is listed and the image cache is invalidated", async () => {
  const { clock, runtime, log, woken, images, audits, look, completed } = await createFixture();
  await look();
  await images.presence("busybox:1");
  log.takeLines();
  woken.length = 0;
  runtime.goDown();
  runtime.goDown();
  await expect(look()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  await clock.advance(900_000);
  expect(audits()).toBe(1);
  runtime.comeBack();
  await settlePromises();
  expect([audits(), completed()]).toEqual([2, 2]);
  expect(woken).toEqual(["web"]);
  expect(log.takeLines()).toEqual([
    "warn: the container runtime is away; pods keep running; reconnecting",
    "error: cannot list the pods and containers of the runtime for three minutes; the status of pods may be out of date",
    "info: the container runtime is back",
    "info: the container runtime answers List calls again",
  ]);
  runtime.calls.length = 0;
  await images.presence("busybox:1");
  expect(runtime.calls).toEqual(["imageStatus busybox:1"]);
});

test("a runtime that is away when the agent starts is logged once with its socket, and watched when it is up", async () => {
  const { clock, runtime, log, audits, completed } = await createFixture("cri-events", (down) => down.goDown());
  await clock.advance(900_000);
  expect(log.lines[0]).toMatchObject({ level: "warn", fields: { socket: "/run/fake.sock" } });
  expect(log.takeLines()).toEqual([
    "warn: the container runtime is away; pods keep running; reconnecting",
    "error: cannot list the pods and containers of the runtime for three minutes; the status of pods may be out of date",
  ]);
  expect(audits()).toBe(0);
  runtime.comeBack();
  await settlePromises();
  expect(log.takeLines()).toEqual([
    "info: following the container runtime",
    "info: the container runtime answers List calls again",
  ]);
  expect([audits(), completed()]).toEqual([1, 1]);
});

test("a flapping connection is logged once, until it has lasted ten seconds", async () => {
  const { clock, runtime, log } = await createFixture();
  const flap = async () => {
    runtime.restart();
    await clock.advance(1000);
  };
  for (let time = 0; time < 20; time++) await flap();
  expect(log.takeLines()).toEqual([
    "info: following the container runtime",
    "warn: the container runtime is away; pods keep running; reconnecting",
    "info: the container runtime is back",
  ]);
  await clock.advance(10_000);
  await flap();
  expect(log.takeLines()).toHaveLength(2);
});

test("a second outage soon after the first is logged if it lasts", async () => {
  const { clock, runtime, log } = await createFixture();
  runtime.restart();
  await clock.advance(1000);
  log.takeLines();
  runtime.goDown();
  await clock.advance(9_999);
  expect(log.takeLines()).toEqual([]);
  await clock.advance(60_000);
  expect(log.takeLines()).toEqual(["warn: the container runtime is away; pods keep running; reconnecting"]);
  runtime.comeBack();
  await settlePromises();
  expect(log.takeLines()).toEqual(["info: the container runtime is back"]);
});

test("an outage whose reason changes is logged ten seconds after its start, with the latest reason", async () => {
  const { clock, runtime, log } = await createFixture();
  runtime.restart();
  await clock.advance(1000);
  log.takeLines();
  for (let second = 0; second < 30; second++) {
    runtime.goDown(`reason ${second}`);
    await clock.advance(1000);
  }
  const logged = log.lines.filter(({ level }) => level === "warn").map(({ fields }) => String(fields["err"]));
  expect(logged).toEqual(["CriError: events: reason 9"]);
});

test("a failed list is retried after half a second, and observations fail until it succeeds", async () => {
  const failure = () => new CriError("DEADLINE_EXCEEDED", "ListContainers", "no answer");
  const { clock, log, completed, audits, woken } = await createFixture("cri-events", (runtime) => {
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
  // And once more, ten seconds after the connect.
  expect(audits()).toBe(4);
  expect(log.takeLines()).toEqual([
    "info: following the container runtime",
    "warn: cannot list the pods and containers of the runtime; retrying",
    "info: the container runtime answers List calls again",
  ]);
});

test("pod directories that cannot be listed are not logged as a failure of the runtime", async () => {
  const { clock, disk, log } = await createFixture();
  log.takeLines();
  disk.before = (verb, path) => {
    if (verb === "list") throw new FilesError("EIO", path, `${path} failed: input/output error`);
  };
  await clock.advance(1_000);
  disk.before = () => {};
  await clock.advance(500);
  expect(log.takeLines()).toEqual([
    "warn: cannot list the pod directories; retrying",
    "info: the pod directories are listed again",
  ]);
});

const overdue =
  "error: cannot list the pods and containers of the runtime for three minutes; the status of pods may be out of date";

test("lists that fail for three minutes are logged again with the reason, and so is their end", async () => {
  const noAnswer = new CriError("DEADLINE_EXCEEDED", "ListContainers", "no answer");
  const { clock, runtime, log } = await createFixture();
  log.takeLines();
  await clock.advance(SETTLED_MS);
  await clock.advance(299_000);
  runtime.failures.listContainers = Array.from({ length: 2000 }, () => noAnswer);
  await clock.advance(180_999);
  expect(log.takeLines()).toEqual(["warn: cannot list the pods and containers of the runtime; retrying"]);
  await clock.advance(1);
  expect(log.lines).toMatchObject([{ level: "error", fields: { err: noAnswer } }]);
  expect(log.takeLines()).toEqual([overdue]);
  await clock.advance(600_000);
  expect(log.takeLines()).toEqual([]);
  runtime.failures.listContainers = [];
  await clock.advance(500);
  expect(log.takeLines()).toEqual(["info: the container runtime answers List calls again"]);
  await clock.advance(3_600_000);
  expect(log.takeLines()).toEqual([]);
});

test("a connection that flaps without a list for three minutes is logged like failing lists", async () => {
  const { clock, runtime, log } = await createFixture();
  const letGo = runtime.hang("listContainers");
  for (let second = 0; second < 180; second++) {
    runtime.restart();
    await clock.advance(1000);
  }
  expect(log.takeLines().filter((line) => line === overdue)).toHaveLength(1);
  letGo();
  await settlePromises();
  expect(log.takeLines()).toContain("info: the container runtime answers List calls again");
});

test("an outage of less than three minutes, or until the agent stops, is logged only as an outage", async () => {
  const { clock, runtime, log, ending, followed } = await createFixture();
  runtime.goDown();
  await clock.advance(179_000);
  runtime.comeBack();
  await clock.advance(280_000);
  runtime.goDown();
  ending.abort();
  await followed;
  await clock.advance(600_000);
  expect(log.takeLines()).not.toContain(overdue);
});

test("a new pod that another client created is found by its event", async () => {
  const { clock, runtime, woken, audits } = await createFixture();
  const sandbox = runtime.addForeignSandbox(sandboxOf("other"));
  runtime.addForeignContainer(sandbox, containerOf("other"));
  await clock.advance(1);
  expect(audits()).toBeGreaterThan(1);
  expect(woken).toContain("other");
});

test("an event without a pod leads to a relist when it cannot come from our own call any more", async () => {
  const { clock, runtime, woken, audits } = await createFixture("containerd-events");
  await clock.advance(SETTLED_MS);
  const before = audits();
  runtime.addForeignSandbox(sandboxOf("other"));
  await clock.advance(3_099);
  expect(audits()).toBe(before);
  await clock.advance(1);
  expect(audits()).toBeGreaterThan(before);
  expect(woken).toContain("other");
});

test("any number of unknown ids during a relist lead to one more relist", async () => {
  const { clock, runtime, audits, woken } = await createFixture();
  await clock.advance(SETTLED_MS);
  const before = audits();
  const release = runtime.hang("listContainers");
  for (let number = 0; number < 10; number++) {
    runtime.addForeignSandbox(sandboxOf(`other${number}`));
    await clock.advance(101);
  }
  expect(audits()).toBe(before + 1);
  release();
  await settlePromises();
  expect(audits()).toBe(before + 2);
  expect(new Set(woken).size).toBe(11);
  await clock.advance(299_000);
  expect(audits()).toBe(before + 2);
});

test("a list that started before an outage is ignored after it", async () => {
  const answers: (() => void)[] = [];
  const { runtime, completed, look } = await createFixture("cri-events", (real) => {
    const list = real.listPodSandbox.bind(real);
    real.listPodSandbox = async (filter) => {
      const found = await list(filter);
      await new Promise<void>((resolve) => answers.push(resolve));
      return found;
    };
  });
  runtime.restart();
  answers.shift()?.();
  await settlePromises();
  await expect(look()).rejects.toMatchObject({ code: "UNAVAILABLE" });
  expect(completed()).toBe(0);
  answers.shift()?.();
  await settlePromises();
  expect(completed()).toBe(1);
  expect(await look()).toEqual(["running"]);
});

test("the exit of an unknown container does not cause a relist", async () => {
  const { clock, runtime, audits } = await createFixture("containerd-events");
  await clock.advance(SETTLED_MS);
  const before = audits();
  runtime.losesEvents = true;
  const sandbox = runtime.addForeignSandbox(sandboxOf("other"));
  runtime.losesEvents = false;
  await runtime.removePodSandbox(sandbox);
  await clock.advance(1000);
  expect(audits()).toBe(before);
});

test("the events of an unmanaged container cause no further relists", async () => {
  const { clock, runtime, audits, log } = await createFixture("containerd-events");
  const stranger = runtime.addForeignSandbox(PodSandboxConfig.fromPartial({ metadata: { name: "who" } }));
  await clock.advance(3_100);
  const before = audits();
  runtime.exitSandbox(stranger);
  await clock.advance(1000);
  expect(audits()).toBe(before);
  expect(log.takeLines().filter((line) => line.includes("belongs to no pod"))).toHaveLength(1);
});

test("the watch ends when the signal aborts, and no relist follows", async () => {
  const { clock, ending, followed, audits } = await createFixture("none");
  ending.abort();
  await followed;
  await clock.advance(10_000);
  expect(audits()).toBe(1);
});
