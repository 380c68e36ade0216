import type { Runtime } from "../../cri/runtime.ts";
import type { Files, Space } from "../../host/files.ts";
import type { Log } from "../../host/log.ts";
import type { Proc } from "../../host/proc.ts";
import type { Supplies } from "../decide/observed-node.ts";

export interface SupplySources {
  readonly runtime: Pick<Runtime, "imageFsInfo">;
  readonly proc: Pick<Proc, "memorySupply" | "taskSupply">;
  /** The whole machine. */
  readonly files: Pick<Files, "space">;
  readonly rootDir: string;
  readonly log: Log;
  /** The signals that somebody has set a threshold for: nothing else is measured. */
  readonly signals: ReadonlySet<string>;
}

/** Measures what the node has left. */
export interface SupplyMeter {
  /** Never rejects: what cannot be measured is left out. */
  measure(deadlineMs: number): Promise<Supplies>;
  /** Another runtime may keep its images elsewhere. */
  doubtRuntime(): void;
}

export function createSupplyMeter({ runtime, proc, files, rootDir, log, signals }: SupplySources): SupplyMeter {
  let imageFolder: string | undefined;
  const needs = (...names: readonly string[]) => names.some((name) => signals.has(name));

  async function attempt<T>(what: string, ask: () => Promise<T>): Promise<T | undefined> {
    try {
      return await ask();
    } catch (error) {
      log.debug({ err: error }, `${what} cannot be measured`);
      return undefined;
    }
  }

  async function imageSpace(deadlineMs: number): Promise<Space | undefined> {
    if (imageFolder === undefined) {
      const { imageFilesystems } = await runtime.imageFsInfo({ deadlineMs });
      imageFolder = imageFilesystems[0]?.fsId?.mountpoint;
    }
    return imageFolder === undefined ? undefined : await files.space(imageFolder);
  }

  return {
    async measure(deadlineMs) {
      const hasNodefs = needs("nodefs.available", "nodefs.inodesFree");
      const hasImagefs = needs("imagefs.available", "imagefs.inodesFree");
      const [nodefs, imagefs] = await Promise.all([
        hasNodefs ? attempt("the root directory's file system", () => files.space(rootDir)) : undefined,
        hasImagefs ? attempt("the file system of images", () => imageSpace(deadlineMs)) : undefined,
      ]);
      return {
        "memory.available": needs("memory.available") ? proc.memorySupply() : undefined,
        "pid.available": needs("pid.available") ? proc.taskSupply() : undefined,
        ...spaceSupplies("nodefs", nodefs),
        ...spaceSupplies("imagefs", imagefs),
      };
    },
    doubtRuntime() {
      imageFolder = undefined;
    },
  };
}

function spaceSupplies(name: string, space: Space | undefined): Supplies {
  if (space === undefined) return {};
  const { totalBytes, freeBytes, totalInodes, freeInodes } = space;
  return {
    [`${name}.available`]: { capacity: totalBytes, available: freeBytes },
    // Some file systems make inodes as they go, and have none to count.
    ...(totalInodes > 0 && { [`${name}.inodesFree`]: { capacity: totalInodes, available: freeInodes } }),
  };
}
