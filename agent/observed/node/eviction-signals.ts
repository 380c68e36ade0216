import type { Runtime } from "../../../cri/runtime.ts";
import { createBell } from "../../../host/async/auto-reset-event.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Files, Space } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log.ts";
import type { Proc } from "../../../host/proc.ts";
import type { Supplies } from "../../decide/node/observed-node.ts";

export interface SupplySources {
  readonly runtime: Pick<Runtime, "imageFsInfo">;
  readonly proc: Pick<Proc, "memorySupply" | "taskSupply">;
  /** The whole machine. */
  readonly files: Pick<Files, "space">;
  readonly rootDir: string;
  readonly clock: Clock;
  readonly log: Log;
  /** The signals that somebody has set a threshold for: nothing else is measured. */
  readonly signals: ReadonlySet<string>;
}

/** Measures what the node has left. */
export interface SupplyMeter {
  /** Each signal by itself: what cannot be measured, or not within so long, is left out. Never rejects. */
  measure(withinMs: number): Promise<Supplies>;
  /** Another runtime may keep its images elsewhere. */
  doubtRuntime(): void;
}

/** A runtime that has not said by then where its images are is asked again. */
const ANSWER_WITHIN_MS = 10_000;

export function createSupplyMeter({ runtime, proc, files, rootDir, clock, log, signals }: SupplySources): SupplyMeter {
  let imageFolder: string | undefined;
  const nodefs = createSlowAnswer(() => attempt("the root directory's file system", () => files.space(rootDir)));
  const imagefs = createSlowAnswer(() => attempt("the file system of images", imageSpace));
  const needs = (...names: readonly string[]) => names.some((name) => signals.has(name));

  async function attempt<T>(what: string, ask: () => Promise<T>): Promise<T | undefined> {
    try {
      return await ask();
    } catch (error) {
      log.debug({ err: error }, `${what} cannot be measured`);
      return undefined;
    }
  }

  async function imageSpace(): Promise<Space | undefined> {
    if (imageFolder === undefined) {
      const { imageFilesystems } = await runtime.imageFsInfo({ deadlineMs: ANSWER_WITHIN_MS });
      imageFolder = imageFilesystems[0]?.fsId?.mountpoint;
    }
    return imageFolder === undefined ? undefined : await files.space(imageFolder);
  }

  return {
    async measure(withinMs) {
      const asked = [
        ...(needs("nodefs.available", "nodefs.inodesFree") ? [nodefs.ask()] : []),
        ...(needs("imagefs.available", "imagefs.inodesFree") ? [imagefs.ask()] : []),
      ];
      await within(clock, withinMs, Promise.all(asked));
      return {
        "memory.available": needs("memory.available") ? proc.memorySupply() : undefined,
        "pid.available": needs("pid.available") ? proc.taskSupply() : undefined,
        ...spaceSupplies("nodefs", nodefs.take()),
        ...spaceSupplies("imagefs", imagefs.take()),
      };
    },
    doubtRuntime() {
      imageFolder = undefined;
    },
  };
}

/**
 * Somebody who may hang. Asked once at a time, so that one who does holds no more than one of our threads; what comes too late for one
 * measurement is there for the next.
 */
function createSlowAnswer<T>(put: () => Promise<T | undefined>) {
  let underWay: Promise<void> | undefined;
  let answer: T | undefined;
  return {
    /** Resolves when there is an answer; never rejects. */
    ask(): Promise<void> {
      underWay ??= put()
        .then((found) => {
          answer = found;
        })
        .finally(() => {
          underWay = undefined;
        });
      return underWay;
    },
    /** What was answered since the last time. */
    take(): T | undefined {
      const found = answer;
      answer = undefined;
      return found;
    },
  };
}

/** Resolves when the work is done, which never rejects, or when it is not in time. */
async function within(clock: Clock, ms: number, work: Promise<unknown>): Promise<void> {
  const patience = new AbortController();
  await Promise.race([work.finally(() => patience.abort()), createBell(clock).wait(clock.now() + ms, patience.signal)]);
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
