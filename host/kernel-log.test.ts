import { afterEach, beforeEach, expect, test } from "bun:test";
import { spawnSync } from "node:child_process";
import {
  closeSync,
  constants,
  mkdtempSync,
  openSync,
  readdirSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { FakeClock } from "../test/fakes/clock.ts";
import { FilesError } from "./fs/files.ts";
import { createKernelLog, hearAll } from "./kernel-log.ts";

let folder: string;
let ended: AbortController;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "berth-kmsg-"));
  ended = new AbortController();
});
afterEach(() => {
  ended.abort();
  rmSync(folder, { recursive: true });
});

/** A pipe in place of the kernel, and what was heard of it. */
function pipe() {
  const path = join(folder, "kmsg");
  spawnSync("mkfifo", [path]);
  // For reading too, so that it may be opened while nobody reads, and has no end while it is open.
  const descriptor = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  const heard: string[] = [];
  const clock = new FakeClock();
  const listener = { heard: (message: string) => heard.push(message), lost: () => heard.push("(lost)") };
  const following = createKernelLog(clock, path).follow(listener, ended.signal);
  return {
    path,
    heard,
    following,
    say: (text: string) => writeSync(descriptor, text),
    async until(count: number) {
      while (heard.length < count) await clock.advance(1_000);
    },
    close: () => closeSync(descriptor),
  };
}

test("a terminal in its place is refused, and nothing that is typed there is taken", async () => {
  const path = join(folder, "kmsg");
  symlinkSync("/dev/ptmx", path);
  const listener = { heard: () => {}, lost: () => {} };
  const error = await createKernelLog(new FakeClock(), path)
    .follow(listener, AbortSignal.timeout(2_000))
    .catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(FilesError);
  expect(String(error)).toBe(`FilesError: ${path} is a terminal, and no log of a kernel`);
});

test("messages are heard one by one, without what stands before them", async () => {
  const { say, until, heard, close } = pipe();
  say("6,339,5140900,-;NET: Registered protocol family 10\n30,340,5690716,-;udevd[80]: starting; version 181\n");
  say("4,341,5690717,c,caller=T12;half of a line, ");
  await until(2);
  say("and the other half\n");
  await until(3);
  expect(heard).toEqual([
    "NET: Registered protocol family 10",
    "udevd[80]: starting; version 181",
    "half of a line, and the other half",
  ]);
  close();
});

test("what is no message is passed over: what belongs to the one before, and garbage", async () => {
  const { say, until, heard, close } = pipe();
  say("7,160,424069,-;pci_root PNP0A03:00: host bridge window\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP0A03:00\n");
  say("\n;\ngarbage;x\n-1,2,3,-;x\n\u0000\u00ff\n");
  say("6,161,424070,-;\n6,162,424071,-;last\n");
  await until(3);
  expect(heard).toEqual(["pci_root PNP0A03:00: host bridge window", "", "last"]);
  close();
});

test("thousands of messages at once are all heard, in order", async () => {
  const { say, until, heard, close } = pipe();
  const count = 3000;
  for (let from = 0; from < count; from += 500) {
    const some = Array.from({ length: 500 }, (_, index) => `6,${from + index},1,-;message ${from + index}\n`);
    say(some.join(""));
    await until(from + 500);
  }
  expect(heard).toEqual(Array.from({ length: count }, (_, index) => `message ${index}`));
  close();
});

test("the first message is heard at once, and those behind it after a second's rest", async () => {
  const more = "6,2,1,-;two\n6,3,1,-;three\n";
  const { clock, told, hearing } = await hear(streamOf(["6,1,1,-;one\n", more, "6,4,1,-;four\n"]));
  await clock.advance(999);
  expect(told).toEqual(["one"]);
  await clock.advance(1);
  expect(told).toEqual(["one", "two", "three"]);
  await clock.advance(1_000);
  expect(told).toEqual(["one", "two", "three", "four"]);
  await clock.advance(1_000);
  await hearing;
});

