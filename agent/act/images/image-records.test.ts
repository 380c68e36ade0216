import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import { FilesError } from "../../../host/fs/files.ts";
import { FakeDisk } from "../../../test/fakes/files.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { createImageRecords, type ImageRecords } from "./image-records.ts";

const IMAGE = "docker.io/testing/test:latest";
const REF = "testimageref";
/** The kubelet's file names for these. */
const INTENT = "/root/image_manager/pulling/sha256-aef2af226629a35d5f3ef0fdbb29fdbebf038d0acd8850590e8c48e1e283aa56";
const RECORD = "/root/image_manager/pulled/sha256-b3c0cc4278800b03a308ceb2611161430df571ca733122f0a40ac8b9792a9064";
const bySecret = {
  kubernetesSecrets: [
    { uid: "testsecretuid", namespace: "default", name: "pull-secret", credentialHash: "testsecrethash" },
  ],
};
/** The file contents that the kubelet writes. */
const intentText = `{"kind":"ImagePullIntent","apiVersion":"kubelet.config.k8s.io/v1beta1","image":"${IMAGE}"}\n`;
const recordText = `{"kind":"ImagePulledRecord","apiVersion":"kubelet.config.k8s.io/v1beta1","lastUpdatedTime":"2026-01-01T00:00:00Z","imageRef":"testimageref","credentialMapping":{"docker.io/testing/test":{"kubernetesSecrets":[{"uid":"testsecretuid","namespace":"default","name":"pull-secret","credentialHash":"testsecrethash"}]}}}\n`;

/** A node with these files, whose runtime has the images `present`. */
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
      // A missing file has no text.
      .catch(() => undefined);
  const left = () => disk.paths().filter((path) => path.includes("/sha256-"));
  return { time, disk, log, present, node, start, textOf, left };
}

/** A disk on which nothing can be written. */
const full = (verb: string, path: string) => {
  if (verb === "write") throw new FilesError("ENOSPC", path, `${path} cannot be written: the disk is full`);
};

test("a pull writes the kubelet's intent, and its end the kubelet's record", async () => {
  const { start, textOf, left } = await nodeOf();
  const records = start();
  await records.recordIntent(IMAGE);
  expect(await textOf(INTENT)).toBe(intentText);
  expect(await records.recordOf(IMAGE, REF)).toEqual({ isPulledByAgent: true, record: undefined });
  await records.recordPulled(IMAGE, REF, bySecret);
  expect([left(), await textOf(RECORD)]).toEqual([[RECORD], recordText]);
  expect((await start().recordOf(IMAGE, REF)).record?.credentialMapping).toEqual({
    "docker.io/testing/test": bySecret,
  });
});

test("records of the kubelet are read, also those of v1alpha1", async () => {
  const { start } = await nodeOf({ [RECORD]: recordText.replace("v1beta1", "v1alpha1") });
  expect((await start().recordOf(IMAGE, REF)).record?.credentialMapping).toEqual({
    "docker.io/testing/test": bySecret,
  });
});

test("an image without a record counts as not pulled by this node", async () => {
  const { start } = await nodeOf();
  expect(await start().recordOf(IMAGE, REF)).toEqual({ isPulledByAgent: false, record: undefined });
});

test("a pull that the runtime rejected leaves neither intent nor record", async () => {
  const { start, left } = await nodeOf();
  const records = start();
  await records.recordIntent(IMAGE);
  await records.recordFailed(IMAGE, true);
  expect(left()).toEqual([]);
});

