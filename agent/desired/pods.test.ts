import { expect, test } from "bun:test";
import type { PodUid } from "../../proto/ids.ts";
import type { Pod, PodSpec } from "../../proto/kubernetes/gen/types.ts";
import { roomForAll } from "../../test/fakes/admission.ts";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { FakeDisk } from "../../test/fakes/files.ts";
import { FakeLog } from "../../test/fakes/log.ts";
import type { Refusal } from "../decide/node/local-node-report.ts";
import type { SourceKind } from "../decide/pod/desired.ts";
import type { OfferedPod } from "../decide/sources/merge-static.ts";
import { createPodRecords, type PodRecords } from "./pod-checkpoints.ts";
import { createDesiredPods } from "./pods.ts";

interface Options {
  readonly kinds?: readonly SourceKind[];
  readonly hasSilentSource?: boolean;
  readonly disk?: FakeDisk;
  readonly slow?: (records: PodRecords) => PodRecords;
}

/** What should run on a node, as the loop hears of it. */
function createScene(options: Options = {}) {
  const { kinds = ["file"], hasSilentSource = false, disk = new FakeDisk(() => 0), slow = (same) => same } = options;
  const clock = new FakeClock();
  const log = new FakeLog();
  const heard: string[] = [];
  let refused: readonly Refusal[] = [];
  const desired = createDesiredPods({
    records: slow(createPodRecords(disk.at("/root"), log)),
    clock,
    log,
    kinds,
    hasSilentSource,
    admission: roomForAll,
    wake: (uid) => heard.push(`wake ${uid}`),
    interrupt: (uid) => heard.push(`interrupt ${uid}`),
    refused: (all) => {
      refused = all;
    },
    complete: () => heard.push("complete"),
  });
  const file = (...pods: readonly OfferedPod[]) => desired.offer("file", pods);
  const records = () =>
    disk
      .paths()
      .filter((path) => path.endsWith(".json"))
      .map((path) => path.slice("/root/berth/pods/".length));
  const told = () => heard.splice(0);
  const refusals = () => refused.map(({ file: path, problem }) => `${path}: ${problem}`);
  return { clock, log, disk, desired, file, records, told, refusals };
}

const podOf = (name: string, uid: string, spec: Partial<PodSpec> = {}): Pod => ({
  metadata: { name, namespace: "shop", uid },
  spec: { containers: [], ...spec },
});
const fromFile = (name: string, uid = `${name}-1`, spec?: Partial<PodSpec>): OfferedPod => ({
  pod: podOf(name, uid, spec),
  source: { kind: "file", path: `/m/${name}` },
});
const fromUrl = (name: string): OfferedPod => ({
  pod: podOf(name, `${name}-1`),
  source: { kind: "http", url: "http://me:word@pods.example/list?key=1" },
});
const web = "web-1" as PodUid;
const wantedOf = (answer: unknown) => {
  if (typeof answer !== "object" || answer === null) throw new Error(`nobody wants it: ${answer}`);
  return answer as Exclude<ReturnType<ReturnType<typeof createScene>["desired"]["get"]>, string | undefined>;
};

test("a pod that is asked for begins while it is recorded; its end is recorded before anybody hears of it", async () => {
  const { desired, file, disk, records, told } = createScene();
  await desired.restore();
  let written = Promise.withResolvers<void>();
  disk.after = (verb) => (verb === "write" ? written.promise : undefined);
  const offered = file(fromFile("web"));
  await rest();
  expect(told()).toEqual(["wake web-1"]);
  written.resolve();
  await offered;
  expect(records()).toEqual(["web-1.json"]);
  told();
  written = Promise.withResolvers();
  const ended = file();
  await rest();
  expect(told()).toEqual([]);
  written.resolve();
  await ended;
  expect(told()).toEqual(["interrupt web-1"]);
});

test("the same word again changes nothing, wakes nobody and writes nothing", async () => {
  const { desired, file, disk, told } = createScene();
  await desired.restore();
  await file(fromFile("web"));
  told();
  disk.before = (verb) => {
    if (verb === "write") throw new Error("nothing is to be written");
  };
  await file(fromFile("web"));
  expect(told()).toEqual([]);
});

