import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createClock } from "../host/clock.ts";
import { createFiles, type Files, FilesError } from "../host/fs/files.ts";
import { type CacheEntry, decodeCacheEntry, encodeCacheEntry, keyOfFileName } from "./cache-entry.ts";
import { createResultCache, type UnreadableEntry } from "./result-cache.ts";

let folder: string;
let reported: UnreadableEntry[];
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-cache-"));
  reported = [];
});
afterEach(() => rm(folder, { recursive: true }));

/** A cache, where calls of the file system may be replaced. */
const openCache = (changed: Partial<Files> = {}) =>
  createResultCache({
    files: { ...createFiles(folder), ...changed },
    clock: createClock(),
    onUnreadable: (entry) => void reported.push(entry),
  });
const fileOf = (name: string) => join(folder, "results", name);

const key = { network: "pods", containerId: "3f2a", ifName: "eth0" };
const entry: CacheEntry = {
  ...key,
  netns: "/run/netns/blue",
  args: new Map([["K8S_POD_NAME", "web"]]),
  capabilityArgs: { portMappings: [{ hostPort: 8080 }] },
  config: '{"name":"pods"}',
  result: { cniVersion: "1.0.0", ips: [{ address: "10.1.0.5/16" }] },
};

/** What libcni 1.3 has written for this entry. */
const ofLibcni =
  '{"kind":"cniCacheV1","containerId":"3f2a","config":"eyJuYW1lIjoicG9kcyJ9","ifName":"eth0","networkName":"pods","netns":"/run/netns/blue","cniArgs":[["K8S_POD_NAME","web"]],"capabilityArgs":{"portMappings":[{"hostPort":8080}]},"result":{"cniVersion":"1.0.0","ips":[{"address":"10.1.0.5/16"}]}}';

test("an entry is in libcni's place and format, for root alone", async () => {
  const cache = openCache();
  await cache.write(entry);
  expect(await readFile(fileOf("pods-3f2a-eth0"), "utf8")).toBe(ofLibcni);
  expect([
    (await stat(join(folder, "results"))).mode & 0o777,
    (await stat(fileOf("pods-3f2a-eth0"))).mode & 0o777,
  ]).toEqual([0o700, 0o600]);
  expect(await cache.read(key)).toEqual(entry);
  expect(await cache.list()).toEqual({ entries: [entry], unreadable: [] });
  expect(await cache.addedAt(key)).toBe((await stat(fileOf("pods-3f2a-eth0"))).mtimeMs);
  expect(cache.pathOf("pods-3f2a-eth0")).toBe(fileOf("pods-3f2a-eth0"));
  await cache.remove(key);
  await cache.remove(key);
  expect(await cache.read(key)).toBeUndefined();
});

test("a cache that does not exist is empty", async () => {
  expect([await openCache().read(key), await openCache().addedAt(key)]).toEqual([undefined, undefined]);
  expect(await openCache().list()).toEqual({ entries: [], unreadable: [] });
  await openCache().remove(key);
});

test("the smallest entry leaves empty fields out, as Go does", () => {
  const smallest = { ...entry, netns: "", args: new Map(), capabilityArgs: {}, result: {} };
  const text = encodeCacheEntry(smallest);
  expect(text).toBe(
    '{"kind":"cniCacheV1","containerId":"3f2a","config":"eyJuYW1lIjoicG9kcyJ9","ifName":"eth0","networkName":"pods"}',
  );
  expect(decodeCacheEntry(text, key)).toEqual(smallest);
});

test("a file of libcni before 0.8 is a result alone", () => {
  const result = { cniVersion: "0.3.1", ips: [] };
  const nothing = { netns: "", args: new Map(), capabilityArgs: {}, config: "" };
  expect(decodeCacheEntry(JSON.stringify(result), key)).toEqual({ ...key, ...nothing, result });
});

