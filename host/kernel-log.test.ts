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
import { createKernelLog, readStreams } from "./kernel-log.ts";

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

/** A pipe in place of /dev/kmsg, and the messages received from it. */
function pipe() {
  const path = join(folder, "kmsg");
  spawnSync("mkfifo", [path]);
  // Opened for reading, too, so that the writer can open it without a reader, and it has no end while it is open.
  const descriptor = openSync(path, constants.O_RDWR | constants.O_NONBLOCK);
  const received: string[] = [];
  const clock = new FakeClock();
  const listener = { onMessage: (message: string) => received.push(message), onLoss: () => received.push("(lost)") };
  const following = createKernelLog(clock, path).follow(listener, ended.signal);
  return {
    path,
    received: received,
    following,
    say: (text: string) => writeSync(descriptor, text),
    async until(count: number) {
      while (received.length < count) await clock.advance(1_000);
    },
    close: () => closeSync(descriptor),
  };
}

test("a terminal instead of /dev/kmsg is refused, and its input is not read", async () => {
  const path = join(folder, "kmsg");
  symlinkSync("/dev/ptmx", path);
  const listener = { onMessage: () => {}, onLoss: () => {} };
  const error = await createKernelLog(new FakeClock(), path)
    .follow(listener, AbortSignal.timeout(2_000))
    .catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(FilesError);
  expect(String(error)).toBe(`FilesError: ${path} is a terminal and not a kernel log`);
});

test("messages are reported one by one, without the kernel's prefix", async () => {
  const { say, until, received, close } = pipe();
  say("6,339,5140900,-;NET: Registered protocol family 10\n30,340,5690716,-;udevd[80]: starting; version 181\n");
  say("4,341,5690717,c,caller=T12;half of a line, ");
  await until(2);
  say("and the other half\n");
  await until(3);
  expect(received).toEqual([
    "NET: Registered protocol family 10",
    "udevd[80]: starting; version 181",
    "half of a line, and the other half",
  ]);
  close();
});

test("continuation lines and garbage are skipped", async () => {
  const { say, until, received, close } = pipe();
  say("7,160,424069,-;pci_root PNP0A03:00: host bridge window\n SUBSYSTEM=acpi\n DEVICE=+acpi:PNP0A03:00\n");
  say("\n;\ngarbage;x\n-1,2,3,-;x\n\u0000\u00ff\n");
  say("6,161,424070,-;\n6,162,424071,-;last\n");
  await until(3);
  expect(received).toEqual(["pci_root PNP0A03:00: host bridge window", "", "last"]);
  close();
});

test("thousands of messages at once are all reported, in order", async () => {
  const { say, until, received, close } = pipe();
  const count = 3000;
  for (let from = 0; from < count; from += 500) {
    const some = Array.from({ length: 500 }, (_, index) => `6,${from + index},1,-;message ${from + index}\n`);
    say(some.join(""));
    await until(from + 500);
  }
  expect(received).toEqual(Array.from({ length: count }, (_, index) => `message ${index}`));
  close();
});

test("the first message is reported at once, and later ones after a pause of a second", async () => {
  const more = "6,2,1,-;two\n6,3,1,-;three\n";
  const { clock, messages, reading } = await startReading(streamOf(["6,1,1,-;one\n", more, "6,4,1,-;four\n"]));
  await clock.advance(999);
  expect(messages).toEqual(["one"]);
  await clock.advance(1);
  expect(messages).toEqual(["one", "two", "three"]);
  await clock.advance(1_000);
  expect(messages).toEqual(["one", "two", "three", "four"]);
  await clock.advance(1_000);
  await reading;
});

test("after a large chunk there is no pause", async () => {
  const much = Array.from({ length: 300 }, (_, index) => `6,${index},1,-;message ${index}\n`).join("");
  const { clock, messages } = await startReading(streamOf([much, much, "6,1,1,-;last\n"]));
  await clock.advance(0);
  expect(messages).toHaveLength(601);
});

