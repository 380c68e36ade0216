// GC finds what an ADD has left whose executor was killed: only its lock says that it was started.
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock } from "../host/clock.ts";
import { createFiles } from "../host/fs/files.ts";
import { type AttachmentLocks, createAttachmentLocks } from "./attachment-locks.ts";
import type { CacheEntry } from "./cache-entry.ts";
import { parseNetworkConf } from "./conf.ts";
import { CniError } from "./error.ts";
import { type CachedAttachment, createCni } from "./network.ts";
import type { InProcessPlugin } from "./plugin-call.ts";
import { createPluginCalls } from "./plugin-calls.ts";
import { createResultCache } from "./result-cache.ts";
import { unlimited } from "./time-limit.ts";
import type { CniVersion } from "./version.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-killed-"));
});
afterEach(() => rm(folder, { recursive: true }));

const { signal } = new AbortController();
const networkOf = (cniVersion: CniVersion, name = "pods") =>
  parseNetworkConf(JSON.stringify({ cniVersion, name, plugins: [{ type: "bridge" }, { type: "portmap" }] }), "a list");
const namesIn = async (name: string) =>
  (await readdir(join(folder, name))).filter((each) => !each.startsWith(".")).toSorted();

interface Given {
  readonly version?: CniVersion;
  /** The files that killed executors have left in the folder of the locks. DEL of the container `busy` fails. */
  readonly locks: readonly string[];
  /** The containers with an entry in the cache, and with a torn one. */
  readonly cached?: readonly string[];
  readonly torn?: readonly string[];
  /** The containers that still exist. */
  readonly valid?: readonly string[];
}

function createFixture(calls: string[], seen: CachedAttachment[], valid: readonly string[]) {
  const files = createFiles(folder);
  const clock = createClock();
  const plugins: InProcessPlugin = {
    async call({ verb, conf, containerId, netns }) {
      calls.push([verb, conf["type"], containerId, netns].filter((part) => part !== "").join(" "));
      if (verb === "DEL" && containerId === "busy") throw new CniError(100, "busy");
      return undefined;
    },
  };
  const callPlugin = createPluginCalls({ binaries: plugins, inProcess: new Map(), clock });
  const locks: AttachmentLocks = createAttachmentLocks({ files, clock, description: "a test" });
  const cache = createResultCache({ files, clock });
  const cni = createCni({ createCallPlugin: () => callPlugin, cache, locks, timeLimit: unlimited });
  const collect = (conf: ReturnType<typeof networkOf>) =>
    cni.gc(
      conf,
      async (all) => {
        seen.push(...all);
        return all.filter(({ containerId }) => valid.includes(containerId));
      },
      signal,
    );
  return { cache, cni, locks, collect };
}

/** Collects the garbage of the network `pods`. */
async function collect({ version = "1.0.0", locks, cached = [], torn = [], valid = [] }: Given) {
  const [calls, seen]: [string[], CachedAttachment[]] = [[], []];
  const conf = networkOf(version);
  const fixture = createFixture(calls, seen, valid);
  await mkdir(join(folder, "locks"));
  await mkdir(join(folder, "results"));
  for (const name of locks) await writeFile(join(folder, "locks", name), "");
  for (const containerId of cached) {
    const entry: CacheEntry = {
      ...{ network: "pods", containerId, ifName: "eth0", netns: `/run/netns/${containerId}` },
      ...{ args: new Map(), capabilityArgs: {}, config: conf.text, result: {} },
    };
    await fixture.cache.write(entry);
  }
  for (const containerId of torn) await writeFile(join(folder, "results", `pods-${containerId}-eth0`), "{");
  const outcome = await fixture.collect(conf).then(
    (deleted) => deleted?.map(({ containerId }) => containerId),
    (error: CniError) => error.message,
  );
  return { outcome, calls, locks: await namesIn("locks"), cached: await namesIn("results") };
}

const dels = (containerId: string, netns = "") =>
  ["DEL portmap", "DEL bridge"].map((call) => `${call} ${containerId}${netns === "" ? "" : ` ${netns}`}`);
type Row = readonly [what: string, given: Given, expected: Partial<Awaited<ReturnType<typeof collect>>>];
const rows: readonly Row[] = [
  [
    "of a pod that is gone is deleted with what is known, by a chain without GC",
    { locks: ["pods-3f2a-eth0"] },
    { outcome: ["3f2a"], calls: dels("3f2a"), locks: [] },
  ],
  [
    "is deleted before GC of a chain that has one",
    { version: "1.1.0", locks: ["pods-3f2a-eth0"] },
    { outcome: ["3f2a"], calls: [...dels("3f2a"), "GC bridge", "GC portmap"], locks: [] },
  ],
  [
    "of a sandbox that exists is left to the runtime's DEL",
    { locks: ["pods-3f2a-eth0"], valid: ["3f2a"] },
    { outcome: [], calls: [], locks: ["pods-3f2a-eth0"] },
  ],
  [
    "whose DEL fails is found again",
    { locks: ["pods-busy-eth0", "pods-3f2a-eth0"] },
    { outcome: "busy", calls: [...dels("3f2a"), "DEL portmap busy"], locks: ["pods-busy-eth0"] },
  ],
  [
    "of another network, of an id with a hyphen, and of none are left alone",
    { locks: ["pods-blue-3f2a-eth0", "pods-cnitool-77aa-eth0", "another-3f2a-eth0", "pods", ".another"] },
    { outcome: [], calls: [], locks: ["another-3f2a-eth0", "pods", "pods-blue-3f2a-eth0", "pods-cnitool-77aa-eth0"] },
  ],
];
for (const [what, given, expected] of rows)
  test(`the lock of a killed ADD ${what}`, async () => expect(await collect(given)).toMatchObject(expected));

/** Those of which the cache has something. */
const known: readonly Row[] = [
  [
    "with a sandbox is removed, without a DEL",
    { locks: ["pods-3f2a-eth0"], cached: ["3f2a"], valid: ["3f2a"] },
    { outcome: [], calls: [], locks: [], cached: ["pods-3f2a-eth0"] },
  ],
  [
    "without a sandbox is removed, and the attachment deleted once, with its namespace",
    { locks: ["pods-3f2a-eth0"], cached: ["3f2a"] },
    { outcome: ["3f2a"], calls: dels("3f2a", "/run/netns/3f2a"), locks: [], cached: [] },
  ],
  [
    "with a torn entry is removed, and the attachment deleted once",
    { locks: ["pods-3f2a-eth0"], torn: ["3f2a"] },
    { outcome: ["3f2a"], calls: dels("3f2a"), locks: [], cached: [] },
  ],
  [
    "is removed while its DEL fails, as the entry stays",
    { locks: ["pods-busy-eth0"], cached: ["busy"] },
    { outcome: "busy", locks: [], cached: ["pods-busy-eth0"] },
  ],
];
for (const [what, given, expected] of known)
  test(`the lock of a killed CHECK or DEL ${what}`, async () => expect(await collect(given)).toMatchObject(expected));

test("GC of a network learns nothing of an ADD that runs in another one", async () => {
  const seen: CachedAttachment[] = [];
  const { locks, collect } = createFixture([], seen, []);
  const key = { network: "pods-blue", containerId: "3f2a", ifName: "eth0" };
  await locks.withAttachment(key, async () => void (await collect(networkOf("1.0.0"))), { signal });
  expect([seen, await namesIn("locks")]).toEqual([[], []]);
});
