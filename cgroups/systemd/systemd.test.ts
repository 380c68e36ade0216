import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { imitateCgroupV2 } from "../../test/fakes/cgroup-v2.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeSystemd, type FakeSystemdSocket, listenAsSystemd } from "../../test/fakes/systemd.ts";
import { encodeMessage } from "./dbus-message.ts";
import { createSystemd, type Systemd } from "./systemd.ts";
import { systemdProperties } from "./unit-properties.ts";

const unit = "kubepods.slice";
const properties = systemdProperties({ cpuWeight: 39, memoryMax: "max" });
let folder: string;
let path: string;
let manager: FakeSystemd;
let clock: FakeClock;
let socket: FakeSystemdSocket | undefined;

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-systemd-"));
  path = join(folder, "private");
  manager = new FakeSystemd(folder, imitateCgroupV2(folder).files);
  clock = new FakeClock();
});
afterEach(async () => {
  await socket?.close();
  socket = undefined;
  await rm(folder, { recursive: true });
});

function client(addresses = [{ socketPath: path, isBus: false }]): Systemd {
  return createSystemd({ addresses, uid: 0, clock, timeoutMs: 30_000, idleMs: 5_000 });
}

/** Waits for a condition that a socket's other end brings about. */
async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await new Promise((resolve) => setImmediate(resolve));
}

test("a slice starts with its properties; systemd has it then, and stops it", async () => {
  socket = await listenAsSystemd(path, manager);
  const systemd = client();
  expect(await systemd.startSlice(unit, undefined, properties)).toBe(true);
  expect(manager.units.get(unit)?.get("CPUWeight")).toBe(39n);
  expect(manager.units.get(unit)?.get("DefaultDependencies")).toBe(false);
  expect(await systemd.startSlice(unit, undefined, properties)).toBe(false);
  await systemd.setProperties(unit, systemdProperties({ pidsMax: 7 }));
  await until(() => manager.units.get(unit)?.get("TasksMax") === 7n);
  for (let time = 0; time < 2; time++) await systemd.stop(unit);
  expect([...manager.units.keys()]).toEqual([]);
  expect(socket.connections()).toBe(1);
});

test("calls at the same time get their own replies", async () => {
  socket = await listenAsSystemd(path, manager);
  const systemd = client();
  const units = Array.from({ length: 30 }, (_, index) => `a${index}.slice`);
  const started = await Promise.all(units.map((each) => systemd.startSlice(each, undefined, properties)));
  expect(started).toEqual(units.map(() => true));
  expect([...manager.units.keys()].toSorted()).toEqual(units.toSorted());
});

test("an error of systemd names the unit, the properties, and systemd's words", async () => {
  socket = await listenAsSystemd(path, manager);
  manager.refused = {
    member: "StartTransientUnit",
    name: "org.freedesktop.DBus.Error.InvalidArgs",
    text: "no such thing",
  };
  await expect(client().startSlice(unit, undefined, properties)).rejects.toMatchObject({
    name: "CgroupError",
    code: "ESYSTEMD",
    file: unit,
    value: "CPUWeight=39 MemoryMax=infinity",
    message:
      "cannot start kubepods.slice (CPUWeight=39 MemoryMax=infinity) by systemd: org.freedesktop.DBus.Error.InvalidArgs: no such thing",
  });
});

test("a job that fails is an error, except that of a stop", async () => {
  socket = await listenAsSystemd(path, manager);
  manager.jobResult = "failed";
  await expect(client().startSlice(unit, undefined, [])).rejects.toMatchObject({
    code: "ESYSTEMD",
    message: 'cannot start kubepods.slice by systemd: its job ended with "failed"',
  });
  await client().stop(unit);
});

test("a systemd that does not answer costs the time limit; the next call works when it does again", async () => {
  socket = await listenAsSystemd(path, manager);
  manager.isSilent = true;
  const systemd = client();
  const failure = systemd.startSlice(unit, undefined, properties).catch((error: unknown) => error);
  await until(() => manager.calls.length === 1);
  await clock.advance(30_000);
  expect(await failure).toMatchObject({
    code: "ETIMEDOUT",
    file: unit,
    message: expect.stringContaining("systemd has not done so within 30 s"),
  });
  manager.isSilent = false;
  expect(await systemd.startSlice(unit, undefined, properties)).toBe(true);
});

