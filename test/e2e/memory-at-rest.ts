import { expect } from "bun:test";
import { pollUntil } from "../bed/poll-until.ts";
import { memoryOf } from "../bench/process-usage.ts";

/** The agent returns unused memory five seconds after its last action. */
const SETTLED_MS = 7_000;
/** After a size that is too large, so many more rounds show whether the memory is returned. */
export const MORE_ROUNDS = 2;

/** The anonymous memory of a process, in MB, once it has not shrunk by a hundredth for `SETTLED_MS`. */
export async function memoryAtRest(pid: number): Promise<number> {
  const read = async () => (await memoryOf(pid)).anonymousBytes / 1e6;
  let [least, since] = [await read(), performance.now()];
  const isSettled = async () => {
    const now = await read();
    if (now < least * 0.99) [least, since] = [now, performance.now()];
    return performance.now() - since > SETTLED_MS;
  };
  await pollUntil("the agent to return memory", 60_000, isSettled, 250);
  return least;
}

export interface MemoryComparison {
  /** The memory after so many pods is compared with that after `base` pods, or with the next size if that is smaller. */
  readonly pods: number;
  readonly base: number;
  /** The pods of a round. */
  readonly atOnce: number;
  /** Reads the agent's anonymous memory, in MB, once it is at rest. */
  readonly read: () => Promise<number>;
  /** Starts the `atOnce` pods of the round that begins with the pod `first`, and removes them. */
  churn(first: number): Promise<void>;
}

/** Expects that the agent's anonymous memory after `pods` pods is at most 1.1 × that after `base`. */
export async function expectSameMemory({ pods, base, atOnce, read, churn }: MemoryComparison): Promise<void> {
  const sizes: number[] = [];
  for (let first = atOnce; first <= pods; first += atOnce) {
    await churn(first);
    if (first % base === 0 || first === base + atOnce) sizes.push(await read());
  }
  const printed = sizes.map((size) => size.toFixed(1)).join(" ");
  console.log(`anonymous memory after ${base} pods and later, in MB: ${printed}`);
  const [atBase = 0, soonAfter = 0] = sizes;
  const later = sizes.slice(2).slice(-1);
  // A single base that is large by chance would hide a leak.
  const limit = 1.1 * Math.min(atBase, soonAfter);
  // A collection may come late, so the last size may be large. What is never returned is in those after it, too.
  for (let more = 1; Math.min(...later) > limit && more <= MORE_ROUNDS; more++) {
    await churn(pods + more * atOnce);
    later.push(await read());
    console.log(`after ${atOnce} more pods: ${later.at(-1)?.toFixed(1)}`);
  }
  expect(Math.min(...later)).toBeLessThanOrEqual(limit);
}
