import type { Limit } from "./limits.ts";

/** PID_MAX_LIMIT of a 64-bit kernel, which rejects a larger `pids.max` with EINVAL. */
const MAX_PIDS = 4_194_304;

/** `pids.max` of a limit that 0 or less turns off: that many processes and threads, or `max` where the kernel has no more. */
export function pidsMax(limit: number): Limit {
  return limit > 0 && limit < MAX_PIDS ? limit : "max";
}