test("a pod that is not asked for any more is interrupted with its grace, and gone when it has finished", async () => {
  const { clock, desired, file, records, told } = createScene();
  await desired.restore();
  await file(fromFile("web", "web-1", { terminationGracePeriodSeconds: 7 }));
  await clock.advance(5000);
  told();
  await file();
  expect(told()).toEqual(["interrupt web-1"]);
  expect(wantedOf(desired.get(web)).termination).toEqual({
    requestedAt: clock.now(),
    gracePeriodSeconds: 7,
    why: "its manifest is gone",
  });
  expect(records()).toEqual(["web-1.json"]);
  await desired.finished(web);
  expect(desired.get(web)).toBeUndefined();
  expect(records()).toEqual([]);
});

test("a changed manifest is another pod, which waits for the one before and is woken when that is gone", async () => {
  const { desired, file, told } = createScene();
  await desired.restore();
  await file(fromFile("web", "web-1"));
  await file(fromFile("web", "web-2"));
  await file(fromFile("web", "web-3"));
  expect(desired.all().map(({ uid, termination }) => `${uid} ${termination?.why ?? "is wanted"}`)).toEqual([
    "web-1 its manifest has changed",
    "web-2 its manifest has changed",
    "web-3 is wanted",
  ]);
  const waits = () => desired.all().map(({ uid }) => wantedOf(desired.get(uid)).waitsFor as string | undefined);
  expect(waits()).toEqual([undefined, "web-1", "web-2"]);
  told();
  await desired.finished(web);
  expect(told()).toEqual(["wake web-2", "wake web-3"]);
  expect(waits()).toEqual([undefined, "web-2"]);
});

test("a pod that waited for its predecessor is held until that is gone, and a new agent knows since when", async () => {
  const { clock, desired, file, disk } = createScene();
  await desired.restore();
  await file(fromFile("web", "web-1"));
  await file(fromFile("web", "web-2"));
  await clock.advance(45_000);
  const finished = desired.finished(web);
  const gone = FakeClock.start + 45_000;
  expect(desired.all().map(({ heldUntil }) => heldUntil)).toEqual([gone]);
  await finished;
  const second = createScene({ disk });
  await second.desired.restore();
  expect(second.desired.all()).toEqual(desired.all());
});

test("a pod is held as long as any earlier one of its name is there, in whatever order they end", async () => {
  const { clock, desired, file } = createScene();
  await desired.restore();
  for (const uid of ["web-1", "web-2", "web-3"]) await file(fromFile("web", uid));
  const held = () => desired.all().map(({ uid, heldUntil }) => [uid as string, heldUntil]);
  await clock.advance(1000);
  await desired.finished("web-2" as PodUid);
  expect(held()).toEqual([
    ["web-1", undefined],
    ["web-3", undefined],
  ]);
  await clock.advance(1000);
  await desired.finished(web);
  expect(held()).toEqual([["web-3", FakeClock.start + 2000]]);
});

test("an end that a new agent has to finish once more does not hold anew what has begun since", async () => {
  const first = createScene();
  await first.desired.restore();
  await first.file(fromFile("web", "web-1"));
  await first.file(fromFile("web", "web-2"));
  first.disk.before = (verb) => {
    if (verb === "remove") throw new Error("read-only");
  };
  await first.desired.finished(web);
  first.disk.before = () => {};
  const second = createScene({ disk: first.disk });
  await second.desired.restore();
  await second.clock.advance(60_000);
  await second.desired.finished(web);
  expect(wantedOf(second.desired.get("web-2" as PodUid)).heldUntil).toBe(FakeClock.start);
});

test("a pod of another namespace waits for nobody", async () => {
  const { desired, file } = createScene();
  await desired.restore();
  const other = fromFile("web", "web-2");
  await file(fromFile("web"), {
    ...other,
    pod: { ...other.pod, metadata: { ...other.pod.metadata, namespace: "else" } },
  });
  expect(wantedOf(desired.get("web-2" as PodUid)).waitsFor).toBeUndefined();
});

test("a pod that takes another name under its uid is waited for under the new name, and no more under the old", async () => {
  const { desired, file } = createScene();
  await desired.restore();
  await file(fromFile("web", "u-1"));
  await file(fromFile("db", "u-1"));
  await file(fromFile("db", "u-2"), fromFile("web", "u-3"));
  const waits = ["u-1", "u-2", "u-3"].map((uid) => wantedOf(desired.get(uid as PodUid)).waitsFor as string | undefined);
  expect(waits).toEqual([undefined, "u-1", undefined]);
});

