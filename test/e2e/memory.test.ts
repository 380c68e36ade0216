import { afterAll, beforeAll, expect, test } from "bun:test";
import { pollUntil } from "../bed/poll-until.ts";
import { memoryOf } from "../bench/process-usage.ts";
import { podOf } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

/** After so many pods the memory is compared with that after `BASE` pods, or with the next size if that is smaller. */
const PODS = Number(process.env["BERTH_MEMORY_PODS"] ?? 400);
const BASE = 200;
const AT_ONCE = 50;
/** After a size that is too large, so often `AT_ONCE` more pods show whether the memory is returned. */
const MORE_ROUNDS = 2;
/** A busy machine takes so long for one pod. */
const SLOW_POD_MS = 4000;

let node: TestNode;
beforeAll(async () => {
  node = await startNode();
}, 600_000);
afterAll(() => node.tearDown(), 60_000);

/** Starts `AT_ONCE` pods that end by themselves, and removes them. */
async function churn(first: number): Promise<void> {
  const names = Array.from({ length: AT_ONCE }, (_, at) => `short-${first + at}`);
  // No network of their own: it costs the runtime most of the time, and the agent nothing.
  const spec = { hostNetwork: true, restartPolicy: "Never" } as const;
  await Promise.all(names.map((name) => node.putManifest(podOf(name, { command: ["true"] }, spec))));
  const limitMs = AT_ONCE * SLOW_POD_MS;
  let others: readonly string[] = [];
  const hasEnded = async () => {
    const pods = await node.pods();
    others = pods
      .filter(({ phase }) => phase !== "Succeeded")
      .map(({ name, phase, reason }) => `${name} ${phase} ${reason}`);
    return pods.length === AT_ONCE && others.length === 0;
  };
  await pollUntil("all pods to end", limitMs, hasEnded, 100).catch((cause: unknown) => {
    throw new Error(`these pods have not succeeded: ${others.join(", ")}`, { cause });
  });
  await Promise.all(names.map((name) => node.removeFile(`${name}.yaml`)));
  await pollUntil("all pods to be gone", limitMs, async () => (await node.pods()).length === 0, 100);
}

/** The agent returns unused memory five seconds after its last action. */
const SETTLED_MS = 7_000;

/** The agent's memory without files, in MB, once it has not shrunk by a hundredth for `SETTLED_MS`. */
async function memoryAtRest(): Promise<number> {
  const read = async () => (await memoryOf(node.agent.pid)).anonymousBytes / 1e6;
  let [least, since] = [await read(), performance.now()];
  const isSettled = async () => {
    const now = await read();
    if (now < least * 0.99) [least, since] = [now, performance.now()];
    return performance.now() - since > SETTLED_MS;
  };
  await pollUntil("the agent to return memory", 60_000, isSettled, 250);
  return least;
}

test(
  `the memory after ${PODS} pods that have come and gone is that after ${BASE}`,
  async () => {
    const sizes: number[] = [];
    for (let pods = AT_ONCE; pods <= PODS; pods += AT_ONCE) {
      await churn(pods);
      if (pods % BASE === 0 || pods === BASE + AT_ONCE) sizes.push(await memoryAtRest());
    }
    console.log(
      `anonymous memory after ${BASE} pods and later, in MB: ${sizes.map((size) => size.toFixed(1)).join(" ")}`,
    );
    const [atBase = 0, soonAfter = 0] = sizes;
    const later = sizes.slice(2).slice(-1);
    // A single base that is large by chance would hide a leak.
    const limit = 1.1 * Math.min(atBase, soonAfter);
    // A collection may come late, so the last size may be large. What is never returned is in those after it, too.
    for (let more = 1; Math.min(...later) > limit && more <= MORE_ROUNDS; more++) {
      await churn(PODS + more * AT_ONCE);
      later.push(await memoryAtRest());
      console.log(`after ${AT_ONCE} more pods: ${later.at(-1)?.toFixed(1)}`);
    }
    expect(Math.min(...later)).toBeLessThanOrEqual(limit);
  },
  (PODS + MORE_ROUNDS * AT_ONCE) * 2 * SLOW_POD_MS,
);
