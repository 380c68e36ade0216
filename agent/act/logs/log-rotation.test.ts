import { expect, test } from "bun:test";
import { gunzipSync } from "node:zlib";
import { CriError } from "../../../cri/error.ts";
import { FilesError } from "../../../host/fs/files.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { emptyObservedPod } from "../../../test/fakes/observed-pod.ts";
import type { ObservedContainer, ObservedPod } from "../../decide/pod/observed.ts";
import { createLogRotation } from "./log-rotation.ts";

const KB = 1000;
const settings = { maxSizeBytes: 100 * KB, maxFiles: 3, maxWorkers: 1, monitorIntervalMs: 10_000 };
const folder = "/logs/shop_web_u-1/a";

function podOf(state: "running" | "exited" | "gone", startedAt = FakeClock.start): ObservedPod {
  const identity = {
    ...{ id: "id-0" as ContainerId, name: "a", sandboxId: "s" as SandboxId, attempt: 0, createdAt: startedAt },
    ...{ image: "busybox:1", imageRef: "", hash: undefined, crashes: 0, startedAt },
  };
  const exit = { finishedAt: startedAt + 1, exitCode: 0, reason: "", message: "" };
  const containers: readonly ObservedContainer[] =
    state === "running" ? [{ ...identity, state }] : state === "exited" ? [{ ...identity, ...exit, state }] : [];
  return { ...emptyObservedPod("u-1" as PodUid, "shop", "web"), containers };
}

/** A container that writes to its log: after a rename to the old file, until it is asked to reopen. */
async function createFixture() {
  const clock = new FakeClock();
  const disk = new FakeDisk(clock.now);
  const logs = disk.at("/logs");
  const log = new FakeLog();
  await logs.makeFolder("shop_web_u-1/a", 0o755);
  await logs.write("shop_web_u-1/a/0.log", "", 0o640);
  const calls: string[] = [];
  disk.before = (verb, path) => {
    if (verb !== "list" && verb !== "readLink") calls.push(`${verb} ${path.slice(folder.length + 1)}`);
  };
  const reopenFailures: CriError[] = [];
  /** What reopenContainerLog does before it fails. */
  let reopensInSpiteOfFailure = false;
  const reopen = async () => {
    calls.push("reopen");
    const failure = reopenFailures.shift();
    if (failure === undefined || reopensInSpiteOfFailure) disk.addFile(`${folder}/0.log`, 0o640);
    if (failure !== undefined) throw failure;
  };
  const begin = () => createLogRotation({ logs, runtime: { reopenContainerLog: reopen }, clock, log, settings });
  const write = (text: string, file = "0.log") => {
    const before = disk.nodes.get(`${folder}/${file}`);
    const content = (before?.kind === "file" ? before.content : "") + text;
    return disk.at("/logs").makeFile(`shop_web_u-1/a/${file}`, 0o640, content);
  };
  /** File → its text, uncompressed. */
  const files = () =>
    Object.fromEntries(
      disk
        .paths()
        .filter((path) => path.startsWith(`${folder}/`))
        .map((path) => {
          const node = disk.nodes.get(path);
          const bytes = node?.kind === "file" ? node.bytes : new Uint8Array();
          const text = path.endsWith(".gz") ? gunzipSync(bytes).toString() : Buffer.from(bytes).toString();
          return [path.slice(folder.length + 1), text.length > 20 ? text.slice(0, 1) : text];
        }),
    );
  const takeCalls = () => calls.splice(0);
  return {
    clock,
    disk,
    log,
    begin,
    write,
    files,
    takeCalls,
    reopenFailures,
    failAfterReopening: () => (reopensInSpiteOfFailure = true),
  };
}

const name = (text: string) => `0.log.${text}`;
const full = (letter: string) => letter.repeat(100 * KB);

test("nothing runs while nothing is written, and a write causes one check soon", async () => {
  const { clock, begin, write, takeCalls } = await createFixture();
  const rotation = begin();
  rotation.onObserved(podOf("running"));
  await rotation.settled();
  expect(takeCalls()).toEqual(["stat 0.log", "stat 0.log"]);
  await clock.advance(24 * 3_600_000);
  rotation.onObserved(podOf("running"));
  await rotation.settled();
  expect({ calls: takeCalls(), timers: clock.pendingTimers }).toEqual({ calls: [], timers: 0 });
  await write("a line\n");
  await write("a line\n");
  takeCalls();
  await clock.advance(99);
  expect(takeCalls()).toEqual([]);
  await clock.advance(1);
  expect(takeCalls()).toEqual(["stat 0.log"]);
  // A slow log is looked at once in the interval, then watched again.
  await clock.advance(60_000);
  expect({ calls: takeCalls(), timers: clock.pendingTimers }).toEqual({
    calls: ["stat 0.log", "stat 0.log"],
    timers: 0,
  });
});

