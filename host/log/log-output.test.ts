import { FFIType } from "bun:ffi";
import { afterEach, expect, test } from "bun:test";
import { closeSync, mkdtempSync, openSync, readFileSync, readSync, rmSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { seededRandom } from "../../test/random.ts";
import { openLibc } from "../libc.ts";
import { createLogOutput, nonBlockingWrite } from "./log-output.ts";

/** A pipe that holds `capacity` bytes until the test reads them; waiting takes no time, and `onWait` may read. */
function createFixture(capacity: number) {
  const fixture = { nowMs: 0, held: "", isBroken: false, onWait: () => {} };
  const output = createLogOutput({
    tryWrite(bytes) {
      if (fixture.isBroken) return undefined;
      const written = Math.min(bytes.length, capacity - fixture.held.length);
      fixture.held += new TextDecoder().decode(bytes.subarray(0, written));
      return written;
    },
    monotonicMs: () => fixture.nowMs,
    sleepMs(ms) {
      fixture.nowMs += ms;
      fixture.onWait();
    },
  });
  const write = (line: string) => output.write(line, (count) => `${count} dropped;`);
  const read = () => {
    const text = fixture.held;
    fixture.held = "";
    return text;
  };
  return { fixture, output, write, read };
}

test("a line waits a second for a reader that stops reading, and those after it do not wait", () => {
  const { fixture, write } = createFixture(4);
  write("one;");
  expect(fixture.nowMs).toBe(0);
  write("two;");
  expect(fixture.nowMs).toBe(1_000);
  for (let line = 0; line < 10_000; line++) write("more;");
  expect(fixture.nowMs).toBe(1_000);
});

test("the first line that is written afterwards says how many were dropped", () => {
  const { write, read } = createFixture(20);
  for (const line of ["0123456789;", "23456789;", "one;", "two;", "three;"]) write(line);
  expect(read()).toBe("0123456789;23456789;");
  write("four;");
  expect(read()).toBe("3 dropped;four;");
  write("five;");
  expect(read()).toBe("five;");
});

test("a line that was written in part is completed before the next one", () => {
  const { write, read } = createFixture(12);
  for (const line of ["first;", "second line;", "third;"]) write(line);
  expect(read()).toBe("first;second");
  write("fourth;");
  expect(read()).toBe(" line;1 drop");
  write("fifth;");
  expect(read()).toBe("ped;1 droppe");
});

test("whatever the reader reads, no line is torn, and each one is written or counted", () => {
  const random = seededRandom(7);
  const { write, read } = createFixture(100);
  let received = "";
  const lines = Array.from({ length: 5_000 }, (_, index) => `line ${index}${".".repeat(random() * 60)};`);
  for (const [index, line] of lines.entries()) {
    write(line);
    // At the end the reader reads everything.
    if (random() < 0.1 || index > 4_900) received += read();
  }
  const found = received.split(";").slice(0, -1);
  const counts = found.flatMap((line) => /^(\d+) dropped$/.exec(line)?.[1] ?? []).map(Number);
  const written = found.filter((line) => lines.includes(`${line};`));
  expect(counts.length + written.length).toBe(found.length);
  expect(written.length + counts.reduce((sum, count) => sum + count, 0)).toBe(lines.length);
  expect(written.length).toBeWithin(500, 4_500);
});

test("a slow reader gets every line, and blocks the agent for a tenth of the time at most", () => {
  const { fixture, write, read } = createFixture(5);
  let received = "";
  fixture.onWait = () => {
    if (fixture.nowMs % 100 === 0) received += read();
  };
  for (let line = 0; line < 5; line++) write(`${line}...;`);
  expect(received + read()).toBe("0...;1...;2...;3...;4...;");
  const startedAt = fixture.nowMs;
  let blockedMs = 0;
  for (let line = 0; line < 1_000; line++) {
    fixture.nowMs += 10;
    const before = fixture.nowMs;
    write("more;");
    blockedMs += fixture.nowMs - before;
    if (line % 50 === 0) read();
  }
  expect(blockedMs).toBeLessThanOrEqual(1_000 + (fixture.nowMs - startedAt) / 10);
});

test("the output is blocked from the first line that waits until the reader has read", () => {
  const { fixture, output, write, read } = createFixture(20);
  write("0123456789;");
  expect(output.blockedMs()).toBe(0);
  for (const line of ["23456789;more", "one;"]) write(line);
  const since = fixture.nowMs;
  fixture.nowMs += 130_000;
  write("two;");
  expect(output.blockedMs()).toBe(fixture.nowMs - since);
  const waitedAt = fixture.nowMs;
  expect(read()).toBe("0123456789;23456789;");
  expect(output.blockedMs()).toBe(0);
  expect(fixture.nowMs).toBe(waitedAt);
  expect(read()).toBe("more2 dropped;");
});

test("at the end of the process no line waits", () => {
  const { fixture, output, write } = createFixture(4);
  write("one;");
  output.stopWaiting();
  write("two;");
  expect(fixture.nowMs).toBe(0);
});

test("an output that fails, such as a full disk, drops lines without waiting", () => {
  const { fixture, write, read } = createFixture(100);
  fixture.isBroken = true;
  write("one;");
  expect(fixture.nowMs).toBe(0);
  fixture.isBroken = false;
  write("two;");
  expect(read()).toBe("1 dropped;two;");
});

let cleanUp = () => {};
afterEach(() => cleanUp());

/** A FIFO with a reader, whose write end waits for the reader as a pipe's does. */
function openFifo() {
  const folder = mkdtempSync(join(tmpdir(), "berth-log-"));
  const path = join(folder, "fifo");
  Bun.spawnSync(["mkfifo", path]);
  // Opened for both directions, because opening one end would wait for the other.
  const descriptor = openSync(path, "r+");
  cleanUp = () => {
    closeSync(descriptor);
    rmSync(folder, { recursive: true });
    cleanUp = () => {};
  };
  return descriptor;
}

test("a pipe takes what it has room for, and 0 bytes when it is full", () => {
  const descriptor = openFifo();
  const tryWrite = nonBlockingWrite(descriptor);
  const line = new Uint8Array(4096).fill(97);
  let written = 0;
  for (let taken = tryWrite(line); taken !== undefined && taken > 0; taken = tryWrite(line)) written += taken;
  expect(written).toBe(65_536);
  expect(tryWrite(line)).toBe(0);
  readSync(descriptor, new Uint8Array(4096));
  expect(tryWrite(line)).toBe(4096);
});

test("a socket, such as that of the journal, takes what it has room for, and 0 bytes when it is full", () => {
  const { i32, ptr } = FFIType;
  const libc = openLibc({ socketpair: { args: [i32, i32, i32, ptr], returns: i32 } });
  const ends = new Int32Array(2);
  const [unix, stream] = [1, 1];
  expect(libc?.symbols.socketpair(unix, stream, 0, ends)).toBe(0);
  const [journal = -1, descriptor = -1] = ends;
  cleanUp = () => {
    for (const end of ends) closeSync(end);
    libc?.close();
    cleanUp = () => {};
  };
  const tryWrite = nonBlockingWrite(descriptor);
  const line = new Uint8Array(4096).fill(97);
  let written = 0;
  for (let taken = tryWrite(line); taken !== undefined && taken > 0; taken = tryWrite(line)) written += taken;
  expect(written).toBeGreaterThan(65_536);
  expect(tryWrite(line)).toBe(0);
  let read = 0;
  while (read < written) read += readSync(journal, new Uint8Array(65_536));
  expect(tryWrite(line)).toBe(4096);
});

test("the descriptor itself stays as it was for the processes that share it", () => {
  const descriptor = openFifo();
  nonBlockingWrite(descriptor);
  const flags = /^flags:\s+(\d+)$/m.exec(readFileSync(`/proc/self/fdinfo/${descriptor}`, "utf8"))?.[1] ?? "";
  const nonBlocking = 0o4000;
  expect(Number.parseInt(flags, 8) & nonBlocking).toBe(0);
});

test("a file gets each line at its own position", () => {
  const folder = mkdtempSync(join(tmpdir(), "berth-log-"));
  cleanUp = () => {
    rmSync(folder, { recursive: true });
    cleanUp = () => {};
  };
  const descriptor = openSync(join(folder, "log"), "w");
  writeSync(descriptor, "before;");
  const tryWrite = nonBlockingWrite(descriptor);
  expect(tryWrite(new TextEncoder().encode("line;"))).toBe(5);
  writeSync(descriptor, "after;");
  closeSync(descriptor);
  expect(readFileSync(join(folder, "log"), "utf8")).toBe("before;line;after;");
  expect(tryWrite(new Uint8Array(1))).toBeUndefined();
});
