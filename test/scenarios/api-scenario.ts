import { test } from "bun:test";
import { expectEndWithLateExits, type NodeOptions, testDeaths } from "./harness/death-tests.ts";
import { endStateOf } from "./harness/die-anywhere.ts";
import type { HarnessOptions } from "./harness/harness-options.ts";
import { type AgentHarness, createHarness } from "./harness.ts";

export const inCluster = { isInCluster: true } as const;

/** The final state of a scenario: the node, and the pods in the API. */
export interface FinalState {
  readonly node: readonly string[];
  readonly api: readonly string[];
}

/** Creates a node in a cluster. */
export const createInCluster = (node: HarnessOptions = {}): Promise<AgentHarness> =>
  createHarness({ ...inCluster, ...node });

/** Starts an agent on a node in a cluster, and runs the events of a scenario. */
export async function runInCluster(
  run: (harness: AgentHarness) => Promise<void>,
  node: HarnessOptions = {},
): Promise<AgentHarness> {
  const harness = await createInCluster(node);
  await harness.start();
  await run(harness);
  return harness;
}

export const finalStateOf = async (harness: AgentHarness): Promise<FinalState> => ({
  node: harness.nodeSnapshot(),
  api: await harness.apiPods(),
});

/** The names of the pods that have a container in the runtime, sorted. */
export const podsWithContainers = async ({ runtime }: AgentHarness): Promise<readonly string[]> =>
  [...new Set([...runtime.containers.values()].map(({ sandbox }) => sandbox.config.metadata?.name ?? ""))].toSorted();

/**
 * Registers the tests of a scenario: the final state, and the same one on a runtime that shows each exit late, and after
 * a death of the agent behind each call (die anywhere), with one source of the runtime's events. Scenarios that are much
 * alike try only every `stride`-th call, and the quick check even fewer (DIE_EVERY); the seed selects the first one and
 * the source, so that repeated runs cover all calls. DIE_AT=n tries only that call, with both sources; DIE_BOTH=1 all.
 * `node`: what is special about the node.
 */
export function apiScenario(
  name: string,
  run: (harness: AgentHarness) => Promise<void>,
  check: (end: FinalState, harness: AgentHarness) => Promise<void>,
  { stride = 1, offset = 0, node = {} }: ApiScenarioOptions = {},
): void {
  const startAndRun = async (harness: AgentHarness) => {
    await harness.start();
    await run(harness);
  };
  test(name, async () => {
    // A short lag, since the end is compared with that of late exits.
    const harness = await runInCluster(run, { hasShortLag: true, ...node });
    const end = await endStateOf(harness);
    await check(await finalStateOf(harness), harness);
    await expectEndWithLateExits(end, { create, run: startAndRun, endOf: endStateOf });
  });
  const create = (options: NodeOptions) => createInCluster({ ...node, ...options });
  testDeaths({ name, create, run: startAndRun, endOf: endStateOf, stride, offset });
}

interface ApiScenarioOptions {
  readonly stride?: number;
  readonly offset?: number;
  readonly node?: HarnessOptions;
}
