import { afterEach, beforeEach, expect, test } from "bun:test";
import { closeSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles } from "../host/fs/files.ts";
import { pollUntil } from "../test/bed/poll-until.ts";
import { FakeAttachmentLocks } from "../test/fakes/attachment-locks.ts";
import { FakeClock } from "../test/fakes/clock.ts";
import { type AttachmentLocks, createAttachmentLocks, type ShareLocks } from "./attachment-locks.ts";
import type { CniError } from "./error.ts";

let folder: string;
let clock: FakeClock;
let fake: FakeAttachmentLocks;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-locks-"));
  clock = new FakeClock();
  fake = new FakeAttachmentLocks(clock);
});
afterEach(() => rm(folder, { recursive: true }));

/** Locks of their own, as another process has them: flock(2) is held by the open file. */
const createLocks = (onLongWait?: (text: string) => void) =>
  createAttachmentLocks({ files: createFiles(folder), clock, description: "a test", onLongWait });
const { signal } = new AbortController();
const patient = { signal };
const ofKernel = () => createLocks();
const kinds: readonly (readonly [kind: string, create: () => AttachmentLocks])[] = [
  ["the kernel's locks", ofKernel],
  ["the fake locks", () => fake.ofProcess(signal)],
];
const key = { network: "pods", containerId: "a", ifName: "eth0" };
const other = { ...key, containerId: "b" };

/** Work that notes its begin and its end, and lasts until it is ended. */
function createWork(notes: string[], name: string) {
  const end = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  const work = async () => {
    notes.push(`${name} begins`);
    started.resolve();
    await end.promise;
    notes.push(`${name} ends`);
  };
  return { work, end: end.resolve, begins: started.promise };
}

test.each(kinds)(
  "%s: a second executor of an attachment waits for the first, one of another attachment does not",
  async (_, create) => {
    const notes: string[] = [];
    const [first, second, third] = ["first", "second", "other"].map((name) => createWork(notes, name));
    const running = [create().withAttachment(key, first!.work, patient)];
    await first!.begins;
    running.push(create().withAttachment(key, second!.work, patient));
    running.push(create().withAttachment(other, third!.work, patient));
    await third!.begins;
    await clock.advance(1000);
    expect(notes).toEqual(["first begins", "other begins"]);
    first!.end();
    await running[0];
    await clock.advance(1000);
    await second!.begins;
    second!.end();
    third!.end();
    await Promise.all(running);
    expect(notes.slice(2)).toEqual(["first ends", "second begins", "other ends", "second ends"].toSorted(byPlace));
    if (create === ofKernel) expect(await readdir(join(folder, "locks"))).toEqual([".pods"]);
  },
);

/** Which of both ends first does not matter. */
const ORDER = ["first ends", "second begins", "second ends", "other ends"];
const byPlace = (a: string, b: string) => ORDER.indexOf(a) - ORDER.indexOf(b);

test.each(kinds)(
  "%s: the garbage of a network is collected while none of its attachments is worked on",
  async (_, create) => {
    const notes: string[] = [];
    const [adding, collecting, deleting] = ["add", "gc", "del"].map((name) => createWork(notes, name));
    const added = create().withAttachment(key, adding!.work, patient);
    await adding!.begins;
    const collected = create().withNetwork("pods", collecting!.work, patient);
    await clock.advance(1000);
    expect(notes).toEqual(["add begins"]);
    adding!.end();
    await added;
    await clock.advance(1000);
    await collecting!.begins;
    const deleted = create().withAttachment(other, deleting!.work, patient);
    await create().withAttachment(
      { ...key, network: "another" },
      async () => void notes.push("another network"),
      patient,
    );
    await clock.advance(1000);
    collecting!.end();
    await collected;
    await clock.advance(1000);
    deleting!.end();
    await deleted;
    expect(notes).toEqual([
      "add begins",
      "add ends",
      "gc begins",
      "another network",
      "gc ends",
      "del begins",
      "del ends",
    ]);
  },
);