const unheard: readonly [
  sentence: string,
  before: string | undefined,
  after: string | undefined,
  isPulledHere: boolean,
][] = [
  ["leaves an unchanged image to all pods", REF, REF, false],
  ["makes a new image one that every pod must prove access to", undefined, REF, true],
  ["makes a changed image one that every pod must prove access to", "before", REF, true],
];
for (const [sentence, before, after, isPulledByAgent] of unheard)
  test(`a pull with an unknown result ${sentence}`, async () => {
    const { start, left, present } = await nodeOf();
    const set = (ref: string | undefined) => (ref === undefined ? present.delete(IMAGE) : present.set(IMAGE, ref));
    const records = start();
    set(before);
    await records.recordIntent(IMAGE);
    set(after);
    await records.recordFailed(IMAGE, false);
    const record = isPulledByAgent ? expect.objectContaining({ credentialMapping: {} }) : undefined;
    expect(left()).toEqual(isPulledByAgent ? [RECORD] : []);
    expect(await records.recordOf(IMAGE, REF)).toEqual({ isPulledByAgent, record });
    expect(await start().recordOf(IMAGE, REF)).toEqual({ isPulledByAgent, record });
  });

const unheardAndAbsent: readonly [
  sentence: string,
  after: string | undefined,
  ofAudit: string | undefined,
  isPulledHere: boolean,
][] = [
  ["pulled nothing leaves nothing", undefined, undefined, false],
  ["completed a moment later leaves an image that every pod must prove access to", REF, REF, true],
  ["completed before the audit leaves an image that every pod must prove access to", undefined, REF, true],
];
for (const [sentence, after, ofAudit, isPulledByAgent] of unheardAndAbsent)
  test(`a pull that was aborted and ${sentence}`, async () => {
    const { start, left, present, time } = await nodeOf();
    const records = start();
    const set = (ref: string | undefined) => (ref === undefined ? present.delete(IMAGE) : present.set(IMAGE, ref));
    await records.recordIntent(IMAGE);
    await records.recordFailed(IMAGE, false);
    set(after);
    expect(await records.recordOf(IMAGE, REF)).toEqual({ isPulledByAgent: true, record: undefined });
    // The runtime may still complete the pull, so an audit this early settles nothing.
    time.now += 59_000;
    await records.audit();
    expect([left(), (await records.recordOf(IMAGE, REF)).isPulledByAgent]).toEqual([[INTENT], true]);
    time.now += 1_000;
    set(ofAudit);
    await records.audit();
    expect([left(), (await records.recordOf(IMAGE, REF)).isPulledByAgent]).toEqual([
      isPulledByAgent ? [RECORD] : [],
      isPulledByAgent,
    ]);
  });

test("a pull that is under way when an earlier one is audited keeps its intent and its record", async () => {
  const { start, left, present, time } = await nodeOf();
  const records = start();
  await records.recordIntent(IMAGE);
  await records.recordFailed(IMAGE, false);
  await records.recordIntent(IMAGE);
  time.now += 60_000;
  await records.audit();
  expect(left()).toEqual([INTENT]);
  present.set(IMAGE, REF);
  await records.recordPulled(IMAGE, REF, bySecret);
  await records.audit();
  expect([left(), (await records.recordOf(IMAGE, REF)).record?.credentialMapping]).toEqual([
    [RECORD],
    { "docker.io/testing/test": bySecret },
  ]);
});

test("while the runtime cannot report an image, pods must prove access if it was absent before the pull", async () => {
  const { start, left, present, node } = await nodeOf();
  const ask = node.refOf;
  present.set(IMAGE, "before");
  const records = start();
  await records.recordIntent(IMAGE);
  expect(await records.recordOf(IMAGE, "before")).toEqual({ isPulledByAgent: false, record: undefined });
  node.refOf = () => Promise.reject(new CriError("UNAVAILABLE", "ImageStatus", "away"));
  await records.recordFailed(IMAGE, false);
  expect(left()).toEqual([INTENT]);
  expect((await records.recordOf(IMAGE, "before")).isPulledByAgent).toBe(false);
  expect((await records.recordOf(IMAGE, REF)).isPulledByAgent).toBe(true);
  // A rejection does not show what another pull did; an unchanged image does.
  node.refOf = ask;
  await records.recordIntent(IMAGE);
  await records.recordFailed(IMAGE, true);
  expect(left()).toEqual([INTENT]);
  await records.recordIntent(IMAGE);
  await records.recordFailed(IMAGE, false);
  expect(left()).toEqual([]);
});

