import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import { FilesError } from "../../../host/fs/files.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createImageRecords } from "./image-records.ts";

const IMAGE = "docker.io/testing/test:latest";
const REF = "testimageref";
/** The names that the kubelet gives to files about these. */
const INTENT = "/root/image_manager/pulling/sha256-aef2af226629a35d5f3ef0fdbb29fdbebf038d0acd8850590e8c48e1e283aa56";
const RECORD = "/root/image_manager/pulled/sha256-b3c0cc4278800b03a308ceb2611161430df571ca733122f0a40ac8b9792a9064";
const bySecret = {
  kubernetesSecrets: [
    { uid: "testsecretuid", namespace: "default", name: "pull-secret", credentialHash: "testsecrethash" },
  ],
};
/** As the kubelet writes them. */
const intentText = `{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"${IMAGE}"}\n`;
const recordText = `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2026-01-01T00:00:00Z","imageRef":"testimageref","credentialMapping":{"docker.io/testing/test":{"kubernetesSecrets":[{"uid":"testsecretuid","namespace":"default","name":"pull-secret","credentialHash":"testsecrethash"}]}}}\n`;

/** A node with such files, and with images that the runtime has. */
async function nodeOf(files: Readonly<Record<string, string>> = {}) {
  const time = { now: Date.parse("2026-01-01T00:00:00Z") };
  const clock = { now: () => time.now };
  const disk = new FakeDisk(clock.now);
  const root = disk.at("/root");
  for (const folder of ["", "image_manager/pulling", "image_manager/pulled"]) await root.makeFolder(folder, 0o700);
  for (const [path, text] of Object.entries(files)) await disk.at("/").write(path, text, 0o600);
  const log = new FakeLog();
  const present = new Map<string, string>();
  const node = {
    refOf: async (image: string) => present.get(image),
    refs: async (): Promise<readonly string[]> => [...present.values()],
  };
  const start = () =>
    createImageRecords({ root, refOf: (image) => node.refOf(image), refs: () => node.refs(), clock, log });
  const textOf = async (path: string) =>
    await disk
      .at("/")
      .read(path, 1 << 20)
      .catch(() => undefined);
  const left = () => disk.paths().filter((path) => path.includes("/sha256-"));
  return { time, disk, log, present, node, start, textOf, left };
}

test("a pull is written down as by the kubelet, its end too", async () => {
  const { start, textOf, left } = await nodeOf();
  const records = start();
  await records.begins(IMAGE);
  expect(await textOf(INTENT)).toBe(intentText);
  expect(await records.of(IMAGE, REF)).toEqual({ isPulledHere: true, record: undefined });
  await records.succeeded(IMAGE, REF, bySecret);
  expect([left(), await textOf(RECORD)]).toEqual([[RECORD], recordText]);
  expect((await start().of(IMAGE, REF)).record?.credentialMapping).toEqual({ "docker.io/testing/test": bySecret });
});

test("records of the kubelet are read, those of its first version too", async () => {
  const { start } = await nodeOf({ [RECORD]: recordText.replace("v1beta1", "v1alpha1") });
  expect((await start().of(IMAGE, REF)).record?.credentialMapping).toEqual({ "docker.io/testing/test": bySecret });
});

test("an image without a record was put there by somebody else", async () => {
  const { start } = await nodeOf();
  expect(await start().of(IMAGE, REF)).toEqual({ isPulledHere: false, record: undefined });
});

test("a pull that the runtime has refused leaves nothing", async () => {
  const { start, left } = await nodeOf();
  const records = start();
  await records.begins(IMAGE);
  await records.failed(IMAGE, true);
  expect(left()).toEqual([]);
});

const unheard: readonly [
  sentence: string,
  before: string | undefined,
  after: string | undefined,
  isPulledHere: boolean,
][] = [
  ["leaves an image that was there before, and is the same, to all", REF, REF, false],
  ["makes an image that has come since one that nobody has a right to", undefined, REF, true],
  ["makes an image that is another since one that nobody has a right to", "before", REF, true],
];
for (const [sentence, before, after, isPulledHere] of unheard)
  test(`a pull whose end nobody has heard ${sentence}`, async () => {
    const { start, left, present } = await nodeOf();
    const set = (ref: string | undefined) => (ref === undefined ? present.delete(IMAGE) : present.set(IMAGE, ref));
    const records = start();
    set(before);
    await records.begins(IMAGE);
    set(after);
    await records.failed(IMAGE, false);
    const record = isPulledHere ? expect.objectContaining({ credentialMapping: {} }) : undefined;
    expect(left()).toEqual(isPulledHere ? [RECORD] : []);
    expect(await records.of(IMAGE, REF)).toEqual({ isPulledHere, record });
    expect(await start().of(IMAGE, REF)).toEqual({ isPulledHere, record });
  });

