import { expect, test } from "bun:test";
import { FilesError } from "../../../host/fs/files.ts";
import { trustAnchorKey } from "../../../proto/kubernetes/certificates.ts";
import type { BoundClaim } from "../../../proto/kubernetes/claims.ts";
import type { ReferencedObject } from "../../../proto/kubernetes/references.ts";
import type { IssuedToken } from "../../../proto/kubernetes/token-references.ts";
import { volumeGidAnnotation } from "../../../proto/kubernetes/well-known-names.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createKeptObjects, removeKeptObjects } from "./kept-objects.ts";

const FOLDER = "/root/berth/referenced-objects";
const login: ReferencedObject = { uid: "u", version: "7", type: "Opaque", data: { key: "c2VjcmV0" } };
const token: IssuedToken = { token: "eyJ-token", version: "t1", expiresAt: 5 };
const outage = { failure: "failed to fetch token: no answer", isOutage: true } as const;
const CLAIM = "claim shop/data for u-1";
const claim: BoundClaim = {
  claim: {
    metadata: { name: "data", namespace: "shop", uid: "c", annotations: { a: "b" } },
    spec: { volumeName: "pv" },
  },
  persistentVolume: {
    metadata: { name: "pv", uid: "v", annotations: { [volumeGidAnnotation]: "7", a: "b" } },
    spec: { local: { path: "/mnt/disk" } },
  },
};
/** What a new agent knows before the API server answers. */
const nothing = { objects: new Map(), tokens: new Map(), claims: new Map(), trustAnchors: new Map() };
const SECRET = "secret shop/login";
const anchors = { pem: "CA", version: "a1" };
const ANCHORS = trustAnchorKey({ name: "ca", path: "ca.crt" });
const TOKEN = 'token shop/robot for web u-1 3607 s ""';

function createBed() {
  const clock = new FakeClock();
  const disk = new FakeDisk(() => clock.now());
  const log = new FakeLog();
  const create = () => createKeptObjects({ root: disk.at("/root"), clock, log });
  /** What the next agent finds. */
  const reload = async () => {
    const next = create();
    await next.load();
    return next;
  };
  const files = () => disk.paths().filter((path) => path.startsWith(`${FOLDER}/`));
  return { clock, disk, log, create, reload, files };
}

test("the next agent finds the objects, tokens and trust anchors, in files that root alone reads", async () => {
  const { disk, create, reload, files } = createBed();
  const kept = create();
  kept.updateObject(SECRET, login);
  kept.updateToken(TOKEN, token);
  kept.updateTrustAnchors(ANCHORS, anchors);
  await kept.settled();
  expect(files().map((path) => disk.nodes.get(path)?.mode)).toEqual([0o600, 0o600, 0o600]);
  expect(disk.nodes.get(FOLDER)?.mode).toBe(0o700);
  const next = await reload();
  expect([...next.withObjects(new Map())]).toEqual([[SECRET, login]]);
  expect([...next.withTokens(new Map([[TOKEN, outage]]))]).toEqual([[TOKEN, token]]);
  expect([...next.withTrustAnchors(new Map([[ANCHORS, outage]]))]).toEqual([[ANCHORS, anchors]]);
  const known = { ...nothing, tokens: new Map([[TOKEN, outage]]), trustAnchors: new Map([[ANCHORS, outage]]) };
  expect(next.count(known)).toBe(3);
});

test("the next agent finds the claims with what a mount needs of them, and the labels of the node", async () => {
  const { disk, create, reload, files } = createBed();
  const kept = create();
  kept.updateClaim(CLAIM, claim, { disk: "old" });
  kept.updateNodeLabels({ disk: "here" });
  await kept.settled();
  expect(files().map((path) => disk.nodes.get(path)?.mode)).toEqual([0o600]);
  const next = await reload();
  const failed = new Map([[CLAIM, outage]]);
  expect([...next.withClaims(failed)]).toEqual([
    [
      CLAIM,
      {
        claim: { metadata: { name: "data", namespace: "shop", uid: "c" }, spec: {} },
        persistentVolume: {
          metadata: { name: "pv", annotations: { [volumeGidAnnotation]: "7" } },
          spec: { local: { path: "/mnt/disk" } },
        },
      },
    ],
  ]);
  expect([next.has(CLAIM), next.nodeLabels()]).toEqual([true, { disk: "here" }]);
  expect(next.count({ ...nothing, claims: failed })).toBe(1);
  // The API server's answer counts, whatever it is, and a pod waits for it.
  const answered = new Map([[CLAIM, { failure: "PVC is not bound" }]]);
  expect(next.withClaims(answered)).toBe(answered);
  expect([...next.withClaims(new Map())]).toEqual([]);
  next.updateClaim(CLAIM, claim, undefined);
  await next.settled();
  expect((await reload()).nodeLabels()).toEqual({ disk: "here" });
  next.updateClaim(CLAIM, outage, undefined);
  await next.settled();
  expect(files()).toHaveLength(1);
  next.updateClaim(CLAIM, { failure: "PVC is not bound" }, undefined);
  await next.settled();
  expect([files(), next.nodeLabels()]).toEqual([[], undefined]);
});

