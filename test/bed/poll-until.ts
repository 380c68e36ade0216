import { setTimeout as pause } from "node:timers/promises";

/**
 * Asks `condition` again and again until its answer is neither false nor undefined, and returns that answer. For outside
 * things that send no event, `everyMs` apart. Throws with `what` in the message once `timeoutMs` have passed.
 */
export async function until<T>(
  what: string,
  timeoutMs: number,
  condition: () => Promise<T | false | undefined> | T | false | undefined,
  everyMs = 10,
): Promise<T> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const answer = await condition();
    if (answer !== false && answer !== undefined) return answer;
    if (performance.now() > deadline) throw new Error(`gave up after ${timeoutMs} ms waiting for: ${what}`);
    await pause(everyMs);
  }
}