test("the first end of two pulls of one image keeps the intent of the other", async () => {
  const { start, left } = await nodeOf();
  const records = start();
  await Promise.all([records.recordIntent(IMAGE), records.recordIntent(IMAGE)]);
  await records.recordFailed(IMAGE, true);
  expect(left()).toEqual([INTENT]);
  await records.recordPulled(IMAGE, REF, { nodePodsAccessible: true });
  expect(left()).toEqual([RECORD]);
});

test("an agent that died in a pull leaves an image that every pod must prove access to", async () => {
  const { start, present, left } = await nodeOf({ [INTENT]: intentText });
  present.set(IMAGE, REF);
  const { isPulledByAgent, record } = await start().recordOf("other:1", REF);
  expect([isPulledByAgent, record?.credentialMapping, left()]).toEqual([true, {}, [RECORD]]);
});

test("an agent that died in a pull leaves the intent of an absent image until a pull succeeds", async () => {
  const { start, left } = await nodeOf({ [INTENT]: intentText });
  const records = start();
  expect(await records.recordOf(IMAGE, "another")).toEqual({ isPulledByAgent: true, record: undefined });
  expect(left()).toEqual([INTENT]);
  await records.recordIntent(IMAGE);
  await records.recordPulled(IMAGE, REF, bySecret);
  expect(left()).toEqual([RECORD]);
});

test("image records are not answered while leftover intents wait for an unreachable runtime", async () => {
  const { start, node, present } = await nodeOf({ [INTENT]: intentText });
  const ask = node.refOf;
  node.refOf = () => Promise.reject(new CriError("UNAVAILABLE", "ImageStatus", "away"));
  const records = start();
  const failure: unknown = await records.recordOf(IMAGE, REF).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(CriError);
  node.refOf = ask;
  present.set(IMAGE, REF);
  expect((await records.recordOf(IMAGE, REF)).record?.credentialMapping).toEqual({});
});

test("an image whose lookup fails stays unverified and does not block other images", async () => {
  const { start, node, log, left } = await nodeOf({ [INTENT]: intentText });
  node.refOf = () => Promise.reject(new CriError("UNKNOWN", "ImageStatus", "its content is broken"));
  const records = start();
  expect(await records.recordOf("other:1", "another")).toEqual({ isPulledByAgent: false, record: undefined });
  expect((await records.recordOf(IMAGE, REF)).isPulledByAgent).toBe(true);
  expect([left(), log.takeLines()]).toEqual([[INTENT], ["warn: cannot recover an interrupted image pull record"]]);
});

test("while the records cannot be listed, every image counts as pulled here, which is logged once", async () => {
  const { start, disk, log } = await nodeOf({ [RECORD]: recordText });
  disk.before = (verb, path) => {
    if (verb === "list" && path.endsWith("/pulled")) throw new FilesError("EIO", path, `${path} cannot be read`);
  };
  const records = start();
  const known = { isPulledByAgent: true, record: expect.objectContaining({ imageRef: REF }) };
  expect(await records.recordOf("other:1", "another")).toEqual({ isPulledByAgent: true, record: undefined });
  expect(await records.recordOf(IMAGE, REF)).toEqual(known);
  expect(log.takeLines()).toEqual([
    "warn: cannot list the image records; until this works, every pod must prove its access to every image",
  ]);
  disk.before = () => {};
  expect(await records.recordOf("other:1", "another")).toEqual({ isPulledByAgent: false, record: undefined });
  expect(await records.recordOf(IMAGE, REF)).toEqual(known);
});