test("a plugin that outlives its executor holds up the next one, and the garbage collection of its network, until it ends", async () => {
  const dead = createWork([], "dead");
  let plugin: Bun.Subprocess | undefined;
  const die = async (shareLocks: ShareLocks) => {
    const descriptors = shareLocks();
    plugin = Bun.spawn(["sleep", "60"], { stdio: ["ignore", "ignore", "ignore", ...descriptors] });
    for (const descriptor of descriptors) closeSync(descriptor);
    await dead.work();
  };
  void createLocks().withAttachment(key, die, patient);
  await dead.begins;
  const notes: string[] = [];
  const note = async (name: string) => void notes.push(name);
  const waiting = [
    createLocks().withAttachment(key, () => note("del"), patient),
    createLocks().withNetwork("pods", () => note("gc"), patient),
  ];
  await clock.advance(1000);
  expect(notes).toEqual([]);
  plugin?.kill("SIGKILL");
  await plugin?.exited;
  await pollUntil("both", 4000, async () => {
    await clock.advance(200);
    return notes.length === 2;
  });
  await Promise.all(waiting);
  expect(notes.toSorted()).toEqual(["del", "gc"]);
});

test.each(kinds)(
  "%s: a failure releases the lock, and a waiting executor gives up when its signal aborts",
  async (_, create) => {
    const failure = new Error("plugin");
    await expect(create().withAttachment(key, () => Promise.reject(failure), patient)).rejects.toBe(failure);
    const holder = createWork([], "holder");
    const held = create().withAttachment(key, holder.work, patient);
    await holder.begins;
    const abort = new AbortController();
    const waiting = create().withAttachment(key, async () => "never", { signal: abort.signal });
    abort.abort(new Error("too late"));
    await expect(waiting).rejects.toThrow("too late");
    holder.end();
    await held;
  },
);

/** Starts an executor, whose work can end its process. */
type StartExecutor = (work: (die: () => void) => Promise<void>) => void;
const startOfKernel: StartExecutor = (work) => {
  // The kernel closes the descriptors of a process that dies.
  const die = (share: ShareLocks) => {
    for (const descriptor of share()) closeSync(descriptor);
  };
  void createLocks().withAttachment(key, (share) => work(() => die(share)), patient);
};
const startOfFake: StartExecutor = (work) => {
  const executor = new AbortController();
  void fake.ofProcess(executor.signal).withAttachment(key, () => work(() => executor.abort()), patient);
};
test.each([
  [...kinds[0]!, startOfKernel],
  [...kinds[1]!, startOfFake],
] as const)(
  "%s: an executor that dies leaves its lock, until the next one ends or GC removes it",
  async (_, create, start) => {
    const abandoned = () => create().withNetwork("pods", (_share, locks) => locks.list(), patient);
    const dieOnce = async () => {
      const dead = Promise.withResolvers<void>();
      start(async (die) => {
        die();
        dead.resolve();
        await new Promise(() => {});
      });
      await dead.promise;
    };
    await create().withAttachment(key, async () => {}, patient);
    expect(await abandoned()).toEqual([]);
    await dieOnce();
    expect(await abandoned()).toEqual([key]);
    await create().withAttachment({ ...key, network: "another" }, async () => {}, patient);
    expect(await create().withNetwork("another", (_share, locks) => locks.list(), patient)).toEqual([]);
    await create().withAttachment(key, async () => {}, patient);
    expect(await abandoned()).toEqual([]);
    await dieOnce();
    await create().withNetwork("pods", (_share, locks) => locks.remove(key), patient);
    expect(await abandoned()).toEqual([]);
  },
);

test("the fake locks: a plugin that outlives its executor holds up the next one until it ends", async () => {
  const [executor, plugin] = [new AbortController(), createWork([], "plugin")];
  void fake.ofProcess(executor.signal).withAttachment(key, (share) => fake.inherit(share(), plugin.work), patient);
  await plugin.begins;
  executor.abort();
  const notes: string[] = [];
  const note = async (name: string) => void notes.push(name);
  const next = fake.ofProcess(signal);
  const waiting = [
    next.withAttachment(key, () => note("del"), patient),
    next.withNetwork("pods", () => note("gc"), patient),
  ];
  await clock.advance(1000);
  expect(notes).toEqual([]);
  plugin.end();
  await clock.advance(1000);
  await Promise.all(waiting);
  expect(notes.toSorted()).toEqual(["del", "gc"]);
});

