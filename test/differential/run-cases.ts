import { createSemaphore } from "../../host/async/semaphore.ts";
import { type CreatedIds, readCreatedIds } from "../e2e/create-attempts.ts";
import type { PodCase } from "./cases/pod-case.ts";
import type { Rows } from "./comparison-rows.ts";
import type { DifferentialBed, Side } from "./differential-bed.ts";
import { watchPods } from "./pod-watch.ts";
import { runCase } from "./run-case.ts";

/**
 * The number of cases that run on a node at once, so that the slow ones wait in parallel: as many as the machine bears. A node
 * beside others has sixteen, one that is alone has thirty-two.
 */
const atOnceBeside = (sides: number): number => (sides === 1 ? 32 : 16);

/**
 * The number of pods that wait for their sandbox on a node at once. With more, a pod may wait for the others longer than
 * its deadline or its first back-off lasts, so that the row shows a later part of its life than the kubelet's row: Berth
 * pulls an image beside the sandbox, and starts two pods at a time for each CPU.
 */
const SANDBOXES_AT_ONCE = 2;

/**
 * Runs the cases on each side of the bed at the same time. Removes the events of an earlier run first. Returns the rows
 * of each side by case name, in the order of the sides.
 */
export async function runOnAllSides(
  bed: DifferentialBed,
  selected: readonly PodCase[],
): Promise<readonly ReadonlyMap<string, Rows>[]> {
  if (selected.length === 0) return bed.sides.map(() => new Map());
  // One request: `kubectl delete --all` sends one for each of some thousand events.
  for (const { namespace } of bed.sides)
    await bed.plane.kubectl(["delete", `--raw=/api/v1/namespaces/${namespace}/events`]);
  const pending = await Promise.all(bed.sides.map((side) => runAll(bed, side, selected)));
  return await Promise.all(
    pending.map(async (rowsOf, index) => {
      const created = readCreatedIds((await bed.sides[index]?.readRuntimeLog()) ?? "");
      return new Map([...rowsOf].map(([name, rows]) => [name, rows(created)]));
    }),
  );
}

/** Runs the cases on one side, several at a time. */
async function runAll(
  bed: DifferentialBed,
  side: Side,
  selected: readonly PodCase[],
): Promise<ReadonlyMap<string, (created: CreatedIds) => Rows>> {
  const stopping = new AbortController();
  const sandboxSlots = createSemaphore({ permits: SANDBOXES_AT_ONCE });
  const acquireSandboxSlot = () => sandboxSlots.acquire(stopping.signal);
  const run = { bed, side, watched: await watchPods(bed.kube, side, stopping.signal), acquireSandboxSlot };
  const rows = new Map<string, (created: CreatedIds) => Rows>();
  const waiting = [...selected];
  const queue = async () => {
    for (let podCase = waiting.shift(); podCase !== undefined; podCase = waiting.shift())
      rows.set(podCase.name, await runCase(run, podCase));
  };
  await Promise.all(Array.from({ length: atOnceBeside(bed.sides.length) }, queue));
  stopping.abort();
  return rows;
}