test("the signal ends it: no more messages, no open descriptor", async () => {
  const { path, say, until, received, following, close } = pipe();
  say("6,1,1,-;one\n");
  await until(1);
  ended.abort();
  say("6,2,1,-;two\n");
  await following;
  close();
  expect(received).toEqual(["one"]);
  await untilClosed(path);
});

test("a log that has an end is read once", async () => {
  const { path, close, following } = pipe();
  close();
  await following;
  await untilClosed(path);
});

test("a missing file, or one that is not a log, is an error with its path", async () => {
  for (const [path, code] of [
    [join(folder, "absent"), "ENOENT"],
    [folder, "EISDIR"],
  ] as const) {
    const following = createKernelLog(new FakeClock(), path).follow(
      { onMessage: () => {}, onLoss: () => {} },
      ended.signal,
    );
    const error: unknown = await following.catch((reason: unknown) => reason);
    expect(error).toBeInstanceOf(FilesError);
    expect(error).toMatchObject({ code, path });
    await untilClosed(path);
  }
});

async function startReading(...streams: readonly ReadableStream<Uint8Array>[]) {
  const clock = new FakeClock();
  const messages: string[] = [];
  const openNow = [...streams];
  const reading = readStreams(
    () => openNow.shift() ?? streamOf([]),
    { onMessage: (message) => messages.push(message), onLoss: () => messages.push("(lost)") },
    clock,
    ended.signal,
  );
  return { clock, messages, reading };
}

test("lost messages are reported, and after a pause the reading continues", async () => {
  const broken = streamOf(["6,1,1,-;one\n6,2,1,-;a message whose end is lo"], { code: "EPIPE" });
  const { clock, messages, reading } = await startReading(broken, streamOf(["6,9,1,-;after\n"]));
  await clock.advance(1_999);
  expect(messages).toEqual(["one", "(lost)"]);
  await clock.advance(1_001);
  await reading;
  expect(messages).toEqual(["one", "(lost)", "after"]);
});

test("the signal ends a pause", async () => {
  const { clock, messages, reading } = await startReading(
    streamOf([], { code: "EPIPE" }),
    streamOf(["6,9,1,-;after\n"]),
  );
  await clock.advance(10);
  ended.abort();
  await reading;
  expect(messages).toEqual(["(lost)"]);
  expect(clock.pendingTimers).toBe(0);
});

test("any other error is passed on", async () => {
  const { reading } = await startReading(streamOf([], { code: "EIO" }));
  expect(await reading.catch((error: unknown) => error)).toMatchObject({ code: "EIO" });
});

test("an endless line is dropped", async () => {
  const { clock, messages, reading } = await startReading(
    streamOf([`6,1,1,-;${"x".repeat(70_000)}`, "xx\n6,2,1,-;", `${"y".repeat(60_000)}\n6,3,1,-;last\n`]),
  );
  await clock.advance(10_000);
  await reading;
  expect(messages.map((message) => message.slice(0, 4))).toEqual(["yyyy", "last"]);
});

function streamOf(chunks: readonly string[], failure?: { readonly code: string }): ReadableStream<Uint8Array> {
  const openNow = [...chunks];
  return new ReadableStream({
    pull(controller) {
      const chunk = openNow.shift();
      if (chunk !== undefined) controller.enqueue(new TextEncoder().encode(chunk));
      else if (failure !== undefined) controller.error(Object.assign(new Error("read failed"), failure));
      else controller.close();
    },
  });
}

/** Bun closes its own duplicate of a descriptor a moment later. */
async function untilClosed(path: string): Promise<void> {
  while (openDescriptors().includes(path)) await new Promise((resolve) => setImmediate(resolve));
}

function openDescriptors(): readonly string[] {
  return readdirSync("/proc/self/fd").flatMap((descriptor) => {
    try {
      return [readlinkSync(`/proc/self/fd/${descriptor}`)];
    } catch {
      // The descriptor by which the folder itself was read.
      return [];
    }
  });
}