test("where there is much behind it nobody rests", async () => {
  const much = Array.from({ length: 300 }, (_, index) => `6,${index},1,-;message ${index}\n`).join("");
  const { clock, told } = await hear(streamOf([much, much, "6,1,1,-;last\n"]));
  await clock.advance(0);
  expect(told).toHaveLength(601);
});

test("it ends with the signal, hears nothing after that, and leaves nothing open", async () => {
  const { path, say, until, heard, following, close } = pipe();
  say("6,1,1,-;one\n");
  await until(1);
  ended.abort();
  say("6,2,1,-;two\n");
  await following;
  close();
  expect(heard).toEqual(["one"]);
  await untilClosed(path);
});

test("a log that has an end ends, and is not asked again", async () => {
  const { path, close, following } = pipe();
  close();
  await following;
  await untilClosed(path);
});

test("a log that is not there, or is none, is an error that names it", async () => {
  for (const [path, code] of [
    [join(folder, "absent"), "ENOENT"],
    [folder, "EISDIR"],
  ] as const) {
    const following = createKernelLog(new FakeClock(), path).follow({ heard: () => {}, lost: () => {} }, ended.signal);
    const error: unknown = await following.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(FilesError);
    expect(error).toMatchObject({ code, path });
    await untilClosed(path);
  }
});

async function hear(...streams: readonly ReadableStream<Uint8Array>[]) {
  const clock = new FakeClock();
  const told: string[] = [];
  const left = [...streams];
  const hearing = hearAll(
    () => left.shift() ?? streamOf([]),
    { heard: (message) => told.push(message), lost: () => told.push("(lost)") },
    clock,
    ended.signal,
  );
  return { clock, told, hearing };
}

test("where messages were lost it says so, rests, and goes on with those that are there", async () => {
  const broken = streamOf(["6,1,1,-;one\n6,2,1,-;a message whose end is lo"], { code: "EPIPE" });
  const { clock, told, hearing } = await hear(broken, streamOf(["6,9,1,-;after\n"]));
  await clock.advance(1_999);
  expect(told).toEqual(["one", "(lost)"]);
  await clock.advance(1_001);
  await hearing;
  expect(told).toEqual(["one", "(lost)", "after"]);
});

test("a rest ends with the signal", async () => {
  const { clock, told, hearing } = await hear(streamOf([], { code: "EPIPE" }), streamOf(["6,9,1,-;after\n"]));
  await clock.advance(10);
  ended.abort();
  await hearing;
  expect(told).toEqual(["(lost)"]);
  expect(clock.timers).toBe(0);
});

test("any other failure is one", async () => {
  const { hearing } = await hear(streamOf([], { code: "EIO" }));
  expect(await hearing.catch((error: unknown) => error)).toMatchObject({ code: "EIO" });
});

test("a line that does not end is given up", async () => {
  const { clock, told, hearing } = await hear(
    streamOf([`6,1,1,-;${"x".repeat(70_000)}`, "xx\n6,2,1,-;", `${"y".repeat(60_000)}\n6,3,1,-;last\n`]),
  );
  await clock.advance(10_000);
  await hearing;
  expect(told.map((message) => message.slice(0, 4))).toEqual(["yyyy", "last"]);
});

function streamOf(chunks: readonly string[], failure?: { readonly code: string }): ReadableStream<Uint8Array> {
  const left = [...chunks];
  return new ReadableStream({
    pull(controller) {
      const chunk = left.shift();
      if (chunk !== undefined) controller.enqueue(new TextEncoder().encode(chunk));
      else if (failure !== undefined) controller.error(Object.assign(new Error("read failed"), failure));
      else controller.close();
    },
  });
}

/** The engine closes its own duplicate of a descriptor a moment later. */
async function untilClosed(path: string): Promise<void> {
  while (openDescriptors().includes(path)) await new Promise((resolve) => setImmediate(resolve));
}

function openDescriptors(): readonly string[] {
  return readdirSync("/proc/self/fd").flatMap((descriptor) => {
    try {
      return [readlinkSync(`/proc/self/fd/${descriptor}`)];
    } catch {
      // The one by which the folder itself was read.
      return [];
    }
  });
}
