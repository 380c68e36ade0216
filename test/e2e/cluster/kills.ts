import { setTimeout as pause } from "node:timers/promises";
import { startStopwatch } from "../../bed/poll-until.ts";
import { seededRandom } from "../../random.ts";
import type { TestNode } from "../node.ts";

/** A time without agent or runtime, in milliseconds since the epoch. */
export interface Kill {
  readonly what: "agent" | "runtime";
  /** When it was killed. */
  readonly fromMs: number;
  /** When the runtime answered again, or when the next agent was launched. */
  readonly untilMs: number;
}

export interface AgentKills {
  readonly kills: readonly Kill[];
  /** How agents ended that the test had not killed. */
  readonly unexpectedExits: readonly string[];
}

/** Kills the runtime and starts it again after `awayMs`. */
export async function killRuntime({ containerd }: TestNode, awayMs: number): Promise<Kill> {
  const fromMs = Date.now();
  await containerd.kill9();
  await pause(awayMs);
  await containerd.restart();
  return { what: "runtime", fromMs, untilMs: Date.now() };
}

/**
 * Kills each agent after a time, often a very short one, and starts the next one, also after an agent that ended by
 * itself. When `calm` is aborted, the last agent lives on. The time counts as in `pollUntil`: on a busy machine a sandbox takes longer
 * than any life of 4 s, and no agent would ever start a container.
 */
export async function killAgents(
  node: TestNode,
  configuration: Readonly<Record<string, unknown>>,
  seed: number,
  calm: AbortSignal,
): Promise<AgentKills> {
  const random = seededRandom(seed);
  const kills: Kill[] = [];
  const unexpectedExits: string[] = [];
  while (!calm.aborted) {
    const how = await endWithin(node.agent.ended, random() ** 2 * 4_000);
    if (how !== undefined && how !== KILLED_BY_TEST) unexpectedExits.push(how);
    const fromMs = Date.now();
    await node.agent.kill9();
    await pause(random() * 500);
    await node.launchAgent(configuration);
    kills.push({ what: "agent", fromMs, untilMs: Date.now() });
  }
  return { kills, unexpectedExits };
}

/** Resolves with how the agent ended, or with undefined once `lifeMs` have counted. */
async function endWithin(ended: Promise<string>, lifeMs: number): Promise<string | undefined> {
  const countedMs = startStopwatch();
  for (let leftMs = lifeMs; leftMs > 1; leftMs = lifeMs - countedMs()) {
    const how = await Promise.race([ended, pause(leftMs)]);
    if (how !== undefined) return how;
  }
  return undefined;
}

const KILLED_BY_TEST = "was ended by SIGKILL";