test("what the API server has answered counts, and not what was kept", async () => {
  const { create, reload } = createBed();
  const kept = create();
  kept.updateObject(SECRET, login);
  kept.updateToken(TOKEN, token);
  await kept.settled();
  const next = await reload();
  const objects = new Map([[SECRET, "absent" as const]]);
  expect(next.withObjects(objects)).toBe(objects);
  const refused = new Map([[TOKEN, { failure: "serviceaccounts is forbidden" }]]);
  expect(next.withTokens(refused)).toBe(refused);
  // It is still being requested: the pod waits a second for it.
  expect([...next.withTokens(new Map())]).toEqual([]);
});

test("an absent object, a refused token and what no pod refers to are removed from the disk", async () => {
  const { create, files } = createBed();
  const kept = create();
  kept.updateObject(SECRET, login);
  kept.updateObject("configmap shop/site", { ...login, data: { a: "b" } });
  kept.updateToken(TOKEN, token);
  await kept.settled();
  kept.updateTrustAnchors(ANCHORS, anchors);
  kept.updateToken(TOKEN, outage);
  kept.updateTrustAnchors(ANCHORS, outage);
  await kept.settled();
  expect(files()).toHaveLength(4);
  kept.updateTrustAnchors(ANCHORS, { failure: "it does not exist" });
  kept.updateObject(SECRET, "absent");
  kept.updateToken(TOKEN, { failure: "serviceaccounts is forbidden" });
  kept.prune(new Set([SECRET]));
  await kept.settled();
  expect(files()).toEqual([]);
});

test("nothing is written when nothing has changed", async () => {
  const { disk, create } = createBed();
  const kept = create();
  kept.updateObject(SECRET, login);
  await kept.settled();
  let writes = 0;
  disk.before = (verb) => {
    if (verb === "write") writes++;
  };
  kept.updateObject(SECRET, { ...login });
  await kept.settled();
  expect(writes).toBe(0);
});

const unreadable: readonly [sentence: string, text: string][] = [
  ["a torn file", '{"version":1,"key":"secret shop/login","object":{"data":{"key":"c2Vjc'],
  ["a file of another release", '{"version":2,"key":"secret shop/login"}'],
  ["a file without an object", '{"version":1,"key":"secret shop/login"}'],
  ["a claim without its volume", '{"version":1,"key":"claim shop/data for u-1","claim":{},"nodeLabels":{}}'],
];
for (const [sentence, text] of unreadable)
  test(`${sentence} is set aside until no pod refers to its object, and its content is not logged`, async () => {
    const { disk, log, reload, files } = createBed();
    await disk.at("/root").makeFolder("berth/referenced-objects", 0o700);
    await disk.at("/root").write("berth/referenced-objects/x.json", text, 0o600);
    const next = await reload();
    expect([[...next.withObjects(new Map())], files()]).toEqual([[], [`${FOLDER}/x.json.unreadable`]]);
    expect(log.lines.map(({ fields }) => fields)).toMatchObject([
      { file: `${FOLDER}/x.json`, aside: `${FOLDER}/x.json.unreadable` },
    ]);
    expect(JSON.stringify(log)).not.toContain("c2Vjc");
    expect(log.takeLines()).toEqual([
      expect.stringMatching(/^error: a kept object is unreadable and was set aside: \w/),
    ]);
    const third = await reload();
    expect(log.takeLines()).toEqual([]);
    third.prune(new Set([SECRET]));
    await third.settled();
    expect(files()).toEqual([]);
  });

