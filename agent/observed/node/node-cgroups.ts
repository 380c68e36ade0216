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
    const all = await Promise.all(cgroups.map(async (each) => [nodeCgroupKey(each), await read(each)] as const));
    return new Map(all.flatMap(([key, limits]) => (limits === undefined ? [] : [[key, limits] as const])));
  }

  return {
    now: () => known,
    invalidate: wakeUp.set,
    async run(signal) {
      while (!signal.aborted) {
        try {
          const before = known;
          known = await readAll();
          if (before === undefined || JSON.stringify([...known]) !== JSON.stringify([...before])) onChange();
        } catch (error) {
          log.warn({ err: error }, "cannot read the cgroups of the node; what was read before still counts");
        }
        await wakeUp.wait(clock.now() + READ_EVERY_MS, signal);
      }
    },
  };
}