const torn: readonly [sentence: string, text: string][] = [
  ["cut short", recordText.slice(0, 90)],
  ["empty", ""],
  ["of another image", recordText.replaceAll(REF, "another")],
  ["with an unknown field", recordText.replace('"uid"', '"id"')],
  ["of another kind", recordText.replace("ImagePulledRecord", "ImagePullIntent")],
];
for (const [sentence, text] of torn)
  test(`a record that is ${sentence} gives no pod access, is logged once, and is replaced by the next pull`, async () => {
    const { start, log, textOf } = await nodeOf({ [RECORD]: text });
    const records = start();
    expect(await records.recordOf(IMAGE, REF)).toEqual({ isPulledByAgent: true, record: undefined });
    await records.recordOf(IMAGE, REF);
    expect(log.takeLines()).toEqual([
      "warn: cannot read the pull record of an image; the registry must accept each pod's credentials again",
    ]);
    await records.recordIntent(IMAGE);
    await records.recordPulled(IMAGE, REF, bySecret);
    expect(await textOf(RECORD)).toBe(recordText);
  });

test("a file that is not an intent is logged and left alone", async () => {
  const { start, log, left } = await nodeOf({ [INTENT]: "{}" });
  await start().recordOf(IMAGE, REF);
  expect([left(), log.takeLines()]).toEqual([
    [INTENT],
    ["warn: this file is not an image pull intent; leaving it alone"],
  ]);
});

test("no pull starts if the disk is full for its intent; without its record the image stays unverified", async () => {
  const { start, disk, log } = await nodeOf();
  const records = start();
  disk.before = full;
  const failure: unknown = await records.recordIntent(IMAGE).catch((error: unknown) => error);
  expect(failure).toBeInstanceOf(FilesError);
  disk.before = () => {};
  await records.recordIntent(IMAGE);
  disk.before = full;
  await records.recordPulled(IMAGE, REF, bySecret);
  expect(log.takeLines()).toEqual(["warn: cannot record an image pull"]);
  expect(await records.recordOf(IMAGE, REF)).toEqual({ isPulledByAgent: true, record: undefined });
});

const unrecorded: readonly [sentence: string, end: (records: ImageRecords) => Promise<void>][] = [
  ["succeeded", (records) => records.recordPulled(IMAGE, REF, bySecret)],
  ["had an unknown result", (records) => records.recordFailed(IMAGE, false)],
];
for (const [sentence, end] of unrecorded)
  test(`a pull that ${sentence} on a full disk has ended: its intent stays until the next pull`, async () => {
    const { start, disk, present, left } = await nodeOf();
    const records = start();
    await records.recordIntent(IMAGE);
    present.set(IMAGE, REF);
    disk.before = full;
    await end(records);
    disk.before = () => {};
    expect(left()).toEqual([INTENT]);
    await records.recordIntent(IMAGE);
    await records.recordPulled(IMAGE, REF, bySecret);
    expect(left()).toEqual([RECORD]);
  });

test("the record of a pull that ended on a full disk is written by the next audit that can", async () => {
  const { start, disk, log, present, left, textOf } = await nodeOf();
  const records = start();
  await records.recordIntent(IMAGE);
  present.set(IMAGE, REF);
  disk.before = full;
  await records.recordPulled(IMAGE, REF, bySecret);
  await records.audit();
  expect([left(), log.takeLines()]).toEqual([[INTENT], ["warn: cannot record an image pull"]]);
  disk.before = () => {};
  await records.audit();
  expect([left(), await textOf(RECORD)]).toEqual([[RECORD], recordText]);
  disk.before = full;
  await records.audit();
  expect(log.takeLines()).toEqual([]);
});

test("an image that was removed before its record could be written gets none", async () => {
  const { start, disk, present, left } = await nodeOf();
  const records = start();
  await records.recordIntent(IMAGE);
  present.set(IMAGE, REF);
  disk.before = full;
  await records.recordPulled(IMAGE, REF, bySecret);
  disk.before = () => {};
  present.clear();
  await records.audit();
  present.set(IMAGE, REF);
  await records.audit();
  expect(left()).not.toContain(RECORD);
});