test("a log that is written to at a constant rate is checked when it can have reached its limit", async () => {
  const { clock, begin, write, takeCalls } = await createFixture();
  begin().onObserved(podOf("running"));
  await settlePromises();
  takeCalls();
  const looks: number[] = [];
  // 2 kB each 100 ms: full after five seconds.
  for (let tick = 1; tick <= 55; tick++) {
    await write("x".repeat(2 * KB));
    await clock.advance(100);
    if (takeCalls().includes("stat 0.log")) looks.push(tick);
  }
  expect(looks).toEqual([1, 3, 7, 15, 31, 50]);
});

test("a full log is renamed, the oldest file goes, the one before is compressed", async () => {
  const { clock, begin, write, files, takeCalls } = await createFixture();
  begin().onObserved(podOf("running"));
  for (const letter of ["a", "b", "c", "d"]) {
    await write(full(letter));
    await clock.advance(10_000);
  }
  await write("e");
  expect(files()).toEqual({
    "0.log": "e",
    [`${name("20260101-000020")}.gz`]: "c",
    [name("20260101-000030")]: "d",
  });
  expect(takeCalls().filter((call) => call === "reopen")).toHaveLength(4);
});

test("two rotations in one second keep both logs", async () => {
  const { clock, begin, write, files } = await createFixture();
  begin().onObserved(podOf("running"));
  for (const letter of ["a", "b"]) {
    await write(full(letter));
    await clock.advance(150);
  }
  expect(files()).toEqual({ "0.log": "", [`${name("20260101-000000")}.gz`]: "a", [name("20260101-000000.250")]: "b" });
});

test("a log that the runtime does not reopen gets its name back, and is rotated later", async () => {
  const { clock, begin, write, files, reopenFailures, log } = await createFixture();
  begin().onObserved(podOf("running"));
  reopenFailures.push(new CriError("UNAVAILABLE", "ReopenContainerLog", "away"));
  await write(full("a"));
  await clock.advance(150);
  expect(files()).toEqual({ "0.log": "a" });
  expect(log.takeLines()).toEqual(["warn: cannot rotate the log of a container"]);
  await clock.advance(10_000);
  expect(files()).toEqual({ "0.log": "", [name("20260101-000010")]: "a" });
});

test("a call that failed after the runtime had reopened the log takes no file away from the container", async () => {
  const { clock, begin, write, files, reopenFailures, failAfterReopening } = await createFixture();
  begin().onObserved(podOf("running"));
  reopenFailures.push(new CriError("DEADLINE_EXCEEDED", "ReopenContainerLog", "slow"));
  failAfterReopening();
  await write(full("a"));
  await clock.advance(150);
  await write("b");
  expect(files()).toEqual({ "0.log": "b", [name("20260101-000000")]: "a" });
});

test("a rotated log that is removed before it is compressed stops no other one", async () => {
  const { clock, disk, log, begin, write, files } = await createFixture();
  await write(full("a"), name("20251231-000000"));
  await write(full("b"), name("20251231-000001"));
  await write(full("c"), name("20251231-000002"));
  const { before } = disk;
  disk.before = (verb, path) => {
    before(verb, path);
    if (verb === "gzip" && path.endsWith(name("20251231-000001"))) disk.takeNodes(path);
  };
  const rotation = begin();
  rotation.onObserved(podOf("exited", FakeClock.start - 1));
  await rotation.settled();
  expect(files()).toEqual({ "0.log": "", [`${name("20251231-000002")}.gz`]: "c" });
  expect(log.takeLines()).toEqual([]);
  expect(clock.pendingTimers).toBe(0);
});

test("a rotated log that is removed before it is compressed, and whose name the next one gets, is compressed", async () => {
  const { disk, log, begin, write, files } = await createFixture();
  await write(full("a"), name("20251231-000000"));
  const { before } = disk;
  disk.before = (verb, path) => {
    before(verb, path);
    if (verb !== "gzip") return;
    disk.before = before;
    throw new FilesError("ENOENT", path, `${path} does not exist`);
  };
  const rotation = begin();
  rotation.onObserved(podOf("exited", FakeClock.start - 1));
  await rotation.settled();
  expect(files()).toEqual({ "0.log": "", [`${name("20251231-000000")}.gz`]: "a" });
  expect(log.takeLines()).toEqual([]);
});

