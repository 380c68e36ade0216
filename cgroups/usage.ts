import { statSync } from "node:fs";
import type { CgroupLimits } from "../proto/cgroup/limits.ts";
import type { CgroupStats } from "../proto/cgroup/stats.ts";
import type { Controller, PageSizes, ReadFile } from "./controller.ts";
import { cpu } from "./cpu.ts";
import type { CgroupFiles } from "./files.ts";
import { io } from "./io.ts";
import { memory } from "./memory.ts";
import { pids } from "./pids.ts";
import { readPressure } from "./psi.ts";

/**
 * What is read of a cgroup; each level reads more files than the one before. `resources`: CPU, memory and swap.
 * `cpu-and-memory`: with the pressure of both. `summary`: with that of IO. `all`: every file that cAdvisor reads.
 */
export type UsageDetail = "resources" | "cpu-and-memory" | "summary" | "all";

/** What a cgroup uses, and its limits, as far as they were read. */
export interface CgroupUsage {
  readonly stats: CgroupStats;
  readonly limits: CgroupLimits;
}

/** Reads the figures of cgroups by their paths below the mount point: `/kubepods.slice`; `/` is the root. */
export interface CgroupUsageReader {
  /** Undefined if there is no such cgroup, or it is being removed. Throws `CgroupError` for files that cannot be read. */
  read(path: string, detail: UsageDetail): CgroupUsage | undefined;
  /** The names of the cgroups directly below, sorted; empty if it is absent. */
  below(path: string): readonly string[];
  /** The processes that are in it itself; empty if it is absent. A process of another pid namespace is 0. */
  processes(path: string): readonly number[];
  /** When it was made, in milliseconds since the epoch; undefined if it is absent. */
  madeAtMs(path: string): number | undefined;
}

const RESOURCES = ["cpu.stat", "memory.current", "memory.stat", "memory.max", "memory.swap.current", "memory.swap.max"];
const CPU_AND_MEMORY = [...RESOURCES, "cpu.pressure", "memory.pressure"];
const SUMMARY = [...CPU_AND_MEMORY, "io.pressure"];
const FILES: Readonly<Record<UsageDetail, ReadonlySet<string>>> = {
  resources: new Set(RESOURCES),
  "cpu-and-memory": new Set(CPU_AND_MEMORY),
  summary: new Set(SUMMARY),
  all: new Set([
    ...SUMMARY,
    ...["cpu.weight", "cpu.max", "memory.min", "memory.peak", "memory.events", "pids.current", "pids.max", "io.stat"],
  ]),
};
const controllers: readonly Controller[] = [cpu, memory, pids, io];
/** Huge pages are in no page of stats. */
const NO_SIZES: PageSizes = { pageBytes: 0, hugePageSizes: [] };

/** `root` is where cgroup v2 is mounted. */
export function createCgroupUsageReader(root: string, files: Pick<CgroupFiles, "read" | "folders">): CgroupUsageReader {
  const folderOf = (path: string) => (path === "/" ? root : `${root}${path}`);
  return {
    read(path, detail) {
      const folder = folderOf(path);
      const wanted = FILES[detail];
      const read: ReadFile = (file) => (wanted.has(file) ? files.read(`${folder}/${file}`) : undefined);
      const found = controllers.map((controller) => controller.stats(read, NO_SIZES));
      const stats: CgroupStats = Object.assign({}, ...found, readPressure(read));
      // Every cgroup has `cpu.stat`, also without the controller.
      if (stats.cpu === undefined) return undefined;
      return {
        stats,
        limits: Object.assign({}, ...controllers.map((controller) => controller.limits(read, NO_SIZES))),
      };
    },
    below: (path) => files.folders(folderOf(path)) ?? [],
    processes: (path) =>
      (files.read(`${folderOf(path)}/cgroup.procs`) ?? "")
        .split("\n")
        .filter((line) => line !== "")
        .map(Number),
    madeAtMs: (path) => madeAtMs(folderOf(path)),
  };
}

/**
 * The kernel keeps no time of creation. The folder changes when a cgroup below is made, `cgroup.events` when the last
 * process ends: the earlier of the two counts. Rule: cAdvisor's GetSpec.
 */
function madeAtMs(folder: string): number | undefined {
  const times = [folder, `${folder}/cgroup.events`].flatMap((path) => {
    const found = statSync(path, { throwIfNoEntry: false });
    return found === undefined ? [] : [found.mtimeMs];
  });
  return times.length === 0 ? undefined : Math.min(...times);
}
