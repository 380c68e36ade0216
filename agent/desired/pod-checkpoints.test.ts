import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles, FilesError } from "../../host/fs/files.ts";
import type { PodUid } from "../../proto/ids.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import { createPodRecords } from "./pod-checkpoints.ts";

const podOf = (uid: string, acceptedAt = 1): DesiredPod => ({
  uid: uid as PodUid,
  pod: { metadata: { name: "grüße", namespace: "shop", uid }, spec: { containers: [{ name: "a", image: "i" }] } },
  source: { kind: "file", path: "/m/web.yaml" },
  acceptedAt,
  revision: 2,
  termination: { requestedAt: 7, gracePeriodSeconds: 30, why: "its manifest is gone" },
});

let folder: string;
let log: FakeLog;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-records-"));
  log = new FakeLog();
});
afterEach(() => rm(folder, { recursive: true }));
const open = () => createPodRecords(createFiles(folder), log);
const inFolder = (name = "") => join(folder, "berth/pods", name);

/** What a record looks like on the disk, and what becomes of another text in its place. */
async function createScene() {
  const disk = new FakeDisk(Date.now);
  const root = disk.at("/root");
  const records = createPodRecords(root, log);
  await records.load();
  await records.save(podOf("u-1"));
  const whole = await root.read("berth/pods/u-1.json", 10_000);
  const loadedFrom = async (text: string) => {
    await root.remove("berth/pods/u-1.json.unreadable");
    await root.write("berth/pods/u-1.json", text, 0o600);
    return await records.load();
  };
  return { whole, loadedFrom };
}

test("a record that is torn at any of its characters is refused, and one that is whole is not", async () => {
  const { whole, loadedFrom } = await createScene();
  for (let length = 0; length < whole.length; length++) expect(await loadedFrom(whole.slice(0, length))).toEqual([]);
  expect(await loadedFrom(whole)).toEqual([podOf("u-1")]);
  expect(log.told()).toHaveLength(whole.length);
});

test("a record of which any one character has changed is refused", async () => {
  const { whole, loadedFrom } = await createScene();
  for (let at = 0; at < whole.length; at++) {
    const other = whole[at] === "x" ? "y" : "x";
    expect(await loadedFrom(whole.slice(0, at) + other + whole.slice(at + 1))).toEqual([]);
  }
});

const refused: readonly [sentence: string, spoil: (whole: string) => string, why: string][] = [
  ["an empty file", () => "", "does not begin as"],
  ["a file of zeros, as power cuts leave", () => "\0".repeat(4096), "does not begin as"],
  ["another program's JSON", () => '{"kind":"Pod"}\n', "does not begin as"],
  [
    "a record of a newer release",
    (whole) => whole.replace('"version":1', '"version":2'),
    "has version 2; this release knows version 1",
  ],
  ["a record with something behind it", (whole) => whole + whole, "is torn or was changed"],
];
for (const [sentence, spoil, why] of refused)
  test(`${sentence} is refused, and it is said why`, async () => {
    const { whole, loadedFrom } = await createScene();
    expect(await loadedFrom(spoil(whole))).toEqual([]);
    expect(String(log.lines[0]?.fields["err"])).toContain(why);
  });

const misshapen: readonly [sentence: string, change: (pod: DesiredPod) => object, why: string][] = [
  ["without a time", ({ acceptedAt: _, ...rest }) => rest, "a field of its frame is missing"],
  [
    "with a quantity that is none",
    (record) => ({
      ...record,
      pod: { ...record.pod, spec: { containers: [{ name: "a", resources: { limits: { cpu: "much" } } }] } },
    }),
    "spec.containers[0].resources.limits[cpu]: Invalid value",
  ],
  ["without a pod", ({ pod: _, ...rest }) => rest, "a field of its frame is missing"],
];
for (const [sentence, change, why] of misshapen)
  test(`a whole record ${sentence} is set aside, and it is said why`, async () => {
    const records = open();
    await records.load();
    await records.save(change(podOf("u-1")) as DesiredPod);
    const [name = ""] = await readdir(inFolder());
    expect(await open().load()).toEqual([]);
    expect(await readdir(inFolder())).toEqual([`${name}.unreadable`]);
    expect(String(log.lines[0]?.fields["err"])).toContain(why);
  });