test("a log that was removed is created again", async () => {
  const { clock, disk, begin, files } = await createFixture();
  begin().onObserved(podOf("running"));
  await settlePromises();
  await disk.at("/logs").remove("shop_web_u-1/a/0.log");
  await clock.advance(150);
  expect(files()).toEqual({ "0.log": "" });
});

test("when a container has ended, all its rotated files are compressed, and its log stays", async () => {
  const { clock, begin, write, files } = await createFixture();
  const rotation = begin();
  rotation.onObserved(podOf("running"));
  await write(full("a"));
  await clock.advance(150);
  await write("b");
  rotation.onObserved({ ...podOf("exited"), hasUnconfirmedExit: true });
  await rotation.settled();
  expect(files()).toEqual({ "0.log": "b", [name("20260101-000000")]: "a" });
  rotation.onObserved(podOf("exited"));
  await rotation.settled();
  expect(files()).toEqual({ "0.log": "b", [`${name("20260101-000000")}.gz`]: "a" });
  expect(clock.pendingTimers).toBe(0);
});

test("a pod that is gone, and an agent that stops, wait for nothing", async () => {
  for (const end of ["pod", "container", "agent"]) {
    const { clock, begin, write, takeCalls } = await createFixture();
    const rotation = begin();
    rotation.onObserved(podOf("running"));
    await settlePromises();
    await write("a");
    await clock.advance(150);
    expect(clock.pendingTimers).toBe(1);
    if (end === "pod") rotation.onPodFinished("u-1" as PodUid);
    else if (end === "container") rotation.onObserved(podOf("gone"));
    else rotation.stop();
    takeCalls();
    await write("b");
    await clock.advance(60_000);
    expect({ timers: clock.pendingTimers, calls: takeCalls() }).toEqual({ timers: 0, calls: ["makeFile 0.log"] });
  }
});

test("nothing is rotated through a directory that is a symlink", async () => {
  const { clock, disk, begin, write, files } = await createFixture();
  const logs = disk.at("/logs");
  await write(full("a"));
  await logs.rename("shop_web_u-1/a", "elsewhere");
  await logs.link("shop_web_u-1/a", "/logs/elsewhere");
  begin().onObserved(podOf("running"));
  await clock.advance(60_000);
  expect(Object.keys(files())).toEqual([]);
  expect(disk.paths().filter((path) => path.startsWith("/logs/elsewhere/"))).toEqual(["/logs/elsewhere/0.log"]);
});

/** The agent dies: its n-th call that changes something takes effect or not, and no further one is made. */
for (const state of ["running", "exited"] as const)
  test(`an agent may die after each step of a rotation: the next one completes it (the container is ${state} then)`, async () => {
    let deaths = 0;
    for (let diesAt = 0; ; diesAt++) {
      const { clock, disk, begin, write, files, reopenFailures } = await createFixture();
      const first = begin();
      first.onObserved(podOf("running"));
      await write(full("a"));
      await clock.advance(10_000);
      await write(full("b"));
      let mutations = 0;
      const before = disk.before;
      disk.before = (verb, path) => {
        before(verb, path);
        if (["rename", "remove", "gzip", "makeFile"].includes(verb) && mutations++ >= diesAt)
          throw new Error("the agent is dead");
      };
      // Reopening counts as a step of its own.
      if (diesAt === 1) reopenFailures.push(new CriError("CANCELLED", "ReopenContainerLog", "the agent is dead"));
      await clock.advance(150);
      first.stop();
      await settlePromises();
      disk.before = before;
      const died = mutations > diesAt || diesAt === 1;
      if (died) deaths++;
      await clock.advance(1000);
      const next = begin();
      next.onObserved(podOf(state));
      await next.settled();
      await clock.advance(60_000);
      await next.settled();
      const found = files();
      // Nothing is lost, whatever the agent died of, and nothing is left over.
      expect(
        Object.values(found)
          .toSorted()
          .filter((text) => text !== ""),
      ).toEqual(["a", "b"]);
      expect(Object.keys(found)).toContain("0.log");
      expect(Object.keys(found).filter((file) => file.endsWith(".tmp"))).toEqual([]);
      if (!died) break;
    }
    expect(deaths).toBeGreaterThanOrEqual(4);
  });