const unheardAndAbsent: readonly [
  sentence: string,
  after: string | undefined,
  ofAudit: string | undefined,
  isPulledHere: boolean,
][] = [
  ["has brought nothing leaves nothing", undefined, undefined, false],
  ["has ended a moment later has brought what nobody has a right to", REF, REF, true],
  ["has ended before the audit has brought what nobody has a right to", undefined, REF, true],
];
for (const [sentence, after, ofAudit, isPulledHere] of unheardAndAbsent)
  test(`a pull that was given up and ${sentence}`, async () => {
    const { start, left, present, time } = await nodeOf();
    const records = start();
    const set = (ref: string | undefined) => (ref === undefined ? present.delete(IMAGE) : present.set(IMAGE, ref));
    await records.begins(IMAGE);
    await records.failed(IMAGE, false);
    set(after);
    expect(await records.of(IMAGE, REF)).toEqual({ isPulledHere: true, record: undefined });
    // An audit that comes so soon says nothing yet.
    time.now += 59_000;
    await records.audit();
    expect([left(), (await records.of(IMAGE, REF)).isPulledHere]).toEqual([[INTENT], true]);
    time.now += 1_000;
    set(ofAudit);
    await records.audit();
    expect([left(), (await records.of(IMAGE, REF)).isPulledHere]).toEqual([isPulledHere ? [RECORD] : [], isPulledHere]);
  });

test("a pull that is under way when an earlier one is audited keeps its intent, and its record", async () => {
  const { start, left, present, time } = await nodeOf();
  const records = start();
  await records.begins(IMAGE);
  await records.failed(IMAGE, false);
  await records.begins(IMAGE);
  time.now += 60_000;
  await records.audit();
  expect(left()).toEqual([INTENT]);
  present.set(IMAGE, REF);
  await records.succeeded(IMAGE, REF, bySecret);
  await records.audit();
  expect([left(), (await records.of(IMAGE, REF)).record?.credentialMapping]).toEqual([
    [RECORD],
    { "docker.io/testing/test": bySecret },
  ]);
});

test("as long as the runtime cannot say what a pull has brought, what was not there before is nobody's", async () => {
  const { start, left, present, node } = await nodeOf();
  const ask = node.refOf;
  present.set(IMAGE, "before");
  const records = start();
  await records.begins(IMAGE);
  expect(await records.of(IMAGE, "before")).toEqual({ isPulledHere: false, record: undefined });
  node.refOf = () => Promise.reject(new CriError("UNAVAILABLE", "ImageStatus", "away"));
  await records.failed(IMAGE, false);
  expect(left()).toEqual([INTENT]);
  expect((await records.of(IMAGE, "before")).isPulledHere).toBe(false);
  expect((await records.of(IMAGE, REF)).isPulledHere).toBe(true);
  // A refusal says nothing of what another pull has brought; that the image is still the same does.
  node.refOf = ask;
  await records.begins(IMAGE);
  await records.failed(IMAGE, true);
  expect(left()).toEqual([INTENT]);
  await records.begins(IMAGE);
  await records.failed(IMAGE, false);
  expect(left()).toEqual([]);
});

test("of two pulls of one image the first end leaves the intent of the other one", async () => {
  const { start, left } = await nodeOf();
  const records = start();
  await Promise.all([records.begins(IMAGE), records.begins(IMAGE)]);
  await records.failed(IMAGE, true);
  expect(left()).toEqual([INTENT]);
  await records.succeeded(IMAGE, REF, { nodePodsAccessible: true });
  expect(left()).toEqual([RECORD]);
});

test("whoever died in a pull leaves an image that nobody has a right to, if it is there", async () => {
  const { start, present, left } = await nodeOf({ [INTENT]: intentText });
  present.set(IMAGE, REF);
  const { isPulledHere, record } = await start().of("other:1", REF);
  expect([isPulledHere, record?.credentialMapping, left()]).toEqual([true, {}, [RECORD]]);
});

test("where it is not there, the intent stays until a pull of it succeeds", async () => {
  const { start, left } = await nodeOf({ [INTENT]: intentText });
  const records = start();
  expect(await records.of(IMAGE, "another")).toEqual({ isPulledHere: true, record: undefined });
  expect(left()).toEqual([INTENT]);
  await records.begins(IMAGE);
  await records.succeeded(IMAGE, REF, bySecret);
  expect(left()).toEqual([RECORD]);
});