const torn: readonly (readonly [what: string, text: string, reason: string])[] = [
  ["an empty file", "", "JSON Parse error: Unexpected EOF"],
  ["half a file", ofLibcni.slice(0, 100), "JSON Parse error: Unterminated string"],
  ["a list", "[]", "it is not a JSON object"],
  ["another kind", '{"kind":"cniCacheV2"}', 'kind: found "cniCacheV2", must be "cniCacheV1"'],
  ["no kind", "{}", 'kind: found undefined, must be "cniCacheV1"'],
  ["numbers for names", '{"kind":"cniCacheV1","containerId":1}', "containerId, ifName and networkName must be texts"],
  ["arguments that are no pairs", ofLibcni.replace('"web"', '"web","x"'), "cniArgs must be a list of pairs"],
  [
    "a result that is a list",
    ofLibcni.replace('"result":{', '"result":[],"x":{'),
    "capabilityArgs and result must be objects",
  ],
];
for (const [what, text, reason] of torn)
  test(`${what} is set aside, reported once, and counts as absent`, async () => {
    await mkdir(join(folder, "results"));
    await writeFile(fileOf("pods-3f2a-eth0"), text);
    const cache = openCache();
    expect(await cache.read(key)).toBeUndefined();
    expect(await cache.read(key)).toBeUndefined();
    expect(reported).toEqual([{ fileName: "pods-3f2a-eth0", asideName: "pods-3f2a-eth0.unreadable", reason }]);
    expect(await readdir(join(folder, "results"))).toEqual(["pods-3f2a-eth0.unreadable"]);
    // Another process sees it as well, until the attachment is removed.
    const late = openCache();
    for (let time = 0; time < 2; time++) expect(await late.list()).toEqual({ entries: [], unreadable: reported });
    expect(reported.length).toBe(1);
    await late.remove(key);
    expect(await late.list()).toEqual({ entries: [], unreadable: [] });
    expect(await readdir(join(folder, "results"))).toEqual([]);
  });

test("what was set aside is not listed beside an entry in its place, and goes with it", async () => {
  const cache = openCache();
  await mkdir(join(folder, "results"));
  await writeFile(fileOf("pods-3f2a-eth0"), "{");
  expect((await cache.list()).unreadable.length).toBe(1);
  await cache.write(entry);
  expect(await cache.list()).toEqual({ entries: [entry], unreadable: [] });
  await cache.remove(key);
  expect(await readdir(join(folder, "results"))).toEqual([]);
});

test("a file that another program goes on writing after it was set aside is still unreadable", async () => {
  await mkdir(join(folder, "results"));
  await writeFile(fileOf("pods-3f2a-eth0.unreadable"), ofLibcni);
  expect((await openCache().list()).unreadable).toEqual([
    {
      ...{ fileName: "pods-3f2a-eth0", asideName: "pods-3f2a-eth0.unreadable" },
      reason: "another program has written it after it was set aside",
    },
  ]);
});

test("a list names the files that are torn, and has the other entries", async () => {
  await openCache().write(entry);
  await writeFile(fileOf("pods-77-eth0"), "{");
  const { entries, unreadable } = await openCache().list();
  expect(entries).toEqual([entry]);
  expect(unreadable.map(({ fileName }) => fileName)).toEqual(["pods-77-eth0"]);
});

test("a file that another program is just writing is read again, and stays", async () => {
  await openCache().write(entry);
  const files = createFiles(folder);
  const early = ["", ofLibcni.slice(0, 100)];
  const read: Files["read"] = async (...call) => early.shift() ?? (await files.read(...call));
  expect(await openCache({ read }).list()).toEqual({ entries: [entry], unreadable: [] });
  expect([early, reported]).toEqual([[], []]);
});

test("a torn file that another reader sets aside at the same time is no failure, and is reported once", async () => {
  await mkdir(join(folder, "results"));
  await writeFile(fileOf("pods-77-eth0"), "{");
  const files = createFiles(folder);
  const rename: Files["rename"] = async (...call) => {
    await files.rename(...call);
    await files.rename(...call);
  };
  const { unreadable } = await openCache({ rename }).list();
  expect([unreadable.map(({ fileName }) => fileName), reported]).toEqual([["pods-77-eth0"], []]);
});

test("the file of another attachment with the same name is not taken for the own one", async () => {
  await openCache().write({ ...entry, network: "pods-3f2a", containerId: "x" });
  expect(await openCache().read({ ...key, containerId: "3f2a-x" })).toBeUndefined();
  expect(reported).toEqual([]);
});

test("a disk that fails is an error, and nothing is set aside", async () => {
  await openCache().write(entry);
  const read = () => Promise.reject(new FilesError("EIO", "results", "results failed: input/output error"));
  const cache = openCache({ read });
  await expect(cache.read(key)).rejects.toThrow("input/output error");
  await expect(cache.list()).rejects.toThrow("input/output error");
  expect(await readdir(join(folder, "results"))).toEqual(["pods-3f2a-eth0"]);
});

test("the name of a file says which attachment of a network it was", () => {
  expect(keyOfFileName("pods-3f2a-eth0", "pods")).toEqual(key);
  expect(keyOfFileName("pods-cnitool-77-eth0", "pods")).toEqual({ ...key, containerId: "cnitool-77" });
  for (const name of ["pods", "pods-", "pods-a", "pods-a-", "other-a-eth0"])
    expect([name, keyOfFileName(name, "pods")]).toEqual([name, undefined]);
});
