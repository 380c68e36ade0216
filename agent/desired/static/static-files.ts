import { dirname } from "node:path/posix";
import type { Clock } from "../../../host/clock.ts";
import { type FileStat, type Files, FilesError } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type Claimant, type RefusedClaim, settleClaims } from "../../decide/claims.ts";
import type { Refusal } from "../../decide/node/local-node-report.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import type { OfferedPod } from "../../decide/sources/merge-static.ts";
import { createTrouble, messageOf } from "../outage-log.ts";
import type { DesiredPods } from "../pods.ts";
import { unsettledUntil } from "../settle.ts";
import { createPathWatch } from "./path-watch.ts";

export interface StaticPathSettings {
  /** `staticPodPath`: a folder of manifests, or one manifest. */
  readonly path: string;
  readonly nodeName: string;
  readonly checkEveryMs: number;
  readonly filesAt: (root: string) => Files;
  readonly clock: Clock;
  readonly log: Log;
  readonly desired: Pick<DesiredPods, "all" | "offer" | "refuse">;
}

interface KnownFile {
  readonly stat: FileStat | undefined;
  /** The pod of the last good version. */
  readonly pod: Pod | undefined;
  /** Why the present version cannot be used. */
  readonly problem: string | undefined;
}

interface Watch extends StaticPathSettings {
  /** Rooted at `/`. */
  readonly files: Files;
  /** By path. */
  readonly known: Map<string, KnownFile>;
  /** What was heard of files since they were read last: that they have come, or that somebody writes to them. */
  readonly heard: Map<string, "arrived" | "written">;
  /** Which manifests claim a pod that another one has, and what was said of each. */
  conflicts: readonly RefusedClaim[];
  /** What each file has now, or had when the last agent ended. */
  granted: readonly Claimant[];
  /** What was offered last. */
  offered: readonly OfferedPod[] | undefined;
  presence: "there" | "missing" | "unknown";
}

const LARGEST_MANIFEST_BYTES = 1 << 20;
const AGAIN_MS = 1000;
/*
 * Of events of one kind and name that come within two milliseconds Bun tells the first alone. What changed twice in a moment
 * may so be looked at between the two; a second look a moment after each ring sees the end of it.
 */
const ECHO_MS = 5;

/**
 * Follows a folder of manifests, or one manifest, whichever is at the path at the time; nothing there is no pod. By inotify at
 * once, and by an audit of the files every `fileCheckFrequency`. A manifest that cannot be used is refused with its reason,
 * said once, and the last good version of its pod stays wanted. Resolves when the signal aborts and never rejects.
 */
export async function followStaticPath(settings: StaticPathSettings, signal: AbortSignal): Promise<void> {
  const { clock, log, checkEveryMs } = settings;
  const watch = createWatch(settings);
  const { files, path } = watch;
  const alarm = createAlarm(clock, signal);
  const heard = (file: string, isInPlace: boolean) => watch.heard.set(file, isInPlace ? "written" : "arrived");
  const arm = createPathWatch({ files, path, ring: alarm.ring, heard }, signal);
  const reading = createTrouble(log, { folder: path }, "the folder of manifests is read again");
  const offering = createTrouble(log, { folder: path }, "the pods of the manifests are taken again");

  /** Returns when to look again before the next audit. */
  async function look(): Promise<number> {
    let again: number;
    try {
      again = await read(watch);
      reading.over();
    } catch (error) {
      const problem = `the folder of manifests cannot be read: ${messageOf(error)}; its pods stay as they are`;
      reading.met(problem);
      refuse(watch, { file: path, problem });
      return clock.now() + AGAIN_MS;
    }
    try {
      await offer(watch);
      offering.over();
      return again;
    } catch (error) {
      offering.met(`the pods of the manifests cannot be taken: ${messageOf(error)}; those known stay as they are`);
      return clock.now() + AGAIN_MS;
    }
  }

  let echoAt = Number.POSITIVE_INFINITY;
  while (!signal.aborted) {
    await arm().catch((error: unknown) => {
      // The audit goes on without events, and arms again.
      log.debug({ err: error }, "the manifests cannot be watched yet");
    });
    const again = await look();
    const hasRung = await alarm.wait(Math.min(again, echoAt, clock.now() + checkEveryMs));
    echoAt = hasRung ? clock.now() + ECHO_MS : Number.POSITIVE_INFINITY;
  }
}

