import { setTimeout as pause } from "node:timers/promises";

/**
 * Polls `condition` every `everyMs` until its result is neither false nor undefined, and returns that result. For
 * outside systems that send no event. Throws with `what` in the message after `timeoutMs`.
 */
export async function pollUntil<T>(
  what: string,
  timeoutMs: number,
  condition: () => Promise<T | false | undefined> | T | false | undefined,
  everyMs = 10,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const result = await condition();
    if (result !== false && result !== undefined) return result;
    if (performance.now() > deadline) throw new Error(`gave up after ${timeoutMs} ms waiting for: ${what}`);
    await pause(everyMs);
  }
}
