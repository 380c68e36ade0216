import { dirname } from "node:path/posix";
import { createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import { mapConcurrently } from "../../../host/async/map-concurrently.ts";
import type { Clock } from "../../../host/clock.ts";
import { messageOf } from "../../../host/error-message.ts";
import { type FileStat, type Files, FilesError } from "../../../host/fs/files.ts";
import { isUnusableFile } from "../../../host/fs/unusable-file.ts";
import type { Log } from "../../../host/log/log.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { RejectedManifest } from "../../decide/node/local-node-report.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import { type ManifestConflict, type ManifestFile, resolveConflicts } from "../../decide/sources/manifest-conflicts.ts";
import type { ManifestPod } from "../../decide/sources/merge-static.ts";
import { createOutageLog } from "../outage-log.ts";
import type { DesiredPods } from "../pods.ts";
import { createPathWatch } from "./path-watch.ts";
import { isUidInUse } from "./uid-in-use.ts";

const SETTLE_MS = 30;
/** A shell creates the file of `cat > FILE` before it starts the program that writes it. */
const EMPTY_SETTLE_MS = 2000;
const ONE_WRITE_BYTES = 4096;

export interface StaticPathOptions {
  /** `staticPodPath`: a directory of manifests, or one manifest. */
  readonly path: string;
  readonly nodeName: string;
  readonly checkEveryMs: number;
  readonly filesAt: (root: string) => Files;
  readonly clock: Clock;
  readonly log: Log;
  readonly desired: Pick<DesiredPods, "all" | "replaceManifests" | "setManifestErrors">;
}

interface KnownFile {
  /** Undefined if the current version was not read: the next check reads it, although it has not changed. */
  readonly stat: FileStat | undefined;
  /** The pod of the last good version. */
  readonly pod: Pod | undefined;
  /** Why the current version cannot be used. */
  readonly problem: string | undefined;
}

interface StaticPathState extends StaticPathOptions {
  /** Rooted at `/`. */
  readonly files: Files;
  /** By path. */
  readonly known: Map<string, KnownFile>;
  /** The latest inotify event of each file since its last read: renamed into place, or written. */
  readonly fileEvents: Map<string, "arrived" | "written">;
  /** The manifests whose pod another manifest defines, with the logged messages. */
  conflicts: readonly ManifestConflict[];
  /** The pod of each file, now or at the end of the last agent. */
  owners: readonly ManifestFile[];
  /** The pods that were applied last. */
  lastApplied: readonly ManifestPod[] | undefined;
  presence: "there" | "missing" | "unknown";
}

const MAX_MANIFEST_BYTES = 1 << 20;
const RETRY_MS = 1000;
/** A full directory must take neither all file descriptors nor the memory of all its files at once. */
const MAX_CONCURRENT_READS = 16;
/*
 * Of several events of the same kind and name within two milliseconds Bun reports only the first. A file that changes
 * twice may therefore be read between the two changes; a second read shortly after each wake-up sees the final state.
 */
const RECHECK_MS = 5;

/**
 * Watches a directory of manifests, or a single manifest, whichever is at the path; a missing path has no pods. Changes
 * arrive by inotify at once, and by a check of all files every `fileCheckFrequency`. A manifest that cannot be used is
 * refused, its reason is logged once, and the last good version of its pod stays. Resolves when the signal aborts;
 * never rejects.
 */
export async function watchStaticPath(options: StaticPathOptions, signal: AbortSignal): Promise<void> {
  const { clock, log, checkEveryMs } = options;
  const state = createState(options);
  const { files, path } = state;
  const wakeUp = createAutoResetEvent(clock);
  const onFileEvent = (file: string, isInPlace: boolean) =>
    state.fileEvents.set(file, isInPlace ? "written" : "arrived");
  const rearm = createPathWatch({ files, path, onChange: wakeUp.set, onFileEvent }, signal);
  const readOutage = createOutageLog(log, { folder: path }, "the directory of manifests can be read again");
  const watchOutage = createOutageLog(log, { folder: path }, "the manifests are watched again");
  const applyOutage = createOutageLog(log, { folder: path }, "the pods of the manifests can be applied again");

  /** Returns when to read again, if that is before the next check; epoch milliseconds. */
  async function sync(): Promise<number> {
    let nextReadAt: number;
    try {
      nextReadAt = await readChanged(state);
      readOutage.clear();
    } catch (error) {
      const problem = `cannot read the directory of manifests: ${messageOf(error)}; its pods stay as they are`;
      readOutage.report(problem);
      reportErrors(state, { file: path, problem });
      return clock.now() + RETRY_MS;
    }
    try {
      await apply(state);
      applyOutage.clear();
      return nextReadAt;
    } catch (error) {
      applyOutage.report(
        `cannot apply the pods of the manifests: ${messageOf(error)}; the known pods stay as they are`,
      );
      return clock.now() + RETRY_MS;
    }
  }

  let recheckAt = Number.POSITIVE_INFINITY;
  while (!signal.aborted) {
    // The periodic check works without events, and tries again.
    await rearm().then(watchOutage.clear, (error: unknown) => {
      if (error instanceof FilesError && error.code === "EWATCH")
        watchOutage.report(`${error.message}; changes are found every ${checkEveryMs / 1000} s only`);
      else log.debug({ err: error }, "cannot watch the manifests yet");
    });
    const nextReadAt = await sync();
    const isSet = await wakeUp.wait(Math.min(nextReadAt, recheckAt, clock.now() + checkEveryMs), signal);
    recheckAt = isSet ? clock.now() + RECHECK_MS : Number.POSITIVE_INFINITY;
  }
}

function createState(options: StaticPathOptions): StaticPathState {
  const files = options.filesAt("/");
  // With a trailing slash the path could only be a directory.
  const path = files.path(options.path).replace(/(?<=.)\/$/, "");
  const owners = lastGoodOf(options.desired, path);
  return {
    ...options,
    path,
    files,
    known: new Map(owners.map(({ file, pod }) => [file, { stat: undefined, pod, problem: undefined }])),
    fileEvents: new Map(),
    conflicts: [],
    owners,
    lastApplied: undefined,
    presence: "unknown",
  };
}

/** The pods that the last agent accepted from each file: they stay if the manifest is broken now. */
function lastGoodOf(desired: StaticPathOptions["desired"], path: string): readonly ManifestFile[] {
  return desired.all().flatMap(({ pod, source, termination }) => {
    if (source.kind !== "file" || termination !== undefined) return [];
    const isHere = source.path === path || dirname(source.path) === path;
    return isHere ? [{ file: source.path, pod }] : [];
  });
}

/** Reads the changed files. Returns when to read again because a file is still being written; infinity if none is. */
async function readChanged(state: StaticPathState): Promise<number> {
  const { known, fileEvents } = state;
  const earlier = [...fileEvents.keys()];
  const entries = await manifestsOf(state);
  const present = new Set(entries.map(({ path }) => path));
  for (const path of known.keys()) if (!present.has(path)) known.delete(path);
  for (const path of earlier) if (!present.has(path)) fileEvents.delete(path);
  const dueTimes = await mapConcurrently(entries, MAX_CONCURRENT_READS, (entry) => readEntry(state, entry));
  return Math.min(...dueTimes.filter((notBefore) => notBefore !== undefined));
}

interface ManifestEntry {
  readonly path: string;
  readonly isLink: boolean;
}

/** The current manifest files. The path may change between a file and a directory at any time. */
async function manifestsOf(state: StaticPathState): Promise<readonly ManifestEntry[]> {
  const { files, path } = state;
  const found = await files.stat(path);
  logPresence(state, found === undefined ? "missing" : "there");
  if (found === undefined) return [];
  if (found.kind !== "directory") return [{ path, isLink: false }];
  const entries = (await files.list(path)) ?? [];
  return entries
    .filter(({ name }) => !name.startsWith("."))
    .map(({ name, kind }) => ({ path: files.path(path, name), isLink: kind === "symlink" }));
}

/** Logs once when the path is missing: a mistyped path would otherwise look like an empty directory. */
function logPresence(state: StaticPathState, presence: "there" | "missing"): void {
  const { log, path } = state;
  const last = state.presence;
  state.presence = presence;
  if (presence === "there" || last === "missing") return;
  if (last === "unknown") log.warn({}, `staticPodPath ${path} does not exist: no pods from it until it appears`);
  else
    log.warn(
      {},
      `staticPodPath ${path} no longer exists: its static pods are terminated, and none are started until it exists again`,
    );
}

/** Applies all pods if they differ from what was applied last. */
async function apply(state: StaticPathState): Promise<void> {
  const pods = resolvePods(state);
  reportErrors(state);
  if (!isSamePods(pods, state.lastApplied)) await state.desired.replaceManifests("file", pods);
  state.lastApplied = pods;
}

/** Reports the current errors: those of manifests, and `whole` for the directory itself. */
function reportErrors({ desired, known, conflicts }: StaticPathState, ...whole: readonly RejectedManifest[]): void {
  const brokenFiles = [...known].flatMap(([file, { pod, problem }]) =>
    problem === undefined ? [] : [{ file, problem: withoutFileName(file, problem + lastGoodSuffix(pod)) }],
  );
  const conflictErrors = conflicts.map(({ file, problem }) => ({ file, problem }));
  const manifests = [...brokenFiles, ...conflictErrors].toSorted((a, b) => (a.file < b.file ? -1 : 1));
  const duplicates = conflicts.flatMap(({ duplicate }) => duplicate ?? []);
  desired.setManifestErrors("file", [...whole, ...manifests], duplicates);
}

/** The end of an error message: the pod of the last good version stays. */
function lastGoodSuffix(pod: Pod | undefined): string {
  return pod === undefined ? "" : `; ${fullNameOf(pod)} stays as it was`;
}

/** Rewrites a problem to follow its file's name: `line 8: …`. */
function withoutFileName(file: string, problem: string): string {
  return problem
    .split(`${file}:`)
    .join(":")
    .replaceAll(/(^|; ):(\d+): /g, "$1line $2: ")
    .replace(/^: /, "")
    .replace(`${file} `, "it ");
}

async function readEntry(state: StaticPathState, { path, isLink }: ManifestEntry): Promise<number | undefined> {
  const { files, known, fileEvents, clock, nodeName, desired } = state;
  const event = fileEvents.get(path);
  // The following stat sees what this event reported; events from here on may report something newer.
  fileEvents.delete(path);
  const hasArrived = () => event === "arrived" && fileEvents.get(path) !== "written";
  let stat: FileStat | undefined;
  try {
    stat = await files.stat(path);
    if (stat === undefined) throw new FilesError("ENOENT", path, `${path} is a dangling symlink`);
    // Like the kubelet, ignore subdirectories.
    if (stat.kind === "directory" || isSame(known.get(path)?.stat, stat)) return undefined;
    const notBefore = readableAt(stat, hasArrived(), clock.now());
    if (notBefore !== undefined) return notBefore;
    const text = await files.read(path, MAX_MANIFEST_BYTES);
    // The event of a write may arrive after the stat that sees the write.
    const notBeforeAfterRead = readableAt(stat, hasArrived(), clock.now());
    if (notBeforeAfterRead !== undefined) return notBeforeAfterRead;
    // Loaded lazily to save the memory of the validation on nodes without manifests.
    const { readPodManifest } = await import("./manifest.ts");
    const origin = { path, nodeName, isUidInUse: (uid: string) => isUidInUse(desired.all(), uid) };
    store(state, path, stat, await readPodManifest(text, origin));
  } catch (error) {
    if (!(error instanceof FilesError)) throw error;
    // The file was removed after the directory was listed: not an error.
    if (error.code === "ENOENT" && !isLink) known.delete(path);
    else if (isUnusableFile(error)) store(state, path, stat, { problem: error.message });
    else store(state, path, undefined, { problem: `${error.message}; it is read again at the next check` });
  }
  return undefined;
}

function store(
  { known, log }: StaticPathState,
  path: string,
  stat: FileStat | undefined,
  read: { pod?: Pod; problem?: string },
): void {
  const before = known.get(path);
  known.set(path, { stat, pod: read.pod ?? before?.pod, problem: read.problem });
  if (read.problem === undefined || read.problem === before?.problem) return;
  log.error({ file: path }, `manifest refused: ${read.problem}${lastGoodSuffix(before?.pod)}`);
}

function isSamePods(a: readonly ManifestPod[], b: readonly ManifestPod[] | undefined): boolean {
  return a.length === b?.length && a.every(({ pod }, index) => pod === b[index]?.pod);
}

function isSame(a: FileStat | undefined, b: FileStat): boolean {
  return a?.inode === b.inode && a.modifiedMs === b.modifiedMs && a.sizeBytes === b.sizeBytes && a.kind === b.kind;
}

/** Every pod once, from the file that defines it. Logs each new conflict. */
function resolvePods(state: StaticPathState): readonly ManifestPod[] {
  const { known, log } = state;
  const manifestPods = [...known].flatMap(([file, { pod }]) => (pod === undefined ? [] : [{ file, pod }]));
  const { accepted, conflicts } = resolveConflicts(manifestPods, state.owners);
  const wasLogged = ({ file, problem }: RejectedManifest) =>
    state.conflicts.some((logged) => logged.file === file && logged.problem === problem);
  for (const conflict of conflicts)
    if (!wasLogged(conflict)) log.error({ file: conflict.file }, `manifest refused: ${conflict.problem}`);
  state.conflicts = conflicts;
  state.owners = accepted;
  return accepted.map(({ file, pod }) => ({ pod, source: { kind: "file", path: file } }));
}

/**
 * Returns when a file may be read (epoch milliseconds), because it may still be half written; undefined if it may be
 * read now. A rename delivers a complete file: with `hasArrived`, a file that was renamed into place and not written
 * since, it is read at once. Any other file may be read 30 ms after its last change, and so may one larger than a single
 * write, since the inotify event of a write may arrive after the stat. An empty file gets two seconds: its writer may only
 * have opened it, and the event of the write ends the wait.
 *
 * @internal
 */
export function readableAt({ sizeBytes, modifiedMs }: FileStat, hasArrived: boolean, now: number): number | undefined {
  const isWhole = hasArrived && sizeBytes > 0 && sizeBytes <= ONE_WRITE_BYTES;
  const settleMs = sizeBytes === 0 ? EMPTY_SETTLE_MS : SETTLE_MS;
  const settledAt = modifiedMs + settleMs;
  // A modification time in the future means that the clock was set back, or that the file comes from an archive.
  return isWhole || settledAt <= now || modifiedMs > now + settleMs ? undefined : settledAt;
}
