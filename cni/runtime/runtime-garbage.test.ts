import { expect, test } from "bun:test";
import { FilesError } from "../../host/fs/files.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import { type CacheEntry, cacheFileName, encodeCacheEntry } from "../cache-entry.ts";
import { DELEGATE_NETWORK } from "../delegate-network.ts";
import { CniError } from "../error.ts";
import { unlimited } from "../time-limit.ts";
import { createRuntimeGarbageCollection, isLeftOver, type RuntimeAttachmentFacts } from "./runtime-garbage.ts";

test("an attachment is left over if its pod can no longer exist and the runtime does not know it", () => {
  const rows: string[] = [];
  for (const isOfPod of [true, false])
    for (const hasSandbox of [true, false])
      for (const netns of ["mounted", "gone", "unknown"] as const)
        for (const seesNamespaces of [true, false, undefined])
          for (const isBeforeBoot of [true, false]) {
            const facts: RuntimeAttachmentFacts = { isOfPod, hasSandbox, netns, seesNamespaces, isBeforeBoot };
            if (isLeftOver(facts))
              rows.push(`${netns}, sees namespaces: ${seesNamespaces}, before boot: ${isBeforeBoot}`);
            // The other values of these two say the same in each row.
            if (!isOfPod || hasSandbox) expect(isLeftOver(facts)).toBe(false);
            if (isLeftOver(facts) === undefined)
              expect(facts).toEqual({ ...facts, netns: "gone", seesNamespaces: undefined, isBeforeBoot: false });
          }
  expect(rows).toEqual([
    "gone, sees namespaces: true, before boot: true",
    "gone, sees namespaces: true, before boot: false",
    "gone, sees namespaces: undefined, before boot: true",
  ]);
});

const { signal } = new AbortController();
const config = JSON.stringify({ cniVersion: "1.0.0", name: "pods", plugins: [{ type: "bridge" }] });

const entryOf = (containerId: string, changed: Partial<CacheEntry> = {}): CacheEntry => ({
  ...{ network: "pods", containerId, ifName: "eth0", netns: `/run/netns/${containerId}`, config },
  ...{ args: new Map([["K8S_POD_INFRA_CONTAINER_ID", containerId]]), capabilityArgs: {}, result: {} },
  ...changed,
});
const fileOf = (entry: CacheEntry) => [cacheFileName(entry), encodeCacheEntry(entry)] as const;

interface Given {
  /** The files of the cache by name. */
  readonly files: readonly (readonly [name: string, text: string])[];
  /** How long ago they were written; an hour unless given. */
  readonly ageMs?: number;
  /** Whether each sandbox of the runtime is ready. */
  readonly sandboxes?: Readonly<Record<string, boolean>>;
  /** The containers whose namespaces this process sees. */
  readonly mounted?: readonly string[];
  /** The containers whose DEL fails, with the code of its error. */
  readonly failing?: Record<string, number>;
  /** Called with the container of each DEL. */
  readonly onDel?: (containerId: string) => void;
}

/** A collection on a cache in memory. `run` returns the DELs, the files that are left, and when it is to run again. */
function createFixture({ files, ageMs = 3_600_000, sandboxes = {}, mounted = [], failing = {}, onDel }: Given) {
  const clock = new FakeClock();
  const log = new FakeLog();
  const kept = new Map(files.map(([name, text]) => [`results/${name}`, text]));
  let calls: string[] = [];
  let opened = 0;
  const collect = createRuntimeGarbageCollection({
    files: {
      list: async () => [...kept.keys()].map((path) => ({ name: path.slice("results/".length), kind: "file" })),
      async read(path) {
        if (path.endsWith("-removed-eth0")) throw new FilesError("ENOENT", path, "it does not exist");
        if (path.endsWith("-large-eth0")) throw new FilesError("ETOOBIG", path, "it is larger than 4 MiB");
        if (path.endsWith("-binary-eth0")) throw new FilesError("ERR_ENCODING_INVALID_ENCODED_DATA", path, "no text");
        return kept.get(path) ?? "";
      },
      stat: async () =>
        ({ kind: "file", modifiedMs: FakeClock.start - ageMs, sizeBytes: 0, inode: 1, mode: 0o600 }) as never,
      async rename(from, to) {
        kept.set(to, kept.get(from) ?? "");
        kept.delete(from);
      },
    },
    async isNamespace(path) {
      if (path === "/run/netns/hidden") throw new FilesError("EACCES", path, "permission denied");
      return mounted.some((name) => path === `/run/netns/${name}`);
    },
    bootedAt: FakeClock.start - 1_800_000,
    async openCni() {
      opened += 1;
      return {
        async del(network, attachment, conf) {
          const key = { network, containerId: attachment.containerId, ifName: attachment.ifName };
          calls.push(`${cacheFileName(key)} with ${conf?.plugins.map(({ type }) => type).join(", ") ?? "no list"}`);
          onDel?.(attachment.containerId);
          const code = failing[attachment.containerId];
          if (code !== undefined) throw new CniError(code, "busy", { plugin: "bridge" });
          kept.delete(`results/${cacheFileName(key)}`);
        },
      };
    },
    ...{ clock, log },
  });
  return {
    ...{ clock, log },
    async run(runSignal = signal) {
      calls = [];
      const { deleted, againAfterMs } = await collect(
        { isReady: new Map(Object.entries(sandboxes)) },
        runSignal,
        unlimited,
      );
      return { calls, deleted: deleted.map(({ containerId }) => containerId), againAfterMs, opened };
    },
    remove: (name: string) => void kept.delete(`results/${name}`),
    files: () => [...kept.keys()].map((path) => path.slice("results/".length)).toSorted(),
  };
}