test("without a socket D-Bus is away, and back when the socket is", async () => {
  const systemd = client();
  const away = systemd.startSlice(unit, undefined, properties);
  await expect(away).rejects.toMatchObject({ name: "CgroupError", code: "EDBUS", file: unit });
  await expect(away).rejects.toThrow(path);
  socket = await listenAsSystemd(path, manager);
  expect(await systemd.startSlice(unit, undefined, properties)).toBe(true);
});

test("a connection that ends during a call fails it, and the next call connects again", async () => {
  socket = await listenAsSystemd(path, manager);
  manager.isSilent = true;
  const systemd = client();
  const failure = systemd.setProperties(unit, properties).catch((error: unknown) => error);
  await until(() => manager.calls.length === 1);
  socket.drop();
  expect(await failure).toMatchObject({ code: "EDBUS", file: unit });
  manager.isSilent = false;
  await systemd.setProperties(unit, properties);
  expect(socket.connections()).toBe(2);
});

test("a call that is aborted ends at once, before and after systemd has named its job, and the connection stays", async () => {
  socket = await listenAsSystemd(path, manager);
  const systemd = client();
  manager.isSilent = true;
  for (const holdsUp of ["the reply", "the end of the job"]) {
    const abort = new AbortController();
    const calls = manager.calls.length;
    const aborted = systemd.startSlice(unit, undefined, properties, abort.signal).catch((error: unknown) => error);
    await until(() => manager.calls.length > calls);
    // The reply has arrived when the next one has.
    if (holdsUp === "the end of the job") await systemd.setProperties(unit, properties);
    abort.abort(new Error(`no time for ${holdsUp}`));
    expect(await aborted).toEqual(new Error(`no time for ${holdsUp}`));
    manager.isSilent = false;
    manager.endsJobs = false;
  }
  manager.endsJobs = true;
  await systemd.stop(unit);
  const before = AbortSignal.abort(new Error("the agent stops"));
  await expect(systemd.startSlice(unit, undefined, properties, before)).rejects.toThrow("the agent stops");
  expect(await systemd.startSlice(unit, undefined, properties)).toBe(true);
  expect(socket.connections()).toBe(1);
});

test("the connection closes some seconds after the last call, and opens with the next one", async () => {
  socket = await listenAsSystemd(path, manager);
  const systemd = client();
  for (const connections of [1, 2]) {
    await systemd.setProperties(unit, properties);
    await systemd.setProperties(unit, properties);
    expect(socket.connections()).toBe(connections);
    expect(clock.pendingTimers).toBe(1);
    await clock.advance(5_000);
    expect(clock.pendingTimers).toBe(0);
  }
});

test("systemd may refuse the user, and a peer may not speak D-Bus", async () => {
  socket = await listenAsSystemd(path, manager, "REJECTED EXTERNAL");
  const refused = client().stop(unit);
  await expect(refused).rejects.toMatchObject({ code: "EDBUS" });
  await expect(refused).rejects.toThrow("user 0 is refused: REJECTED EXTERNAL");
  const other = join(folder, "other");
  let sent: string | Uint8Array = "HTTP/1.1 400 Bad Request\r\n\r\n";
  const server = createServer((peer) => {
    let answers = ["OK 00\r\n", sent];
    peer.on("data", () => {
      peer.write(answers[0] ?? "");
      answers = answers.slice(1);
    });
  });
  await new Promise<void>((resolve) => server.listen(other, resolve));
  const garbage = client([{ socketPath: other, isBus: false }]).stop(unit);
  await expect(garbage).rejects.toThrow("the peer sends what is not D-Bus");
  // A reply whose body ends too early.
  const reply = encodeMessage({ kind: "return", serial: 1, replySerial: 1, signature: "o" }, ["/job"]);
  sent = reply.with(-9, 255);
  const broken = client([{ socketPath: other, isBus: false }]).stop(unit);
  await expect(broken).rejects.toMatchObject({
    code: "EDBUS",
    message: expect.stringContaining("longer than its message"),
  });
  server.close();
});

test("the second address serves where the first is away", async () => {
  socket = await listenAsSystemd(path, manager);
  const absent = { socketPath: join(folder, "none"), isBus: false };
  expect(await client([absent, { socketPath: path, isBus: false }]).startSlice(unit, undefined, [])).toBe(true);
  const both = client([absent, { ...absent, socketPath: join(folder, "none-either") }]).stop(unit);
  await expect(both).rejects.toThrow(/none:.*; .*none-either:/);
});
