import type { Clock } from "../host/clock.ts";
import type { CniVerb } from "./plugin-call.ts";

/** What one call of a network may take of its caller's time, in milliseconds; zero or less if no time is left. */
export interface TimeLimit {
  /** How long a plugin that is called now may run. */
  ofPlugin(verb: CniVerb): number;
  /** How long a call with this verb may still wait for a lock. */
  ofLock(verb: CniVerb): number;
}

/**
 * Each plugin ends at the latest when this part of the caller's time has passed. ADD gets less: if it fails, DEL of each plugin undoes it.
 * The last eighth is for the answer, on a slow machine, too. What the undo does not finish, the caller's own DEL does.
 */
const PART_OF_ADD = 3 / 4;
const PART_OF_OTHERS = 7 / 8;
/** Of that, a wait for a lock: the plugins get the rest, so that the last moment of the wait is none in which they cannot start. */
const PART_OF_LOCK = 2 / 3;
/** Each DEL gets at least this part: a plugin that hangs in the undo must not keep those before it in the list from releasing what they have. */
const LEAST_OF_DEL = 1 / 16;

/**
 * Limits the plugins of one call of a network, so that its caller, who waits for `timeLeftMs` from now, learns which of them hangs.
 * When `signal` aborts, or that time is over, the caller has left: then nothing limits the undo of its ADD.
 */
export function createTimeLimit(
  timeLeftMs: number | undefined,
  { monotonicMs }: Pick<Clock, "monotonicMs">,
  signal: AbortSignal,
): TimeLimit {
  if (timeLeftMs === undefined) return unlimited;
  const startedMs = monotonicMs();
  const passedMs = () => monotonicMs() - startedMs;
  const partOf = (verb: CniVerb) => timeLeftMs * (verb === "ADD" ? PART_OF_ADD : PART_OF_OTHERS);
  const leftMs = (verb: CniVerb) => Math.floor(partOf(verb) - passedMs());
  return {
    ofPlugin(verb) {
      if (verb !== "DEL") return leftMs(verb);
      const hasLeft = signal.aborted || passedMs() >= timeLeftMs;
      return hasLeft ? Number.POSITIVE_INFINITY : Math.max(leftMs(verb), Math.floor(timeLeftMs * LEAST_OF_DEL));
    },
    ofLock: (verb) => Math.floor(partOf(verb) * PART_OF_LOCK - passedMs()),
  };
}

/**
 * Limits a call that is made again and again, such as STATUS and GC, whose caller waits for `timeoutMs` from now. Each plugin gets the same
 * time, so that the failure of one that hangs has the same words each time: they are a condition of the Node, and a line of the log.
 */
export function createRepeatedTimeLimit(
  timeoutMs: number,
  clock: Pick<Clock, "monotonicMs">,
  signal: AbortSignal,
): TimeLimit {
  const { ofLock } = createTimeLimit(timeoutMs, clock, signal);
  return { ofPlugin: () => Math.floor(timeoutMs * PART_OF_OTHERS), ofLock };
}

/** For a caller who waits as long as it takes. */
export const unlimited: TimeLimit = {
  ofPlugin: () => Number.POSITIVE_INFINITY,
  ofLock: () => Number.POSITIVE_INFINITY,
};