test("a pod that is asked for again while it ends begins anew when it is gone", async () => {
  const { desired, file, told } = createScene();
  await desired.restore();
  await file(fromFile("web"));
  await file();
  await file(fromFile("web"));
  expect(wantedOf(desired.get(web)).termination).toBeDefined();
  told();
  await desired.finished(web);
  expect(wantedOf(desired.get(web)).termination).toBeUndefined();
  expect(told()).toEqual(["wake web-1"]);
});

test("the end of a pod that was asked for again since is not the end of that one", async () => {
  const { clock, desired, file, records, told } = createScene();
  await desired.restore();
  await file(fromFile("web"));
  await clock.advance(1000);
  told();
  await desired.finished(web);
  expect(wantedOf(desired.get(web)).acceptedAt).toBe(FakeClock.start);
  expect(told()).toEqual([]);
  expect(records()).toEqual(["web-1.json"]);
});

test("before every source has spoken, what nobody knows is unknown; after that it is wanted by nobody", async () => {
  const { desired, file, told } = createScene({ kinds: ["file", "http"] });
  await desired.restore();
  const stranger = "who" as PodUid;
  expect(desired.get(stranger)).toBe("unknown");
  await file();
  expect([desired.get(stranger), ...told()]).toEqual(["unknown"]);
  await desired.offer("http", [fromUrl("db")]);
  expect([desired.get(stranger), ...told()]).toEqual([undefined, "wake db-1", "complete"]);
  await desired.offer("http", []);
  expect(told()).toEqual(["interrupt db-1"]);
});

test("a node without sources knows at once that nobody wants anything", async () => {
  const { desired, told } = createScene({ kinds: [] });
  await desired.restore();
  expect(told()).toEqual(["complete"]);
  expect(desired.get(web)).toBeUndefined();
});

test("where a source will never speak, nobody's pod stays unknown", async () => {
  const { desired, file } = createScene({ hasSilentSource: true });
  await desired.restore();
  await file();
  expect(desired.get(web)).toBe("unknown");
});

test("each source speaks for its own pods alone", async () => {
  const { desired, file } = createScene({ kinds: ["file", "http"] });
  await desired.restore();
  await file(fromFile("web"));
  await desired.offer("http", [fromUrl("db")]);
  await file();
  const wanted = desired.all().map(({ uid, termination }) => `${uid} ${termination === undefined ? "runs" : "ends"}`);
  expect(wanted).toEqual(["web-1 ends", "db-1 runs"]);
});

test("a new agent knows what the last one had taken, since when, and what had to end", async () => {
  const first = createScene();
  await first.desired.restore();
  await first.file(fromFile("web"));
  await first.clock.advance(1000);
  await first.file(fromFile("web"), fromFile("db"));
  await first.file(fromFile("db"));
  const second = createScene({ disk: first.disk });
  await second.clock.advance(60_000);
  await second.desired.restore();
  expect(second.desired.all()).toEqual(first.desired.all());
  expect(second.told()).toEqual([]);
  await second.file(fromFile("db"));
  expect(second.told()).toEqual(["complete"]);
  expect(wantedOf(second.desired.get("db-1" as PodUid)).acceptedAt).toBe(FakeClock.start + 1000);
});

test("the pods of a source that is configured no more end", async () => {
  const first = createScene({ kinds: ["file", "http"] });
  await first.desired.restore();
  await first.file(fromFile("web"));
  await first.desired.offer("http", [fromUrl("db")]);
  const second = createScene({ disk: first.disk });
  await second.desired.restore();
  expect(second.told()).toEqual(["interrupt db-1"]);
});

test("a pod that cannot be recorded runs all the same, and that is said", async () => {
  const { desired, file, disk, log, told } = createScene();
  await desired.restore();
  disk.before = (verb) => {
    if (verb === "write") throw new Error("the disk is full");
  };
  await file(fromFile("web"));
  expect(told()).toEqual(["wake web-1", "complete"]);
  expect(log.told()).toEqual(["error: the pod cannot be recorded; a restart would forget it"]);
});

test("a record that cannot be removed is said, and the pod is gone all the same", async () => {
  const { desired, file, disk, log } = createScene();
  await desired.restore();
  await file(fromFile("web"));
  await file();
  disk.before = (verb) => {
    if (verb === "remove") throw new Error("read-only");
  };
  await desired.finished(web);
  expect(desired.get(web)).toBeUndefined();
  expect(log.told()).toEqual(["error: the record of a pod that is gone cannot be removed"]);
});

