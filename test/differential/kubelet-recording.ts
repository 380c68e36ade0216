import { createHash } from "node:crypto";
import { existsSync, statfsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { ifAbsent } from "../bed/if-absent.ts";
import { unpackPackages } from "../bed/packages.ts";
import { builtVersion } from "../upstream/programs.ts";
import { hashOfBed } from "./bed-settings.ts";
import { allCases } from "./cases/all.ts";
import {
  HOST_FOLDER,
  HOST_SOCKET,
  IMAGE_BY_DIGEST,
  NODE_NAME,
  type PodCase,
  PRIVATE_REGISTRY,
  REGISTRY,
} from "./cases/pod-case.ts";
import type { KubeletRows } from "./compare.ts";
import { type ConditionSources, readConditionSources } from "./condition-sources.ts";
import type { RecordingIndex } from "./recording-index.ts";
import { hashOfRowSources } from "./row-sources.ts";
import { manifestOf } from "./run-case.ts";

const folder = join(import.meta.dirname, "../golden/kubelet-rows");
const indexFile = "recording.json";

/** A case is recorded in ten runs, of which one may have missed a snapshot. */
export const MINIMUM_RUNS = 9;

/** The rows of one case. A string: all runs show it. An array: the different values; null: a run lacks the field. */
interface RecordedCase {
  /** The hash of the pod and of what is done to it. */
  readonly hash: string;
  /** The number of runs, without those that missed a snapshot. */
  readonly runs: number;
  readonly rows: Readonly<Record<string, string | readonly (string | null)[]>>;
}

/** The kubelet's rows by case name, as recorded. */
export type KubeletRecording = ReadonlyMap<string, KubeletRows>;

export interface RunsOfCase {
  readonly runs: number;
  readonly rows: KubeletRows;
}

/** The kubelet's version, from `1.36.3-etcd-3.6.8`. */
const kubeletVersion = () => builtVersion().split("-etcd-")[0] ?? "";

/** What the machine shows to pods, and the programs and the bed here. Downloads the packages if they are absent. */
export async function currentIndex(): Promise<RecordingIndex> {
  const { versions: packages } = await unpackPackages("bookworm");
  return {
    kubelet: kubeletVersion(),
    bed: hashOfBed(),
    rows: hashOfRowSources(),
    packages,
    cgroup: existsSync("/sys/fs/cgroup/cgroup.controllers") ? "v2" : "v1",
    cpus: availableParallelism(),
    fileSystem: statfsSync(tmpdir()).type,
  };
}

export async function readIndex(): Promise<RecordingIndex> {
  return JSON.parse(await readFile(join(folder, indexFile), "utf8")) as RecordingIndex;
}

/**
 * Reads the recording. Throws an error that names every case whose recording is missing or of another pod, or the
 * other kubelet, or that says that the bed or the code of the rows is another one: `bed` and `rows` are the hashes of the
 * present ones.
 */
export async function readRecording(
  cases: readonly PodCase[],
  { bed = hashOfBed(), rows = hashOfRowSources() }: Partial<Pick<RecordingIndex, "bed" | "rows">> = {},
): Promise<KubeletRecording> {
  const recordedIn = await readIndex();
  if (recordedIn.kubelet !== kubeletVersion())
    throw new Error(`the recording is of kubelet ${recordedIn.kubelet}, not ${kubeletVersion()}: ${howToRecord}`);
  if (recordedIn.bed !== bed)
    throw new Error(`the recording is of a bed with other objects or settings of the kubelet: ${howToRecord}`);
  if (recordedIn.rows !== rows)
    throw new Error(
      `the recording is of other code of the rows: ${howToRecord}; if the rows stay the same, write "rows": "${rows}" into ${indexFile}`,
    );
  const recording = new Map<string, KubeletRows>();
  const stale: string[] = [];
  const sources = readConditionSources();
  for (const podCase of cases) {
    const text = await readFile(pathOf(podCase.name), "utf8").catch(ifAbsent(undefined));
    const recorded = text === undefined ? undefined : (JSON.parse(text) as RecordedCase);
    if (recorded === undefined || !isCurrent(recorded, podCase, sources)) stale.push(podCase.name);
    else recording.set(podCase.name, rowsOf(recorded));
  }
  if (stale.length > 0)
    throw new Error(
      `the kubelet's recording lacks these pods, has others, or too few runs: ${stale.join(", ")}: ${howToRecord}`,
    );
  return recording;
}

const howToRecord = "record the kubelet by npm run differential -- record";

/**
 * Replaces the recording of these cases, and removes that of cases that are no more. Throws an error before it writes
 * if some cases only were recorded on another kind of machine, in another bed, or with another kubelet, than the others.
 */
export async function writeRecording(all: ReadonlyMap<string, RunsOfCase>): Promise<void> {
  const index = await currentIndex();
  if (all.size < allCases.length && !isDeepStrictEqual(await readIndex(), index))
    throw new Error("the other cases were recorded elsewhere: record all");
  const sources = readConditionSources();
  await mkdir(folder, { recursive: true });
  const kept = new Set([indexFile, ...allCases.map(({ name }) => `${name}.json`)]);
  for (const name of await readdir(folder)) if (!kept.has(name)) await rm(join(folder, name));
  for (const podCase of allCases) {
    const seen = all.get(podCase.name);
    if (seen === undefined) continue;
    const fields = [...seen.rows].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const rows = fields.map(([field, values]) => [field, toJson(values)] as const);
    const recorded: RecordedCase = { hash: hashOf(podCase, sources), runs: seen.runs, rows: Object.fromEntries(rows) };
    await writeFile(pathOf(podCase.name), `${JSON.stringify(recorded, null, 1)}\n`);
  }
  await writeFile(join(folder, indexFile), `${JSON.stringify(index, null, 1)}\n`);
}

/**
 * Whether a recording is of this very case, and of enough runs.
 * @internal
 */
export function isCurrent(
  { hash, runs }: Pick<RecordedCase, "hash" | "runs">,
  podCase: PodCase,
  sources: ConditionSources,
): boolean {
  return hash === hashOf(podCase, sources) && runs >= MINIMUM_RUNS;
}

const pathOf = (name: string) => join(folder, `${name}.json`);

function rowsOf({ rows }: RecordedCase): KubeletRows {
  return new Map(
    Object.entries(rows).map(([field, values]) => [
      field,
      typeof values === "string" ? [values] : values.map((value) => value ?? undefined),
    ]),
  );
}

function toJson(values: readonly (string | undefined)[]): string | readonly (string | null)[] {
  const [only] = values;
  return values.length === 1 && only !== undefined ? only : values.map((value) => value ?? null).toSorted();
}

/** A side of no machine: its names are the placeholders, so that a manifest has the same hash everywhere. */
const sideOfHash = {
  registry: REGISTRY,
  privateRegistry: PRIVATE_REGISTRY,
  imageByDigest: IMAGE_BY_DIGEST,
  nodeName: NODE_NAME,
  namespace: "NAMESPACE",
  hostFolder: HOST_FOLDER,
  hostSocket: HOST_SOCKET,
};

/**
 * The hash of everything that shapes a pod's life on a node, and of when its snapshots are taken: the case, its manifest
 * as created, and its conditions with all that they call.
 * @internal
 */
export function hashOf(podCase: PodCase, sources: ConditionSources): string {
  const { until, afterwards, ...rest } = podCase;
  const change = afterwards && { ...afterwards, until: sources.describe(afterwards.until) };
  const manifest = manifestOf(sideOfHash, podCase);
  return createHash("sha256")
    .update(JSON.stringify({ ...rest, until: sources.describe(until), change, manifest }))
    .digest("hex")
    .slice(0, 16);
}
