import { basename, dirname } from "node:path/posix";
import type { Clock } from "../../host/clock.ts";
import { type FileEntry, type FileStat, type Files, FilesError } from "../../host/files.ts";
import type { Log } from "../../host/log.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { fullNameOf } from "../decide/desired.ts";
import type { OfferedPod } from "../decide/merge.ts";
import type { DesiredPods } from "./pods.ts";
import { unsettledUntil } from "./settle.ts";
import { createTrouble, messageOf } from "./trouble.ts";

export interface StaticPathSettings {
  /** `staticPodPath`: a folder of manifests, or one manifest. */
  readonly path: string;
  readonly nodeName: string;
  readonly checkEveryMs: number;
  readonly filesAt: (root: string) => Files;
  readonly clock: Clock;
  readonly log: Log;
  readonly desired: Pick<DesiredPods, "all" | "offer">;
}

interface KnownFile {
  readonly stat: FileStat | undefined;
  /** The pod of the last good version. */
  readonly pod: Pod | undefined;
  /** Why the present version cannot be used. */
  readonly problem: string | undefined;
}

interface Watch extends StaticPathSettings {
  /** Rooted at the folder of manifests. */
  readonly files: Files;
  /** The one manifest that counts, where `path` is no folder. */
  readonly only: string | undefined;
  readonly known: Map<string, KnownFile>;
  /** Who was refused by the last look because another file has the pod's name or uid. */
  conflicts: ReadonlySet<string>;
  /** What was offered last. */
  offered: readonly OfferedPod[] | undefined;
}

const LARGEST_MANIFEST_BYTES = 1 << 20;
const AGAIN_MS = 1000;

/**
 * Follows a folder of manifests: by inotify at once, and by an audit of the folder's files every `fileCheckFrequency`. A
 * manifest that cannot be used is refused with its reason, said once, and the last good version of its pod stays wanted.
 * Resolves when the signal aborts and never rejects.
 */