test("the fake locks: those of an executor that has ended are free", async () => {
  const executor = new AbortController();
  const work = createWork([], "executor");
  void fake.ofProcess(executor.signal).withAttachment(key, work.work, patient);
  await work.begins;
  executor.abort();
  expect(await fake.ofProcess(signal).withAttachment(key, async () => "free", patient)).toBe("free");
});

test.each(kinds)(
  "%s: a waiting executor gives up when its caller's time is over, with the code for a later try",
  async (_, create) => {
    const holder = createWork([], "holder");
    const held = create().withAttachment(key, holder.work, patient);
    await holder.begins;
    const endMs = clock.monotonicMs() + 900;
    const wait = { signal, leftMs: () => endMs - clock.monotonicMs() };
    const waiting = [
      create().withAttachment(key, async () => "never", wait),
      create().withNetwork("pods", async () => "never", wait),
    ].map((each) => each.then(String, (error: unknown) => [clock.monotonicMs() >= endMs, (error as CniError).code]));
    await clock.advance(899);
    await clock.advance(1);
    expect(await Promise.all(waiting)).toEqual([
      [true, 11],
      [true, 11],
    ]);
    holder.end();
    await held;
    expect(await create().withAttachment(key, async () => "free", { signal, leftMs: () => 0 })).toBe("free");
  },
);

test("after two seconds a wait says once what is locked and who holds it", async () => {
  const holder = createWork([], "holder");
  const held = createLocks().withAttachment(key, holder.work, patient);
  await holder.begins;
  const said: string[] = [];
  const waiting = [
    createLocks((text) => said.push(text)).withAttachment(key, async () => "free", patient),
    createLocks((text) => said.push(text)).withNetwork("pods", async () => "free", patient),
  ];
  await clock.advance(1_999);
  expect(said).toEqual([]);
  await pollUntil("both texts", 5_000, async () => {
    await clock.advance(200);
    return said.length >= 2;
  });
  await clock.advance(60_000);
  const who = `pid ${process.pid} \\(.+\\) has locked`;
  expect(said.toSorted()).toEqual([
    expect.stringMatching(new RegExp(`^${who} eth0 of a in the network pods since \\d{4}-[-\\d:TZ]+$`)),
    expect.stringMatching(new RegExp(`^${who} the network pods$`)),
  ]);
  holder.end();
  await held;
  await clock.advance(1_000);
  expect(await Promise.all(waiting)).toEqual(["free", "free"]);
});

test("the error of a wait names the processes that hold the lock, and since when", async () => {
  const holder = createWork([], "holder");
  let plugin: Bun.Subprocess | undefined;
  const held = createLocks().withAttachment(
    key,
    async (share) => {
      plugin = Bun.spawn(["sleep", "60"], { stdio: ["ignore", "ignore", "ignore", ...share()] });
      await holder.work();
    },
    patient,
  );
  await holder.begins;
  const late = { signal, leftMs: () => 0 };
  const messageOf = (work: Promise<unknown>) => work.then(String, ({ message }: Error) => message);
  const ofAttachment = await messageOf(createLocks().withAttachment(key, async () => "never", late));
  const ofNetwork = await messageOf(createLocks().withNetwork("pods", async () => "never", late));
  const both = (text: string) =>
    [`pid ${process.pid} (`, `pid ${plugin?.pid} (sleep)`].every((pid) => text.includes(pid));
  expect(ofAttachment).toMatch(
    /^pid .* and pid .* have locked eth0 of a in the network pods since \d{4}-\d\d-\d\dT[\d:]+Z, longer than this call may wait$/,
  );
  expect(ofNetwork).toMatch(/^pid .* and pid .* have locked the network pods, longer than this call may wait$/);
  expect([both(ofAttachment), both(ofNetwork)]).toEqual([true, true]);
  plugin?.kill("SIGKILL");
  await plugin?.exited;
  expect(await messageOf(createLocks().withAttachment(key, async () => "never", late))).toContain(
    " has locked eth0 of a in the network pods since ",
  );
  holder.end();
  await held;
});