test("a disk that fails for a moment costs no record its name", async () => {
  const disk = new FakeDisk(Date.now);
  const records = createPodRecords(disk.at("/root"), log);
  await records.load();
  await records.save(podOf("u-1"));
  disk.before = (verb, path) => {
    if (verb === "read") throw new FilesError("EIO", path, `${path} failed`);
  };
  expect(await records.load().catch((error: unknown) => error)).toBeInstanceOf(FilesError);
  disk.before = () => {};
  expect(await records.load()).toEqual([podOf("u-1")]);
});

test("records outlive the agent, oldest first, for root alone", async () => {
  const records = open();
  expect(await records.load()).toEqual([]);
  for (const [uid, at] of [
    ["b", 2],
    ["c", 3],
    ["a", 1],
  ] as const)
    await records.save(podOf(uid, at));
  await records.save({ ...podOf("b", 2), revision: 3 });
  await records.remove("c" as PodUid);
  await records.remove("c" as PodUid);
  expect(await open().load()).toEqual([podOf("a", 1), { ...podOf("b", 2), revision: 3 }]);
  expect((await stat(inFolder())).mode & 0o777).toBe(0o700);
  expect((await stat(inFolder("a.json"))).mode & 0o777).toBe(0o600);
  expect(log.told()).toEqual([]);
});

test("what cannot be read is set aside and said; the other records count", async () => {
  await open().load();
  await open().save(podOf("good"));
  const half = '{"version":1,"crc32":12,"rec';
  await writeFile(inFolder("torn.json"), half);
  await writeFile(inFolder("bytes.json"), Uint8Array.of(0xff, 0xfe));
  await mkdir(inFolder("folder.json"));
  expect(await open().load()).toEqual([podOf("good")]);
  expect((await readdir(inFolder())).toSorted()).toEqual([
    "bytes.json.unreadable",
    "folder.json.unreadable",
    "good.json",
    "torn.json.unreadable",
  ]);
  expect(await readFile(inFolder("torn.json.unreadable"), "utf8")).toBe(half);
  expect(log.lines.map(({ fields }) => [fields["file"], fields["aside"]]).toSorted()).toEqual(
    ["bytes", "folder", "torn"].map((name) => [inFolder(`${name}.json`), inFolder(`${name}.json.unreadable`)]),
  );
  expect(log.told()).toEqual(Array.from({ length: 3 }, () => "error: a pod's record is unreadable and set aside"));
  expect(await open().load()).toHaveLength(1);
  expect(log.told()).toEqual([]);
});

test("a pod of an API server that is newer than this release is kept as it is; a manifest's would be refused", async () => {
  const records = open();
  await records.load();
  const { pod, ...rest } = podOf("u-1");
  const newer = { ...pod, spec: { ...pod.spec, fieldOfLater: { restartPolicy: 7 } } };
  await records.save({ ...rest, pod: newer, source: { kind: "api" } });
  await records.save({ ...podOf("u-2"), pod: newer });
  expect(await open().load()).toEqual([{ ...rest, pod: newer, source: { kind: "api" } }]);
  expect(log.lines.map(({ fields }) => String(fields["err"]))).toEqual([
    expect.stringContaining("spec.fieldOfLater: Unknown field"),
  ]);
});

test("two long uids that differ at their ends are two records", async () => {
  const records = open();
  await records.load();
  for (const end of ["a", "b"]) await records.save(podOf(`${"x.".repeat(110)}${end}`));
  expect(await open().load()).toHaveLength(2);
});

test("what a write that was cut off has left is removed without a word", async () => {
  await open().load();
  await writeFile(inFolder(".u-1.json.0123.tmp"), "half");
  expect(await open().load()).toEqual([]);
  expect(await readdir(inFolder())).toEqual([]);
  expect(log.told()).toEqual([]);
});

const unusual = ["..", ".", "a/b", "../../etc/passwd", "ä ö", "%2E", "uid-x", "x".repeat(150)];
for (const uid of unusual)
  test(`the uid ${JSON.stringify(uid)} is one file of the folder, found again and removed`, async () => {
    const records = open();
    await records.load();
    await records.save(podOf(uid));
    await records.save(podOf("plain"));
    const names = await readdir(inFolder());
    expect(names).toHaveLength(2);
    expect((await open().load()).map((pod) => pod.uid as string).toSorted()).toEqual(["plain", uid].toSorted());
    await records.remove(uid as PodUid);
    expect(await readdir(inFolder())).toEqual(["plain.json"]);
  });
