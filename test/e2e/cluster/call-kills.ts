import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";
import { pollUntil } from "../../bed/poll-until.ts";
import type { TestNode } from "../node.ts";
import { type CallClass, followRuntimeCalls, type RuntimeCalls } from "../runtime-calls.ts";
import { type AgentKills, type Kill, killAgents, killRuntime } from "./kills.ts";

const AWAY_MS = 700;
/** The runtime is killed at a random moment within this time after a call was seen. Longer calls are met in their midst. */
const WITHIN_MS: Readonly<Record<CallClass, number>> = {
  sandbox: 60,
  create: 20,
  start: 30,
  pull: 700,
  stop: 400,
};
export const CALL_CLASSES = Object.keys(WITHIN_MS) as readonly CallClass[];
const GIVE_UP_MS = 60_000;

/**
 * Kills agents and the runtime at random moments, for at least `forMs` and until the runtime was killed during a
 * call of each class. Both run when it returns.
 */
export async function killDuringCalls(node: TestNode, random: () => number, forMs: number): Promise<AgentKills> {
  const calm = new AbortController();
  // With a random sequence of its own, so that it does not change the sequence of the others.
  const restarting = killAgents(node, {}, random() * 1e9, calm.signal);
  try {
    const runtimeKills = await killRuntimes(node, random, forMs);
    calm.abort();
    const { kills, unexpectedExits } = await restarting;
    return { kills: [...runtimeKills, ...kills], unexpectedExits };
  } finally {
    calm.abort();
    await restarting;
  }
}

async function killRuntimes(node: TestNode, random: () => number, forMs: number): Promise<readonly Kill[]> {
  const calls = followRuntimeCalls(node.containerd.logFile);
  const missing = new Set(CALL_CLASSES);
  const kills: Kill[] = [];
  const began = performance.now();
  let randomKillAt = began + (random() * forMs) / 2;
  while (missing.size > 0 || performance.now() < began + forMs) {
    if (performance.now() > began + GIVE_UP_MS)
      throw new Error(`the runtime could not be killed during calls of these classes: ${[...missing].join(", ")}`);
    const { inFlight } = await calls();
    const wanted = inFlight.map((call) => call.class).find((callClass) => missing.has(callClass));
    if (wanted !== undefined) {
      await pause(random() * WITHIN_MS[wanted]);
      const kill = await killRuntimeDuring(node, wanted, calls, random() * AWAY_MS);
      if (kill === undefined) continue;
      kills.push(kill);
      missing.delete(wanted);
    } else if (performance.now() > randomKillAt) {
      kills.push(await killRuntime(node, random() * AWAY_MS));
      randomKillAt = performance.now() + random() * forMs;
    } else await pause(2);
  }
  return kills;
}

/**
 * Kills the runtime during a call of one of the `missing` classes, and removes the class from them. If none is in flight within
 * `waitMs`, kills the runtime then.
 */
export async function killRuntimeDuringOneOf(
  node: TestNode,
  missing: Set<CallClass>,
  random: () => number,
  { waitMs, awayMs }: { readonly waitMs: number; readonly awayMs: number },
): Promise<Kill> {
  const calls = followRuntimeCalls(node.containerd.logFile);
  const end = performance.now() + waitMs;
  while (missing.size > 0 && performance.now() < end) {
    const { inFlight } = await calls();
    const wanted = inFlight.map((call) => call.class).find((callClass) => missing.has(callClass));
    if (wanted === undefined) {
      await pause(2);
      continue;
    }
    await pause(random() * WITHIN_MS[wanted]);
    const kill = await killRuntimeDuring(node, wanted, calls, awayMs);
    if (kill === undefined) continue;
    missing.delete(wanted);
    return kill;
  }
  return await killRuntime(node, awayMs);
}

/**
 * Kills the runtime if a call of `callClass` is in flight, else returns undefined. The runtime is stopped meanwhile, so
 * that no call can return between the look at it and the kill.
 */
async function killRuntimeDuring(
  node: TestNode,
  callClass: CallClass,
  calls: () => Promise<RuntimeCalls>,
  awayMs: number,
): Promise<Kill | undefined> {
  const { pid } = node.containerd;
  let isKilled = false;
  process.kill(pid, "SIGSTOP");
  try {
    await pollUntil("the runtime to stop", 5_000, async () =>
      (await readFile(`/proc/${pid}/status`, "utf8")).includes("\nState:\tT"),
    );
    const { inFlight } = await calls();
    isKilled = inFlight.some((call) => call.class === callClass);
  } finally {
    if (!isKilled) process.kill(pid, "SIGCONT");
  }
  return isKilled ? await killRuntime(node, awayMs) : undefined;
}
