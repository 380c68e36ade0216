import { createHash } from "node:crypto";
import { existsSync, statfsSync } from "node:fs";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";
import { ifAbsent } from "../bed/if-absent.ts";
import { builtVersion } from "../upstream/programs.ts";
import { allCases } from "./cases/all.ts";
import type { PodCase } from "./cases/pod-case.ts";
import type { KubeletRows } from "./compare.ts";

const folder = join(import.meta.dirname, "../golden/kubelet-rows");
const indexFile = "recording.json";

/** What was recorded, and on which kind of machine: some rows show its cgroup version, CPUs and file system. */
export interface RecordingIndex {
  /** The kubelet's version. */
  readonly kubelet: string;
  readonly cgroup: "v1" | "v2";
  readonly cpus: number;
  /** The type of the file system of temporary files, as of statfs(2). */
  readonly fileSystem: number;
}

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

/** What the machine shows to pods, and the kubelet that is built here. */
export function currentIndex(): RecordingIndex {
  const cgroup = existsSync("/sys/fs/cgroup/cgroup.controllers") ? "v2" : "v1";
  return { kubelet: kubeletVersion(), cgroup, cpus: availableParallelism(), fileSystem: statfsSync(tmpdir()).type };
}

export async function readIndex(): Promise<RecordingIndex> {
  return JSON.parse(await readFile(join(folder, indexFile), "utf8")) as RecordingIndex;
}

/**
 * Reads the recording. Throws an error that names every case whose recording is missing or of another pod, or the
 * other kubelet.
 */
export async function readRecording(cases: readonly PodCase[]): Promise<KubeletRecording> {
  const { kubelet } = await readIndex();
  if (kubelet !== kubeletVersion())
    throw new Error(`the recording is of kubelet ${kubelet}, not ${kubeletVersion()}: ${howToRecord}`);
  const recording = new Map<string, KubeletRows>();
  const stale: string[] = [];
  for (const podCase of cases) {
    const text = await readFile(pathOf(podCase.name), "utf8").catch(ifAbsent(undefined));
    const recorded = text === undefined ? undefined : (JSON.parse(text) as RecordedCase);
    if (recorded?.hash !== hashOf(podCase)) stale.push(podCase.name);
    else recording.set(podCase.name, rowsOf(recorded));
  }
  if (stale.length > 0)
    throw new Error(`the kubelet's recording lacks these pods, or has others: ${stale.join(", ")}: ${howToRecord}`);
  return recording;
}

const howToRecord = "record the kubelet by npm run differential -- record";

/** Replaces the recording. */
export async function writeRecording(all: ReadonlyMap<string, RunsOfCase>): Promise<void> {
  await mkdir(folder, { recursive: true });
  for (const name of await readdir(folder)) await rm(join(folder, name));
  for (const podCase of allCases) {
    const seen = all.get(podCase.name);
    if (seen === undefined) throw new Error(`no run of ${podCase.name}`);
    const fields = [...seen.rows].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const rows = fields.map(([field, values]) => [field, toJson(values)] as const);
    const recorded: RecordedCase = { hash: hashOf(podCase), runs: seen.runs, rows: Object.fromEntries(rows) };
    await writeFile(pathOf(podCase.name), `${JSON.stringify(recorded, null, 1)}\n`);
  }
  await writeFile(join(folder, indexFile), `${JSON.stringify(currentIndex())}\n`);
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

/** The hash of everything that shapes a pod's life on a node. The conditions to wait for are functions and not in it. */
function hashOf({ until: _, afterwards, ...podCase }: PodCase): string {
  const change = afterwards && { kind: afterwards.kind, debug: afterwards.debug };
  return createHash("sha256")
    .update(JSON.stringify({ ...podCase, change }))
    .digest("hex")
    .slice(0, 16);
}