test("each kind of write failure is logged once, and again after a success", async () => {
  const { start, disk, log } = await nodeOf();
  const records = start();
  const fail = (code: "ENOSPC" | "EROFS") => (verb: string, path: string) => {
    if (verb === "write") throw new FilesError(code, path, `${path} cannot be written`);
  };
  let secrets = 0;
  const look = async () => {
    for (const image of ["one", "two"])
      await records.addCredential(`${image}:1`, image, { ...bySecret.kubernetesSecrets[0]!, uid: `${secrets++}` });
  };
  const warnings = () => log.takeLines().filter((line) => line.startsWith("warn")).length;
  disk.before = fail("ENOSPC");
  await look();
  await look();
  expect(warnings()).toBe(1);
  disk.before = fail("EROFS");
  await look();
  await look();
  expect(warnings()).toBe(1);
  disk.before = () => {};
  await look();
  disk.before = fail("ENOSPC");
  await look();
  expect(warnings()).toBe(1);
});

test("an added Secret is recorded beside the others", async () => {
  const { start, textOf } = await nodeOf({ [RECORD]: recordText });
  const other = { uid: "a", namespace: "a", name: "a", credentialHash: "testsecrethash" };
  await start().addCredential(IMAGE, REF, other);
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
  ["is removed when the runtime no longer has the image", { [RECORD]: recordText }, ["another"], 0],
  ["stays while the runtime has the image", { [RECORD]: recordText }, ["another", REF], 1],
  ["is removed even if it cannot be read", { [RECORD]: "{" }, ["another"], 0],
  ["stays while the runtime lists no image at all", { [RECORD]: recordText }, [], 1],
  ["is removed without touching the others", { [RECORD]: recordText, [OTHER_RECORD]: recordText }, [REF], 1],
];
for (const [sentence, files, refs, count] of prunings)
  test(`the record of an image ${sentence}`, async () => {
    const { start, left, present, log } = await nodeOf(files);
    for (const ref of refs) present.set(`${ref}:1`, ref);
    const records = start();
    await records.audit();
    expect([left().length, (await records.recordOf(IMAGE, REF)).isPulledByAgent]).toEqual([count, count === 1]);
    expect(log.takeLines()).toEqual([]);
  });

test("a record or intent written while the runtime lists its images stays", async () => {
  const { start, left, node } = await nodeOf({ [RECORD]: recordText, [INTENT.replace("-aef2", "-aef3")]: intentText });
  const records = start();
  node.refs = async () => {
    await records.recordPulled("new:1", "newref", { nodePodsAccessible: true });
    await records.recordPulled(IMAGE, REF, { nodePodsAccessible: true });
    return ["another"];
  };
  await records.audit();
  expect([(await records.recordOf("new:1", "newref")).isPulledByAgent, left().length]).toEqual([true, 3]);
});

test("each audit lists the runtime's images, at most once a minute, and never without records", async () => {
  const { start, node, time } = await nodeOf();
  let asked = 0;
  node.refs = async () => {
    asked++;
    // A slow list does not make the next audit skip its own.
    time.now += 20_000;
    return ["another", REF];
  };
  const records = start();
  await records.audit();
  expect(asked).toBe(0);
  await records.recordPulled(IMAGE, REF, bySecret);
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

test("a record stays while the runtime is unreachable or the disk is read-only; the latter is logged", async () => {
  const { start, node, present, disk, log, left, time } = await nodeOf({ [RECORD]: recordText });
  const ask = node.refs;
  node.refs = () => Promise.reject(new CriError("UNAVAILABLE", "ListImages", "away"));
  const records = start();
  await records.audit();
  expect([left(), log.takeLines()]).toEqual([[RECORD], []]);
  node.refs = ask;
  present.set("another:1", "another");
  disk.before = (verb, path) => {
    if (verb === "remove") throw new FilesError("EROFS", path, `${path} cannot be removed`);
  };
  await records.audit();
  expect([left(), log.takeLines().at(-1)]).toEqual([
    [RECORD],
    "warn: cannot remove the records of images that are gone",
  ]);
  time.now += 300_000;
  await records.audit();
  expect(log.takeLines().filter((line) => line.startsWith("warn"))).toEqual([]);
  disk.before = () => {};
  time.now += 300_000;
  await records.audit();
  expect(left()).toEqual([]);
});