test("as long as the runtime cannot be asked, nobody is told anything", async () => {
  const { start, node, present } = await nodeOf({ [INTENT]: intentText });
  const ask = node.refOf;
  node.refOf = () => Promise.reject(new CriError("UNAVAILABLE", "ImageStatus", "away"));
  const records = start();
  const failure: unknown = await records.of(IMAGE, REF).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(CriError);
  node.refOf = ask;
  present.set(IMAGE, REF);
  expect((await records.of(IMAGE, REF)).record?.credentialMapping).toEqual({});
});

test("an image of which the runtime says nothing stays in doubt, and keeps nobody else waiting", async () => {
  const { start, node, log, left } = await nodeOf({ [INTENT]: intentText });
  node.refOf = () => Promise.reject(new CriError("UNKNOWN", "ImageStatus", "its content is broken"));
  const records = start();
  expect(await records.of("other:1", "another")).toEqual({ isPulledHere: false, record: undefined });
  expect((await records.of(IMAGE, REF)).isPulledHere).toBe(true);
  expect([left(), log.told()]).toEqual([[INTENT], ["warn: what is left of a pull cannot be taken up"]]);
});

test("as long as the records cannot be listed, each image passes for a pulled one, which is said once", async () => {
  const { start, disk, log } = await nodeOf({ [RECORD]: recordText });
  disk.before = (verb, path) => {
    if (verb === "list" && path.endsWith("/pulled")) throw new FilesError("EIO", path, `${path} cannot be read`);
  };
  const records = start();
  const known = { isPulledHere: true, record: expect.objectContaining({ imageRef: REF }) };
  expect(await records.of("other:1", "another")).toEqual({ isPulledHere: true, record: undefined });
  expect(await records.of(IMAGE, REF)).toEqual(known);
  expect(log.told()).toEqual([
    "warn: the records of images cannot be listed; until then pods have to show their right to each",
  ]);
  disk.before = () => {};
  expect(await records.of("other:1", "another")).toEqual({ isPulledHere: false, record: undefined });
  expect(await records.of(IMAGE, REF)).toEqual(known);
});

const torn: readonly [sentence: string, text: string][] = [
  ["cut short", recordText.slice(0, 90)],
  ["empty", ""],
  ["of another image", recordText.replaceAll(REF, "another")],
  ["with a field that nobody knows", recordText.replace('"uid"', '"id"')],
  ["of another kind", recordText.replace("ImagePulledRecord", "ImagePullIntent")],
];
for (const [sentence, text] of torn)
  test(`a record that is ${sentence} gives nobody a right, is said once, and is replaced by the next pull`, async () => {
    const { start, log, textOf } = await nodeOf({ [RECORD]: text });
    const records = start();
    expect(await records.of(IMAGE, REF)).toEqual({ isPulledHere: true, record: undefined });
    await records.of(IMAGE, REF);
    expect(log.told()).toEqual([
      "warn: the record of an image cannot be read; its pods have to show their right to it anew",
    ]);
    await records.begins(IMAGE);
    await records.succeeded(IMAGE, REF, bySecret);
    expect(await textOf(RECORD)).toBe(recordText);
  });

test("what is no intent is left alone, and said", async () => {
  const { start, log, left } = await nodeOf({ [INTENT]: "{}" });
  await start().of(IMAGE, REF);
  expect([left(), log.told()]).toEqual([[INTENT], ["warn: this is no record of a pull; it is left alone"]]);
});

test("without room for the intent nothing is pulled; without room for the record the image stays a doubtful one", async () => {
  const { start, disk, log } = await nodeOf();
  const records = start();
  const fail = (verb: string, path: string) => {
    if (verb === "write") throw new FilesError("ENOSPC", path, `${path} cannot be written: the disk is full`);
  };
  disk.before = fail;
  const failure: unknown = await records.begins(IMAGE).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(FilesError);
  disk.before = () => {};
  await records.begins(IMAGE);
  disk.before = fail;
  await records.succeeded(IMAGE, REF, bySecret);
  expect(log.told()).toEqual(["warn: that an image was pulled could not be written down"]);
  expect(await records.of(IMAGE, REF)).toEqual({ isPulledHere: true, record: undefined });
});

