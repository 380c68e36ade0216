import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createFiles, FilesError } from "../../host/fs/files.ts";
import type { PodUid } from "../../proto/ids.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import type { DatedTerminationRequest, DesiredPod } from "../decide/pod/desired.ts";
import { createPodCheckpoints } from "./pod-checkpoints.ts";

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
const open = () => createPodCheckpoints(createFiles(folder), log);
const inFolder = (name = "") => join(folder, "berth/pods", name);

/** The text of a checkpoint, and what is restored from another text in its place. */
async function createCheckpoint() {
  const disk = new FakeDisk(Date.now);
  const root = disk.at("/root");
  const records = createPodCheckpoints(root, log);
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

test("a checkpoint that is torn at any character is refused, and a complete one is not", async () => {
  const { whole, loadedFrom } = await createCheckpoint();
  for (let length = 0; length < whole.length; length++) expect(await loadedFrom(whole.slice(0, length))).toEqual([]);
  expect(await loadedFrom(whole)).toEqual([podOf("u-1")]);
  expect(log.takeLines()).toHaveLength(whole.length);
});

test("a checkpoint with any one character changed is refused", async () => {
  const { whole, loadedFrom } = await createCheckpoint();
  for (let at = 0; at < whole.length; at++) {
    const other = whole[at] === "x" ? "y" : "x";
    expect(await loadedFrom(whole.slice(0, at) + other + whole.slice(at + 1))).toEqual([]);
  }
});

test("checkpoints are loaded in the order of acceptance, a terminating pod before the one that it makes room for", async () => {
  const records = open();
  await records.load();
  const { termination: _, ...successor } = podOf("u-2", 5);
  for (const pod of [podOf("u-4", 9), successor, podOf("u-3", 5), podOf("u-1", 7)]) await records.save(pod);
  expect((await records.load()).map(({ uid }) => String(uid))).toEqual(["u-3", "u-2", "u-1", "u-4"]);
});

const refused: readonly [sentence: string, spoil: (whole: string) => string, why: string][] = [
  ["an empty file", () => "", "does not start like a checkpoint"],
  ["a file of zeros, which a power cut may leave", () => "\0".repeat(4096), "does not start like a checkpoint"],
  ["another program's JSON", () => '{"kind":"Pod"}\n', "does not start like a checkpoint"],
  [
    "a checkpoint of a newer release",
    (whole) => whole.replace('"version":1', '"version":2'),
    "has version 2; this release supports version 1",
  ],
  ["a checkpoint with trailing text", (whole) => whole + whole, "is torn or was changed"],
];
for (const [sentence, spoil, why] of refused)
  test(`${sentence} is refused with a reason`, async () => {
    const { whole, loadedFrom } = await createCheckpoint();
    expect(await loadedFrom(spoil(whole))).toEqual([]);
    expect(String(log.lines[0]?.fields["err"])).toContain(why);
  });

const invalidShapes: readonly [sentence: string, change: (pod: DesiredPod) => object, why: string][] = [
  ["without acceptedAt", ({ acceptedAt: _, ...rest }) => rest, "a required field is missing"],
  [
    "with an invalid quantity",
    (record) => ({
      ...record,
      pod: { ...record.pod, spec: { containers: [{ name: "a", resources: { limits: { cpu: "much" } } }] } },
    }),
    "spec.containers[0].resources.limits[cpu]: Invalid value",
  ],
  [
    "with a request of the node that has no reason",
    (record) => ({ ...record, terminationRequest: { message: "m", gracePeriodSeconds: 1, requestedAt: 1 } }),
    "a required field is missing",
  ],
  ["without a pod", ({ pod: _, ...rest }) => rest, "a required field is missing"],
];
for (const [sentence, change, why] of invalidShapes)
  test(`a complete checkpoint ${sentence} is set aside with a reason`, async () => {
    const records = open();
    await records.load();
    await records.save(change(podOf("u-1")) as DesiredPod);
    const [name = ""] = await readdir(inFolder());
    expect(await open().load()).toEqual([]);
    expect(await readdir(inFolder())).toEqual([`${name}.unreadable`]);
    expect(String(log.lines[0]?.fields["err"])).toContain(why);
  });

test("a checkpoint keeps the node's request to end the pod", async () => {
  const terminationRequest: DatedTerminationRequest = {
    reason: "Evicted",
    message: "the node is short of memory",
    disruption: { reason: "TerminationByKubelet", message: "the node is short of memory" },
    gracePeriodSeconds: 1,
    requestedAt: 9,
  };
  const { disruption: _, ...withoutCondition } = terminationRequest;
  const records = open();
  await records.load();
  await records.save({ ...podOf("a"), terminationRequest });
  await records.save({ ...podOf("b"), terminationRequest: withoutCondition });
  expect((await open().load()).map((pod) => pod.terminationRequest)).toEqual([terminationRequest, withoutCondition]);
  expect(JSON.parse(await readFile(inFolder("a.json"), "utf8"))).toMatchObject({
    version: 1,
    record: { terminationRequest },
  });
});

test("a transient disk error does not set a checkpoint aside", async () => {
  const disk = new FakeDisk(Date.now);
  const records = createPodCheckpoints(disk.at("/root"), log);
  await records.load();
  await records.save(podOf("u-1"));
  disk.before = (verb, path) => {
    if (verb === "read") throw new FilesError("EIO", path, `${path} failed`);
  };
  expect(await records.load().catch((error: unknown) => error)).toBeInstanceOf(FilesError);
  disk.before = () => {};
  expect(await records.load()).toEqual([podOf("u-1")]);
});

test("checkpoints are restored oldest first, and only root can read them", async () => {
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
  expect(log.takeLines()).toEqual([]);
});

test("unreadable checkpoints are set aside and logged, and the others are restored", async () => {
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
  expect(log.takeLines()).toEqual(
    Array.from({ length: 3 }, () => "error: a pod checkpoint is unreadable and was set aside"),
  );
  expect(await open().load()).toHaveLength(1);
  expect(log.takeLines()).toEqual([]);
});

test("a pod with unknown fields is restored if it comes from the API server, and refused if it comes from a manifest", async () => {
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

test("two long uids with different ends have different checkpoints", async () => {
  const records = open();
  await records.load();
  for (const end of ["a", "b"]) await records.save(podOf(`${"x.".repeat(110)}${end}`));
  expect(await open().load()).toHaveLength(2);
});

test("the temporary file of an interrupted write is removed silently", async () => {
  await open().load();
  await writeFile(inFolder(".u-1.json.0123.tmp"), "half");
  expect(await open().load()).toEqual([]);
  expect(await readdir(inFolder())).toEqual([]);
  expect(log.takeLines()).toEqual([]);
});

const unusual = ["..", ".", "a/b", "../../etc/passwd", "ä ö", "%2E", "uid-x", "x".repeat(150)];
for (const uid of unusual)
  test(`the checkpoint of uid ${JSON.stringify(uid)} is one file that is restored and removed`, async () => {
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
