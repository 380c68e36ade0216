import { aborted } from "../../../host/async/abort.ts";
import { createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import { type NodeCgroup, nodeCgroupKey } from "../../decide/node/cgroup-rule.ts";

export interface NodeCgroupsOptions {
  /** The cgroups above those of pods. */
  readonly cgroups: readonly NodeCgroup[];
  /** The limits of one of them; undefined if it does not exist. Rejects with `CgroupError`. */
  readonly read: (cgroup: NodeCgroup) => Promise<CgroupLimits | undefined>;
  readonly clock: Clock;
  readonly log: Log;
  readonly onChange: () => void;
}

/** Observes the limits of the cgroups above those of pods. */
export interface NodeCgroups {
  /** By `nodeCgroupKey`; undefined until they were read for the first time. */
  now(): ReadonlyMap<string, CgroupLimits> | undefined;
  /** The agent has changed one, or may have. */
  invalidate(): void;
  /** Reads them at once, then after each invalidation and once a minute, until the signal aborts. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
}

/** No event reports that another program writes a limit. The kubelet writes all of them as often. */
const READ_EVERY_MS = 60_000;

export function createNodeCgroups({ cgroups, read, clock, log, onChange }: NodeCgroupsOptions): NodeCgroups {
  const wakeUp = createAutoResetEvent(clock);
  let known: ReadonlyMap<string, CgroupLimits> | undefined;

  async function readAll(): Promise<ReadonlyMap<string, CgroupLimits>> {
    const all = await Promise.all(cgroups.map(async (each) => [nodeCgroupKey(each), await readOne(each)] as const));
    return new Map(all.flatMap(([key, limits]) => (limits === undefined ? [] : [[key, limits] as const])));
  }

  /** Of a cgroup that cannot be read, what was read before counts: the others are kept up all the same. */
  async function readOne(cgroup: NodeCgroup): Promise<CgroupLimits | undefined> {
    try {
      return await read(cgroup);
    } catch (error) {
      const key = nodeCgroupKey(cgroup);
      log.warn({ err: error }, `cannot read the cgroup ${key}; what was read before still counts`);
      return known?.get(key);
    }
  }

  return {
    now: () => known,
    invalidate: wakeUp.set,
    async run(signal) {
      while (!signal.aborted) {
        const before = known;
        // The cgroups are unknown until the container runtime has answered, which may be never.
        const found = await Promise.race([readAll(), aborted(signal)]);
        if (found === undefined) return;
        known = found;
        if (before === undefined || JSON.stringify([...known]) !== JSON.stringify([...before])) onChange();
        await wakeUp.wait(clock.now() + READ_EVERY_MS, signal);
      }
    },
  };
}
