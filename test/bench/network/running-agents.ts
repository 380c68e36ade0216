import { setTimeout as pause } from "node:timers/promises";
import type { ComparedNode } from "../cluster/compared-node.ts";

/** Lets some of the agents run and stops the others by SIGSTOP, so that an idle agent takes no CPU from the measured one. */
export interface RunningAgents<Side extends string> {
  /** Resolves `settledMs` after the last change: an agent that goes on first does what it has missed, such as its lease. */
  only(sides: readonly Side[], settledMs?: number): Promise<void>;
  /** Lets all go on, which a stopped agent needs to end by SIGTERM. */
  all(): void;
}

/** The time of an agent that was stopped for seconds. */
const SETTLED_MS = 200;

/** `signal` is `process.kill`. All agents run at first. */
export function createRunningAgents<Side extends string>(
  nodes: Readonly<Record<Side, Pick<ComparedNode, "pid">>>,
  signal: (pid: number, signal: "SIGSTOP" | "SIGCONT") => void,
): RunningAgents<Side> {
  const sides = Object.keys(nodes) as Side[];
  const stopped = new Set<Side>();
  function setRunning(side: Side, isRunning: boolean): void {
    if (isRunning !== stopped.has(side)) return;
    signal(nodes[side].pid, isRunning ? "SIGCONT" : "SIGSTOP");
    if (isRunning) stopped.delete(side);
    else stopped.add(side);
  }
  return {
    async only(running, settledMs = SETTLED_MS) {
      for (const side of sides) setRunning(side, running.includes(side));
      await pause(settledMs);
    },
    all() {
      for (const side of sides) setRunning(side, true);
    },
  };
}
