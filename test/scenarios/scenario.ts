import { test } from "bun:test";
import { expectEndWithLateExits, type NodeOptions, testDeaths } from "./harness/death-tests.ts";
import { endStateOf } from "./harness/die-anywhere.ts";
import type { HarnessOptions } from "./harness/harness-options.ts";
import { type AgentHarness, createHarness } from "./harness.ts";

/**
 * A sequence of events on a node. It runs once for its log, and once more for every call after which the agent can die.
 */
export interface Scenario {
  readonly options?: HarnessOptions;
  /** Prepares the node before the agent starts. */
  readonly before?: (harness: AgentHarness) => Promise<void> | void;
  /** Runs from the start of the agent until the node is idle. */
  readonly run: (harness: AgentHarness) => Promise<void>;
  /** Why the end depends on the time at which the runtime shows an exit: it is not compared with that of late exits. */
  readonly endDependsOnLag?: string;
}

/**
 * Registers the tests of a scenario: its log compared by `expectLog`, and the same final state on a runtime that shows
 * each exit late, and after a death of the agent behind each call (die anywhere), with one source of the runtime's
 * events. DIE_EVERY=n tries only every n-th call, DIE_AT=n only that one with both sources, DIE_BOTH=1 all with both.
 */
export function scenario(
  name: string,
  { options, before, run, endDependsOnLag }: Scenario,
  expectLog: (log: string) => void,
): void {
  const create = (node: NodeOptions) => createHarness({ ...options, ...node });
  const startAndRun = async (harness: AgentHarness) => {
    await before?.(harness);
    await harness.start();
    await run(harness);
  };
  test(name, async () => {
    // A short lag, since the log has the times of a runtime that shows exits at once.
    const harness = await createHarness({ hasShortLag: true, ...options });
    await startAndRun(harness);
    expectLog(harness.takeLog());
    if (endDependsOnLag === undefined)
      await expectEndWithLateExits(await endStateOf(harness), { create, run: startAndRun, endOf: endStateOf });
  });

  // The quick check sets DIE_EVERY; a run of this file alone tries all deaths.
  testDeaths({ name, create, run: startAndRun, endOf: endStateOf });
}

/** The lines of a log that match; used where the other lines are the same as in other scenarios. */
export function filterLines(log: string, pattern: RegExp): string {
  const lines = log.split("\n");
  return lines.filter((line) => pattern.test(line)).join("\n");
}

/** The lines of a log after the start of its first pod, which is the same in most scenarios (`start.test.ts` has it). */
export function withoutStart(log: string): string {
  const lines = log.split("\n");
  const ready = lines.findIndex((line) => /^\d+s report \S+ Running, ready: /.test(line));
  if (ready === -1) throw new Error(`no pod becomes ready:\n${log}`);
  return lines.slice(ready + 1).join("\n");
}