const linesOf = (...ids: readonly string[]) => ids.map((id) => `pods-${id}-eth0 with bridge`);
const nothing = { calls: [], deleted: [], againAfterMs: undefined, opened: 0 };

test.each<[string, Given]>([
  ["an empty cache", { files: [] }],
  ["a pod of another runtime, whose namespace exists", { files: [fileOf(entryOf("a"))], mounted: ["a"] }],
  ["a sandbox for which the runtime calls DEL", { files: [fileOf(entryOf("a"))], sandboxes: { a: false } }],
  [
    "a pod whose namespace this process does not see, as that of a ready sandbox",
    { files: [fileOf(entryOf("a")), fileOf(entryOf("b"))], sandboxes: { b: true } },
  ],
  [
    "a pod of this boot, while no ready sandbox shows what this process sees",
    { files: [fileOf(entryOf("a"))], ageMs: 60_000 },
  ],
  ["what berth cni add has made", { files: [fileOf(entryOf("a", { args: new Map() }))] }],
  ["an attachment without a namespace", { files: [fileOf(entryOf("a", { netns: "" }))] }],
  ["a namespace that this process must not look at", { files: [fileOf(entryOf("hidden"))] }],
  ["an entry of the delegate", { files: [fileOf(entryOf("a", { network: DELEGATE_NETWORK }))] }],
  [
    "an entry that its runtime removes meanwhile, and a file that is too large for an entry",
    {
      files: [
        ["pods-removed-eth0", ""],
        ["pods-large-eth0", ""],
      ],
    },
  ],
  [
    "an entry of another form",
    {
      files: [
        ["pods-a-eth0", '{"kind":"cniCacheV2"}'],
        ["pods-b-eth0", '{"ips":[]}'],
      ],
    },
  ],
])("nothing is changed: %s", async (_name, given) => {
  const fixture = createFixture(given);
  const before = fixture.files();
  expect(await fixture.run()).toEqual(nothing);
  expect(fixture.files()).toEqual(before);
  expect(fixture.log.lines).toEqual([]);
});

test("attachments from before the boot are deleted with the list that has made them", async () => {
  const fixture = createFixture({ files: [fileOf(entryOf("a")), fileOf(entryOf("b", { network: "old" }))] });
  expect(await fixture.run()).toMatchObject({
    calls: ["pods-a-eth0 with bridge", "old-b-eth0 with bridge"],
    deleted: ["a", "b"],
  });
  expect(await fixture.run()).toMatchObject({ calls: [], opened: 1 });
});

test("an attachment of this boot is deleted if a ready sandbox shows that its namespace is gone", async () => {
  const files = [fileOf(entryOf("a")), fileOf(entryOf("b"))];
  const fixture = createFixture({ files, ageMs: 60_000, sandboxes: { b: true }, mounted: ["b"] });
  expect(await fixture.run()).toMatchObject({ deleted: ["a"] });
});

test("an entry of libcni before 1.1 has the namespace in its result alone", async () => {
  const early = (id: string) => {
    const interfaces = [{ name: "cni0" }, { name: "eth0", sandbox: `/run/netns/${id}` }];
    return fileOf(entryOf(id, { netns: "", result: { cniVersion: "1.0.0", interfaces } }));
  };
  const fixture = createFixture({
    ...{ files: ["a", "b", "c"].map(early), ageMs: 60_000 },
    ...{ sandboxes: { b: true }, mounted: ["b", "c"] },
  });
  expect(await fixture.run()).toMatchObject({ deleted: ["a"] });
});

const lineOf = (reason: string) => ({ level: "warn", fields: { attachment: "pods a eth0", reason } });