test("that a disk is full or cannot be written is said once for each, and again after it has worked", async () => {
  const { start, disk, log } = await nodeOf();
  const records = start();
  const fail = (code: "ENOSPC" | "EROFS") => (verb: string, path: string) => {
    if (verb === "write") throw new FilesError(code, path, `${path} cannot be written`);
  };
  let secrets = 0;
  const look = async () => {
    for (const image of ["one", "two"])
      await records.learnt(`${image}:1`, image, { ...bySecret.kubernetesSecrets[0]!, uid: `${secrets++}` });
  };
  const said = () => log.told().filter((line) => line.startsWith("warn")).length;
  disk.before = fail("ENOSPC");
  await look();
  await look();
  expect(said()).toBe(1);
  disk.before = fail("EROFS");
  await look();
  await look();
  expect(said()).toBe(1);
  disk.before = () => {};
  await look();
  disk.before = fail("ENOSPC");
  await look();
  expect(said()).toBe(1);
});

test("a Secret that is learnt is written down beside the others", async () => {
  const { start, textOf } = await nodeOf({ [RECORD]: recordText });
  const other = { uid: "a", namespace: "a", name: "a", credentialHash: "testsecrethash" };
  await start().learnt(IMAGE, REF, other);
  expect(await textOf(RECORD)).toContain(
    '[{"uid":"a","namespace":"a","name":"a","credentialHash":"testsecrethash"},{"uid":"testsecretuid"',
  );
});

const OTHER_RECORD = RECORD.replace("sha256-b3c0", "sha256-b3c1");
const prunings: readonly [
  sentence: string,
  files: Readonly<Record<string, string>>,
  refs: readonly string[],
  left: number,
][] = [
  ["is removed when the runtime has it no more", { [RECORD]: recordText }, ["another"], 0],
  ["stays while the runtime has it", { [RECORD]: recordText }, ["another", REF], 1],
  ["is removed though nobody can read it", { [RECORD]: "{" }, ["another"], 0],
  ["stays while the runtime lists no image at all", { [RECORD]: recordText }, [], 1],
  ["is removed by itself", { [RECORD]: recordText, [OTHER_RECORD]: recordText }, [REF], 1],
];
for (const [sentence, files, refs, count] of prunings)
  test(`the record of an image ${sentence}`, async () => {
    const { start, left, present, log } = await nodeOf(files);
    for (const ref of refs) present.set(`${ref}:1`, ref);
    const records = start();
    await records.audit();
    expect([left().length, (await records.of(IMAGE, REF)).isPulledHere]).toEqual([count, count === 1]);
    expect(log.told()).toEqual([]);
  });

test("what is written down while the runtime lists its images stays, and so does an intent", async () => {
  const { start, left, node } = await nodeOf({ [RECORD]: recordText, [INTENT.replace("-aef2", "-aef3")]: intentText });
  const records = start();
  node.refs = async () => {
    await records.succeeded("new:1", "newref", { nodePodsAccessible: true });
    await records.succeeded(IMAGE, REF, { nodePodsAccessible: true });
    return ["another"];
  };
  await records.audit();
  expect([(await records.of("new:1", "newref")).isPulledHere, left().length]).toEqual([true, 3]);
});

test("the runtime is asked for its images with each audit, once a minute at most, and not at all where nothing is written down", async () => {
  const { start, node, time } = await nodeOf();
  let asked = 0;
  node.refs = async () => {
    asked++;
    // A list that takes long is no reason to leave out the next one.
    time.now += 20_000;
    return ["another", REF];
  };
  const records = start();
  await records.audit();
  expect(asked).toBe(0);
  await records.succeeded(IMAGE, REF, bySecret);
  for (const [afterSeconds, times] of [
    [0, 1],
    [59, 1],
    [1, 2],
    [280, 3],
    [280, 4],
  ] as const) {
    time.now += afterSeconds * 1_000;
    await records.audit();
    expect(asked).toBe(times);
  }
});

test("a record stays while the runtime is away, and while the disk does not let it go, which is said", async () => {
  const { start, node, present, disk, log, left, time } = await nodeOf({ [RECORD]: recordText });
  const ask = node.refs;
  node.refs = () => Promise.reject(new CriError("UNAVAILABLE", "ListImages", "away"));
  const records = start();
  await records.audit();
  expect([left(), log.told()]).toEqual([[RECORD], []]);
  node.refs = ask;
  present.set("another:1", "another");
  disk.before = (verb, path) => {
    if (verb === "remove") throw new FilesError("EROFS", path, `${path} cannot be removed`);
  };
  await records.audit();
  expect([left(), log.told().at(-1)]).toEqual([
    [RECORD],
    "warn: the records of images that are here no more cannot be removed",
  ]);
  time.now += 300_000;
  await records.audit();
  expect(log.told().filter((line) => line.startsWith("warn"))).toEqual([]);
  disk.before = () => {};
  time.now += 300_000;
  await records.audit();
  expect(left()).toEqual([]);
});
