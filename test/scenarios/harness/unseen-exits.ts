import type { RuntimeChange } from "../../fakes/runtime-events.ts";

/**
 * How long after an exit the agent has seen it in the runtime's status: it reads the status again after times that double
 * up to a second.
 */
export const seenAfterMs = (lagMs: number): number => lagMs + Math.min(lagMs, 1000);

/** How long since `start` the agent has not seen at least one exit in the runtime's status. */
export function unseenMs(timeline: readonly RuntimeChange[], start: number): number {
  let [total, seenUntil] = [0, start];
  for (const { at, lagMs = 0 } of timeline) {
    const seenAt = at + seenAfterMs(lagMs);
    total += Math.max(0, seenAt - Math.max(at, seenUntil));
    seenUntil = Math.max(seenUntil, seenAt);
  }
  return total;
}