test("a plugin that fails is logged once and called again when its delay is over, until it succeeds; the others do not wait", async () => {
  const failing: Record<string, number> = { a: 100 };
  const fixture = createFixture({ files: [fileOf(entryOf("a")), fileOf(entryOf("b"))], failing });
  const { clock, log, run } = fixture;
  expect(await run()).toMatchObject({ deleted: ["b"], againAfterMs: 10_000 });
  await clock.advance(4_000);
  // The runtime is listed again.
  expect(await run()).toEqual({ ...nothing, againAfterMs: 6_000, opened: 1 });
  await clock.advance(6_000);
  expect(await run()).toMatchObject({ calls: ["pods-a-eth0 with bridge"], deleted: [], againAfterMs: 20_000 });
  expect(log.lines).toMatchObject([lineOf("bridge: busy (code 100)")]);
  delete failing["a"];
  await clock.advance(20_000);
  expect(await run()).toMatchObject({ deleted: ["a"], againAfterMs: undefined });
  expect(await run()).toEqual({ ...nothing, opened: 3 });
});

test("a plugin that is not installed is not searched again, and nothing is to be done any more", async () => {
  const fixture = createFixture({ files: [fileOf(entryOf("a"))], failing: { a: 50 } });
  expect(await fixture.run()).toMatchObject({ deleted: [], againAfterMs: undefined });
  await fixture.clock.advance(3_600_000);
  expect(await fixture.run()).toEqual({ ...nothing, opened: 1 });
  expect(fixture.log.lines).toMatchObject([lineOf("bridge: busy (code 50)")]);
});

test("an attachment that another process deletes is not tried again", async () => {
  const fixture = createFixture({ files: [fileOf(entryOf("a"))], failing: { a: 100 } });
  expect(await fixture.run()).toMatchObject({ againAfterMs: 10_000 });
  fixture.remove("pods-a-eth0");
  expect(await fixture.run()).toEqual({ ...nothing, opened: 1 });
});

test("a plugin that hangs does not keep the others from their turn", async () => {
  const late = new AbortController();
  const onDel = (id: string) => {
    if (id === "b") late.abort(new CniError(999, "it took longer than 60 s"));
  };
  const files = ["a", "b", "c"].map((id) => fileOf(entryOf(id)));
  const { run, clock } = createFixture({ files, failing: { b: 999 }, onDel });
  expect(await run(late.signal)).toMatchObject({ calls: linesOf("a", "b"), deleted: ["a"], againAfterMs: 10_000 });
  await clock.advance(10_000);
  expect(await run()).toMatchObject({ calls: linesOf("c", "b"), deleted: ["c"], againAfterMs: 20_000 });
});

test("a DEL that has failed is tried again also if no ready sandbox shows at that time what this process sees", async () => {
  const sandboxes: Record<string, boolean> = { ready: true };
  const failing: Record<string, number> = { a: 100 };
  const files = [fileOf(entryOf("a")), fileOf(entryOf("ready"))];
  const { run, clock } = createFixture({ files, ageMs: 60_000, sandboxes, mounted: ["ready"], failing });
  expect(await run()).toMatchObject({ calls: linesOf("a"), againAfterMs: 10_000 });
  delete sandboxes["ready"];
  await clock.advance(10_000);
  expect(await run()).toMatchObject({ calls: [], againAfterMs: 20_000 });
  sandboxes["ready"] = true;
  delete failing["a"];
  await clock.advance(20_000);
  expect(await run()).toMatchObject({ deleted: ["a"], againAfterMs: undefined });
});

test("the earlier of a torn file and a DEL that has failed is next", async () => {
  const torn = ["pods-b-eth0", '{"kind":"cni'] as const;
  const files = [fileOf(entryOf("a")), fileOf(entryOf("c")), torn];
  const given = { files, ageMs: 4_000, sandboxes: { c: true }, mounted: ["c"], failing: { a: 100 } };
  const { run, clock } = createFixture(given);
  expect(await run()).toMatchObject({ calls: ["pods-a-eth0 with bridge"], againAfterMs: 6_000 });
  await clock.advance(6_000);
  expect(await run()).toMatchObject({ calls: [], againAfterMs: 4_000 });
});

test("a torn file is set aside ten seconds after it was written, when no writer can be slow any more", async () => {
  const young = createFixture({ files: [["pods-a-eth0", '{"kind":"cni']], ageMs: 4_000 });
  expect(await young.run()).toEqual({ ...nothing, againAfterMs: 6_000 });
  expect(young.files()).toEqual(["pods-a-eth0"]);
  for (const [name, text] of [
    ["pods-a-eth0", '{"kind":"cni'],
    ["pods-a-eth0", ""],
    ["pods-binary-eth0", ""],
  ] as const) {
    const old = createFixture({ files: [[name, text]], ageMs: 10_000 });
    expect(await old.run()).toEqual(nothing);
    expect(old.files()).toEqual([`${name}.unreadable`]);
    expect(await old.run()).toEqual(nothing);
    expect(old.log.lines.length).toBe(1);
  }
});