function createWatch(settings: StaticPathSettings): Watch {
  const files = settings.filesAt("/");
  // A slash at the end would make a folder of it.
  const path = files.path(settings.path).replace(/(?<=.)\/$/, "");
  const granted = lastGoodOf(settings.desired, path);
  return {
    ...settings,
    path,
    files,
    known: new Map(granted.map(({ file, pod }) => [file, { stat: undefined, pod, problem: undefined }])),
    heard: new Map(),
    conflicts: [],
    granted,
    offered: undefined,
    presence: "unknown",
  };
}

/** What the last agent had taken from each file: it counts where a manifest is broken now. */
function lastGoodOf(desired: StaticPathSettings["desired"], path: string): readonly Claimant[] {
  return desired.all().flatMap(({ pod, source, termination }) => {
    if (source.kind !== "file" || termination !== undefined) return [];
    const isHere = source.path === path || dirname(source.path) === path;
    return isHere ? [{ file: source.path, pod }] : [];
  });
}

/** Sleeps until a time or a ring, whichever comes first; a ring between two sleeps is not lost. */
function createAlarm(clock: Clock, signal: AbortSignal) {
  let hasRung = false;
  let rouse: (() => void) | undefined;
  const ring = () => {
    hasRung = true;
    rouse?.();
  };
  signal.addEventListener("abort", ring, { once: true });
  return {
    ring,
    /** True when it was a ring. */
    async wait(at: number): Promise<boolean> {
      if (!hasRung)
        await new Promise<void>((resolve) => {
          const cancel = clock.wakeAt(at, resolve);
          rouse = () => {
            cancel();
            resolve();
          };
        });
      const wasRung = hasRung;
      hasRung = false;
      rouse = undefined;
      return wasRung;
    },
  };
}

/** Reads what has changed. Returns when to look again because a file is still being written; infinity when none is. */
async function read(watch: Watch): Promise<number> {
  const { known, heard } = watch;
  const earlier = [...heard.keys()];
  const entries = await manifestsOf(watch);
  const present = new Set(entries.map(({ path }) => path));
  for (const path of known.keys()) if (!present.has(path)) known.delete(path);
  for (const path of earlier) if (!present.has(path)) heard.delete(path);
  const looks = await Promise.all(entries.map((entry) => readEntry(watch, entry)));
  return Math.min(...looks.filter((until) => until !== undefined));
}

interface ManifestEntry {
  readonly path: string;
  readonly isLink: boolean;
}

/** Where manifests are now. What the path is may change at any time. */
async function manifestsOf(watch: Watch): Promise<readonly ManifestEntry[]> {
  const { files, path } = watch;
  const found = await files.stat(path);
  tellPresence(watch, found === undefined ? "missing" : "there");
  if (found === undefined) return [];
  if (found.kind !== "directory") return [{ path, isLink: false }];
  const entries = (await files.list(path)) ?? [];
  return entries
    .filter(({ name }) => !name.startsWith("."))
    .map(({ name, kind }) => ({ path: files.path(path, name), isLink: kind === "symlink" }));
}

/** A path that is mistyped looks like a folder without manifests: that it is not there is said once each time. */
function tellPresence(watch: Watch, presence: "there" | "missing"): void {
  const { log, path } = watch;
  const before = watch.presence;
  watch.presence = presence;
  if (presence === "there" || before === "missing") return;
  if (before === "unknown") log.warn({}, `staticPodPath ${path} does not exist: no pods from it until it appears`);
  else
    log.warn({}, `staticPodPath ${path} does not exist any more: its pods end, and none come from it until it appears`);
}

/** Offers the whole if it is not what was offered last. */
async function offer(watch: Watch): Promise<void> {
  const pods = podsOf(watch);
  refuse(watch);
  if (!isSameOffer(pods, watch.offered)) await watch.desired.offer("file", pods);
  watch.offered = pods;
}

