import { expect, test } from "bun:test";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { FakeConnection } from "../../test/fakes/connection.ts";
import { KubeError, type KubeErrorCode } from "../error.ts";
import { createRecovery } from "./recovery.ts";

/** A sleeper of a minute, and requests whose outcome a test decides. */
function aScene({ random = 0, sleepMs = 60_000 } = {}) {
  const [clock, inner] = [new FakeClock(), new FakeConnection()];
  const recovery = createRecovery(clock, () => random);
  const connection = recovery.listen(inner);
  const controller = new AbortController();
  let woken: number | undefined;
  void recovery.sleep(sleepMs, controller.signal).then(
    () => (woken = clock.elapsedMs),
    () => (woken = -1),
  );
  return {
    clock,
    inner,
    connection,
    controller,
    woken: () => woken,
    async ask(code?: KubeErrorCode, status?: number) {
      inner.answer = () => {
        if (code !== undefined) throw new KubeError(code, "no", { status });
        return {};
      };
      await connection.request({ method: "GET", path: "/", deadlineMs: 1 }).catch(() => undefined);
      await rest();
    },
  };
}

const outages: readonly (readonly [KubeErrorCode, number | undefined])[] = [
  ["UNREACHABLE", undefined],
  ["TIMEOUT", undefined],
  ["UNAUTHORIZED", 401],
  ["TOO_MANY_REQUESTS", 429],
  ["SERVER", 500],
];
for (const [code, status] of outages)
  test(`whoever sleeps is woken by the first answer after an outage with ${code}`, async () => {
    const { clock, ask, woken } = aScene();
    await ask(code, status);
    await clock.advance(2_000);
    await ask(code, status);
    await clock.advance(2_000);
    expect(woken()).toBeUndefined();
    await ask();
    await clock.advance(0);
    expect(woken()).toBe(4_000);
  });

test("an answer that refuses is one, too", async () => {
  const { clock, ask, woken } = aScene();
  await ask("UNREACHABLE");
  await clock.advance(5_000);
  await ask("NOT_FOUND", 404);
  await clock.advance(0);
  expect(woken()).toBe(5_000);
});

test("so is a watch that opens", async () => {
  const { clock, ask, inner, connection, woken } = aScene();
  await ask("UNREACHABLE");
  await clock.advance(5_000);
  void connection.lines({ method: "GET", path: "/" }, () => undefined);
  await inner.last.open();
  await clock.advance(0);
  expect(woken()).toBe(5_000);
});

test("a watch that is cut begins an outage", async () => {
  const { clock, ask, inner, connection, woken } = aScene();
  void connection.lines({ method: "GET", path: "/" }, () => undefined);
  await inner.last.open();
  await inner.last.end(new KubeError("UNREACHABLE", "cut"));
  await clock.advance(5_000);
  await ask();
  await clock.advance(0);
  expect(woken()).toBe(5_000);
});

test("not all nodes come back in the same moment", async () => {
  const { clock, ask, woken } = aScene({ random: 0.5 });
  await ask("UNREACHABLE");
  await clock.advance(5_000);
  await ask();
  await clock.advance(499);
  expect(woken()).toBeUndefined();
  await clock.advance(1);
  expect(woken()).toBe(5_500);
});

test("nobody sleeps longer for having been woken", async () => {
  const { clock, ask, woken } = aScene({ random: 0.9, sleepMs: 5_100 });
  await ask("UNREACHABLE");
  await clock.advance(5_000);
  await ask();
  await clock.advance(100);
  expect(woken()).toBe(5_100);
});

test("nobody is woken where only some requests fail", async () => {
  const { clock, ask, woken } = aScene();
  for (let second = 0; second < 20; second += 1) {
    await ask("SERVER", 500);
    await clock.advance(1_000);
    await ask();
  }
  expect(woken()).toBeUndefined();
});

test("what is wrong with a request is no outage", async () => {
  const { clock, ask, woken } = aScene();
  for (const [code, status] of [
    ["FORBIDDEN", 403],
    ["CANCELLED", undefined],
  ] as const) {
    await ask(code, status);
    await clock.advance(5_000);
    await ask();
  }
  await clock.advance(0);
  expect(woken()).toBeUndefined();
});

test("without an outage, or with a signal, sleep is sleep", async () => {
  const slept = aScene();
  await slept.clock.advance(60_000);
  expect(slept.woken()).toBe(60_000);
  const aborted = aScene();
  aborted.controller.abort();
  await rest();
  expect([aborted.woken(), aborted.clock.timers]).toEqual([-1, 0]);
});

test("who wants to be told is told of each recovery, and of none after the signal", async () => {
  const clock = new FakeClock();
  const inner = new FakeConnection();
  const recovery = createRecovery(clock, () => 0);
  const connection = recovery.listen(inner);
  const controller = new AbortController();
  let times = 0;
  recovery.tell(() => (times += 1), controller.signal);
  const outage = async () => {
    inner.answer = () => {
      throw new KubeError("SERVER", "no", { status: 500 });
    };
    await connection.request({ method: "GET", path: "/", deadlineMs: 1 }).catch(() => undefined);
    await clock.advance(5_000);
    inner.answer = () => ({});
    await connection.request({ method: "GET", path: "/", deadlineMs: 1 });
    await clock.advance(10);
  };
  await outage();
  await outage();
  expect(times).toBe(2);
  controller.abort();
  await outage();
  expect([times, clock.timers]).toEqual([2, 0]);
});