test("words that come while one is being written are taken in their order", async () => {
  const { desired, file, told } = createScene();
  await desired.restore();
  await Promise.all([file(fromFile("web")), file(), file(fromFile("db"))]);
  expect(told()).toEqual(["wake web-1", "complete", "interrupt web-1", "wake db-1"]);
});

test("of two sources that ask for one uid the first has it, the other is refused once and gets it when that is gone", async () => {
  const { desired, file, log, told, refusals } = createScene({ kinds: ["file", "http"] });
  await desired.restore();
  await file(fromFile("web"));
  desired.refuse("file", [{ file: "/m/x", problem: "it is empty" }]);
  for (let time = 0; time < 3; time++) await desired.offer("http", [fromUrl("web"), fromUrl("db")]);
  expect(log.told()).toEqual([
    "error: static pod shop/web from the URL refused: pod uid web-1 is already defined by /m/web",
  ]);
  expect(refusals()).toEqual([
    "/m/x: it is empty",
    "http://pods.example/list: pod uid web-1 is already defined by /m/web",
  ]);
  expect(desired.all().map(({ uid, source }) => `${uid} ${source.kind}`)).toEqual(["web-1 file", "db-1 http"]);
  await file();
  told();
  await desired.finished(web);
  expect(wantedOf(desired.get(web)).source.kind).toBe("http");
  expect(told()).toEqual(["wake web-1"]);
  expect(log.told()).toEqual([]);
  desired.refuse("file", []);
  expect(refusals()).toEqual([]);
  await file(fromFile("web"));
  expect(log.told()).toEqual(["error: manifest refused: pod uid web-1 is already defined by http://pods.example/list"]);
});

test("a pod that moves from one source to another under its uid is no conflict, in whatever order they speak", async () => {
  const first = createScene({ kinds: ["file", "http"] });
  await first.desired.restore();
  await first.file(fromFile("web"));
  const second = createScene({ kinds: ["file", "http"], disk: first.disk });
  await second.desired.restore();
  await second.desired.offer("http", [fromUrl("web")]);
  await second.file();
  await second.desired.finished(web);
  expect(wantedOf(second.desired.get(web)).source.kind).toBe("http");
  expect(second.log.told()).toEqual([]);
});

test("a record that is written while the old one is removed stays", async () => {
  const removing = Promise.withResolvers<void>();
  const slow = (records: PodRecords): PodRecords => ({
    ...records,
    async remove(uid) {
      await removing.promise;
      await records.remove(uid);
    },
  });
  const { desired, file, records } = createScene({ slow });
  await desired.restore();
  await file(fromFile("web"));
  await file();
  const finished = desired.finished(web);
  const again = file(fromFile("web"));
  await rest();
  removing.resolve();
  await Promise.all([finished, again]);
  expect(wantedOf(desired.get(web)).termination).toBeUndefined();
  expect(records()).toEqual(["web-1.json"]);
});

/** A scene in which a pod has to end, and a word that has just been taken is still being written. */
async function createSlowScene() {
  const scene = createScene();
  await scene.desired.restore();
  await scene.file(fromFile("web"));
  await scene.file();
  const written = Promise.withResolvers<void>();
  scene.disk.after = (verb) => (verb === "write" ? written.promise : undefined);
  return { ...scene, letWrite: written.resolve };
}

test("a pod that begins anew before the old record is removed keeps its new one", async () => {
  const { desired, file, records, letWrite } = await createSlowScene();
  const earlier = file(fromFile("api"));
  await rest();
  const again = file(fromFile("api"), fromFile("web"));
  const finished = desired.finished(web);
  letWrite();
  await Promise.all([earlier, again, finished]);
  expect(wantedOf(desired.get(web)).termination).toBeUndefined();
  expect(records()).toEqual(["api-1.json", "web-1.json"]);
});

test("a pod that has ended is not begun anew by a word that was taken back since", async () => {
  const { desired, file, letWrite } = await createSlowScene();
  const earlier = file(fromFile("web"), fromFile("api"));
  await rest();
  const latest = file(fromFile("db"));
  const finished = desired.finished(web);
  letWrite();
  await Promise.all([earlier, latest, finished]);
  const wanted = desired.all().filter(({ termination }) => termination === undefined);
  expect(wanted.map(({ uid }) => uid as string)).toEqual(["db-1"]);
});