/** Tells what is refused now: manifests, and the whole folder where that is the trouble. */
function refuse({ desired, known, conflicts }: Watch, ...whole: readonly Refusal[]): void {
  const broken = [...known].flatMap(([file, { pod, problem }]) =>
    problem === undefined ? [] : [{ file, problem: behind(file, problem + remainderOf(pod)) }],
  );
  const claims = conflicts.map(({ file, problem }) => ({ file, problem }));
  const manifests = [...broken, ...claims].toSorted((a, b) => (a.file < b.file ? -1 : 1));
  const namesakes = conflicts.flatMap(({ namesake }) => namesake ?? []);
  desired.refuse("file", [...whole, ...manifests], namesakes);
}

/** What is known of a file's last good version, to end the sentence with. */
function remainderOf(pod: Pod | undefined): string {
  return pod === undefined ? "" : `; ${fullNameOf(pod)} stays as it was`;
}

/** A problem as it reads behind the name of its file: `line 8: …`. */
function behind(file: string, problem: string): string {
  return problem
    .split(`${file}:`)
    .join(":")
    .replaceAll(/(^|; ):(\d+): /g, "$1line $2: ")
    .replace(/^: /, "")
    .replace(`${file} `, "it ");
}

async function readEntry(watch: Watch, { path, isLink }: ManifestEntry): Promise<number | undefined> {
  const { files, known, heard, clock, nodeName } = watch;
  const news = heard.get(path);
  // It tells of what the next line will see; what is heard from here on may tell of something newer.
  heard.delete(path);
  const hasArrived = () => news === "arrived" && heard.get(path) !== "written";
  let stat: FileStat | undefined;
  try {
    stat = await files.stat(path);
    if (stat === undefined) throw new FilesError("ENOENT", path, `${path} is a link that leads nowhere`);
    // Folders are none of our business: manifests are not looked for in them.
    if (stat.kind === "directory" || isSame(known.get(path)?.stat, stat)) return undefined;
    const until = unsettledUntil(stat, hasArrived(), clock.now());
    if (until !== undefined) return until;
    const text = await files.read(path, LARGEST_MANIFEST_BYTES);
    // The news of a write may come after the look at what it wrote.
    const late = unsettledUntil(stat, hasArrived(), clock.now());
    if (late !== undefined) return late;
    // Loaded with the first manifest: an agent without one has no need of what judges them in its memory.
    const { readPodManifest } = await import("./manifest.ts");
    keep(watch, path, stat, await readPodManifest(text, { path, nodeName }));
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    // It was removed since the folder was listed: that is no mistake of anybody's.
    if (error.code === "ENOENT" && !isLink) known.delete(path);
    else keep(watch, path, stat, { problem: error.message });
  }
  return undefined;
}

function keep(
  { known, log }: Watch,
  path: string,
  stat: FileStat | undefined,
  read: { pod?: Pod; problem?: string },
): void {
  const before = known.get(path);
  known.set(path, { stat, pod: read.pod ?? before?.pod, problem: read.problem });
  if (read.problem === undefined || read.problem === before?.problem) return;
  log.error({ file: path }, `manifest refused: ${read.problem}${remainderOf(before?.pod)}`);
}

function isSameOffer(a: readonly OfferedPod[], b: readonly OfferedPod[] | undefined): boolean {
  return a.length === b?.length && a.every(({ pod }, index) => pod === b[index]?.pod);
}

function isSame(a: FileStat | undefined, b: FileStat): boolean {
  return a?.inode === b.inode && a.modifiedMs === b.modifiedMs && a.sizeBytes === b.sizeBytes && a.kind === b.kind;
}

/** Every pod once, from the file that has it. */
function podsOf(watch: Watch): readonly OfferedPod[] {
  const { known, log } = watch;
  const claimants = [...known].flatMap(([file, { pod }]) => (pod === undefined ? [] : [{ file, pod }]));
  const { granted, refused } = settleClaims(claimants, watch.granted);
  const wasTold = ({ file, problem }: Refusal) =>
    watch.conflicts.some((told) => told.file === file && told.problem === problem);
  for (const conflict of refused)
    if (!wasTold(conflict)) log.error({ file: conflict.file }, `manifest refused: ${conflict.problem}`);
  watch.conflicts = refused;
  watch.granted = granted;
  return granted.map(({ file, pod }) => ({ pod, source: { kind: "file", path: file } }));
}