export async function followStaticPath(settings: StaticPathSettings, signal: AbortSignal): Promise<void> {
  const { clock, log, checkEveryMs } = settings;
  const watch = await openWatch(settings);
  const { files } = watch;
  const alarm = createAlarm(clock, signal);
  const reading = createTrouble(log, { folder: files.root }, "the folder of manifests is read again");
  const offering = createTrouble(log, { folder: files.root }, "the pods of the manifests are taken again");
  let watching: AbortController | undefined;

  /** The folder may come and go; while it is away the audit looks for it. */
  function arm(): void {
    if (watching !== undefined) return;
    const own = new AbortController();
    try {
      files.watch(".", alarm.ring, () => release(own), AbortSignal.any([own.signal, signal]));
      watching = own;
    } catch (error) {
      log.debug({ err: error }, "the folder of manifests cannot be watched yet");
    }
  }

  function release(own: AbortController): void {
    own.abort();
    watching = undefined;
    alarm.ring();
  }

  /** Returns when to look again before the next audit. */
  async function look(): Promise<number> {
    let again: number;
    try {
      again = await read(watch);
      reading.over();
    } catch (error) {
      reading.met(`the folder of manifests cannot be read: ${messageOf(error)}; its pods stay as they are`);
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

  while (!signal.aborted) {
    arm();
    const again = await look();
    await alarm.wait(Math.min(again, clock.now() + checkEveryMs));
  }
}

async function openWatch(settings: StaticPathSettings): Promise<Watch> {
  const { path, filesAt, desired } = settings;
  // What cannot even be looked at is told by the first look into it.
  const found = await filesAt("/")
    .stat(path)
    .catch(() => undefined);
  const isFile = found !== undefined && found.kind !== "directory";
  const files = filesAt(isFile ? dirname(path) : path);
  const only = isFile ? basename(path) : undefined;
  return { ...settings, files, only, known: lastGoodOf(desired, files), conflicts: new Set(), offered: undefined };
}

/** What the last agent had taken from each file: it counts where a manifest is broken now. */
function lastGoodOf(desired: StaticPathSettings["desired"], files: Files): Map<string, KnownFile> {
  const mine = desired.all().filter(({ source, termination }) => source.kind === "file" && termination === undefined);
  return new Map(
    mine.flatMap(({ pod, source }) => {
      const name = source.kind === "file" ? basename(source.path) : "";
      return files.path(name) === (source.kind === "file" && source.path)
        ? [[name, { stat: undefined, pod, problem: undefined }] as const]
        : [];
    }),
  );
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
    async wait(at: number): Promise<void> {
      if (!hasRung)
        await new Promise<void>((resolve) => {
          const cancel = clock.wakeAt(at, resolve);
          rouse = () => {
            cancel();
            resolve();
          };
        });
      hasRung = false;
      rouse = undefined;
    },
  };
}

/** Reads what has changed. Returns when to look again because a file is still being written; infinity when none is. */
async function read(watch: Watch): Promise<number> {
  const { files, known, only } = watch;
  const entries = ((await files.list(".")) ?? []).filter(({ name }) =>
    only === undefined ? !name.startsWith(".") : name === only,
  );
  const present = new Set(entries.map(({ name }) => name));
  for (const name of known.keys()) if (!present.has(name)) known.delete(name);
  const looks = await Promise.all(entries.map((entry) => readEntry(watch, entry)));
  return Math.min(...looks.filter((until) => until !== undefined));
}

/** Offers the whole if it is not what was offered last. */
async function offer(watch: Watch): Promise<void> {
  const pods = podsOf(watch);
  if (!isSameOffer(pods, watch.offered)) await watch.desired.offer("file", pods);
  watch.offered = pods;
}

async function readEntry(watch: Watch, { name, kind }: FileEntry): Promise<number | undefined> {
  const { files, known, clock, nodeName } = watch;
  const path = files.path(name);
  let stat: FileStat | undefined;
  try {
    stat = await files.stat(name);
    if (stat === undefined) throw new FilesError("ENOENT", path, `${path} is a link that leads nowhere`);
    // Folders are none of our business: manifests are not looked for in them.
    if (stat.kind === "directory" || isSame(known.get(name)?.stat, stat)) return undefined;
    const until = unsettledUntil(stat, clock.now());
    if (until !== undefined) return until;
    const text = await files.read(name, LARGEST_MANIFEST_BYTES);
    // Loaded with the first manifest: an agent without one has no need of what judges them in its memory.
    const { readPodManifest } = await import("./manifest.ts");
    keep(watch, name, stat, await readPodManifest(text, { path, nodeName }));
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    // It was removed since the folder was listed: that is no mistake of anybody's.
    if (error.code === "ENOENT" && kind !== "symlink") known.delete(name);
    else keep(watch, name, stat, { problem: error.message });
  }
  return undefined;
}

function keep(
  { known, log, files }: Watch,
  name: string,
  stat: FileStat | undefined,
  read: { pod?: Pod; problem?: string },
): void {
  const before = known.get(name);
  known.set(name, { stat, pod: read.pod ?? before?.pod, problem: read.problem });
  if (read.problem === undefined || read.problem === before?.problem) return;
  const rest = before?.pod === undefined ? "" : `; ${fullNameOf(before.pod)} stays as it was`;
  log.error({ file: files.path(name) }, `manifest refused: ${read.problem}${rest}`);
}

function isSameOffer(a: readonly OfferedPod[], b: readonly OfferedPod[] | undefined): boolean {
  return a.length === b?.length && a.every(({ pod }, index) => pod === b[index]?.pod);
}

function isSame(a: FileStat | undefined, b: FileStat): boolean {
  return a?.inode === b.inode && a.modifiedMs === b.modifiedMs && a.sizeBytes === b.sizeBytes && a.kind === b.kind;
}

/** Every pod once: of two files that claim one name or one uid, the first in order has it. */
function podsOf(watch: Watch): readonly OfferedPod[] {
  const { files, known, log } = watch;
  const owners = new Map<string, string>();
  const conflicts = new Set<string>();
  const pods = [...known]
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .flatMap(([file, { pod }]) => {
      if (pod === undefined) return [];
      const claims = [fullNameOf(pod), `uid ${pod.metadata.uid}`];
      const taken = claims.find((claim) => owners.has(claim));
      if (taken === undefined) {
        for (const claim of claims) owners.set(claim, file);
        return [{ pod, source: { kind: "file" as const, path: files.path(file) } }];
      }
      const problem = `manifest refused: pod ${taken} is already defined by ${owners.get(taken)}`;
      if (!watch.conflicts.has(file + problem)) log.error({ file: files.path(file) }, problem);
      conflicts.add(file + problem);
      return [];
    });
  watch.conflicts = conflicts;
  return pods;
}
