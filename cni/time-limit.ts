import type { Clock } from "../host/clock.ts";
import type { CniVerb } from "./plugin-call.ts";

/** How long a plugin that is called now may run, in milliseconds; zero or less if no time is left. */
export type TimeLeft = (verb: CniVerb) => number;

/**
 * Each plugin ends at the latest when this part of the caller's time has passed. ADD gets less: if it fails, DEL of each plugin undoes it.
 * The last eighth is for the answer, on a slow machine, too. What the undo does not finish, the caller's own DEL does.
 */
const PART_OF_ADD = 3 / 4;
const PART_OF_OTHERS = 7 / 8;
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
): TimeLeft {
  if (timeLeftMs === undefined) return unlimited;
  const startedMs = monotonicMs();
  return (verb) => {
    const passedMs = monotonicMs() - startedMs;
    const hasLeft = signal.aborted || passedMs >= timeLeftMs;
    if (hasLeft && verb === "DEL") return Number.POSITIVE_INFINITY;
    const leftMs = timeLeftMs * (verb === "ADD" ? PART_OF_ADD : PART_OF_OTHERS) - passedMs;
    return Math.floor(verb === "DEL" ? Math.max(leftMs, timeLeftMs * LEAST_OF_DEL) : leftMs);
  };
}

/** For a caller who waits as long as it takes. */
export const unlimited: TimeLeft = () => Number.POSITIVE_INFINITY;