test("a file that cannot be read stays, each file is tried once, and its object is found after the next start", async () => {
  const { disk, log, create, reload, files } = createBed();
  const keys = ["secret shop/a", "secret shop/b", "secret shop/c"];
  const kept = create();
  for (const key of keys) kept.updateObject(key, login);
  await kept.settled();
  const all = files();
  const reads: string[] = [];
  disk.before = (verb, path) => {
    if (verb !== "read") return;
    reads.push(path);
    if (reads.length < 3) throw new FilesError(reads.length === 1 ? "EIO" : "EMFILE", path, `${path} failed: no luck`);
  };
  const next = await reload();
  expect([next.withObjects(new Map()).size, files(), reads]).toEqual([1, all, all]);
  expect(log.takeLines()).toEqual(
    all.slice(0, 2).map((path) => `warn: cannot read a kept object, which stays on the disk: ${path} failed: no luck`),
  );
  disk.before = () => {};
  expect([...(await reload()).withObjects(new Map()).keys()].toSorted()).toEqual(keys);
  next.prune(new Set(keys));
  await next.settled();
  expect(files()).toEqual(all);
  next.prune(new Set());
  await next.settled();
  expect(files()).toEqual([]);
});

test("a disk that takes no writes keeps no file from being read, and what is unreadable goes when it takes them", async () => {
  const { clock, disk, log, create, reload, files } = createBed();
  const kept = create();
  kept.updateObject(SECRET, login);
  await kept.settled();
  const root = disk.at("/root/berth/referenced-objects");
  for (const name of ["0.json", ".0.json.1.tmp"]) await root.write(name, "torn", 0o600);
  disk.before = (verb, path) => {
    if (verb === "rename" || verb === "remove") throw new FilesError("EROFS", path, `${path} cannot be written`);
  };
  const next = await reload();
  expect([...next.withObjects(new Map()).keys()]).toEqual([SECRET]);
  expect(log.takeLines()).toEqual([
    "warn: cannot remove a part of a kept object",
    "error: a kept object is unreadable and cannot be set aside: it is no JSON",
  ]);
  next.prune(new Set([SECRET]));
  await next.settled();
  expect(log.takeLines().toSorted()).toEqual([
    "warn: cannot remove an unreadable kept object yet",
    "warn: cannot remove an unreadable kept object yet",
  ]);
  disk.before = () => {};
  await clock.advance(10_000);
  await next.settled();
  expect(files()).toHaveLength(1);
  expect([...(await reload()).withObjects(new Map()).keys()]).toEqual([SECRET]);
});

test("an object that is written again while its unreadable file waits for its removal stays on the disk", async () => {
  const { clock, disk, create, reload, files } = createBed();
  const kept = create();
  kept.updateObject(SECRET, login);
  await kept.settled();
  disk.before = (verb, path) => {
    if (verb === "read" || verb === "remove") throw new FilesError("EIO", path, `${path} failed: no luck`);
  };
  const next = await reload();
  next.prune(new Set());
  await next.settled();
  next.updateObject(SECRET, login);
  await next.settled();
  disk.before = () => {};
  await clock.advance(10_000);
  await next.settled();
  expect(files()).toHaveLength(1);
});

test("a full disk loses nothing: the object is kept in memory, and on the disk when there is space", async () => {
  const { clock, disk, log, create, reload } = createBed();
  const kept = create();
  disk.before = (verb) => {
    if (verb === "write") throw new Error("no space left on device");
  };
  kept.updateObject(SECRET, login);
  await kept.settled();
  expect([...kept.withObjects(new Map()).keys()]).toEqual([SECRET]);
  expect(JSON.stringify(log)).toContain("cannot keep the secret shop/login on the disk yet");
  disk.before = () => {};
  await clock.advance(10_000);
  await kept.settled();
  expect([...(await reload()).withObjects(new Map())]).toEqual([[SECRET, login]]);
});

test("an agent without the flag removes everything", async () => {
  const { disk, create, files } = createBed();
  const kept = create();
  kept.updateObject(SECRET, login);
  await kept.settled();
  await removeKeptObjects(disk.at("/root"));
  expect(files()).toEqual([]);
});
