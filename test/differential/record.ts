// Records what the reference kubelet shows of every case, into test/golden/kubelet-rows: five rounds on two nodes, which
// takes some 25 minutes. `bun test/differential/record.ts [ROUNDS]`. BERTH_PODS=a,b records these cases alone.
import { join } from "node:path";
import { allCases } from "./cases/all.ts";
import type { PodCase } from "./cases/pod-case.ts";
import { joinRuns } from "./compare.ts";
import { emptyViewParts, missedSnapshots, type Rows } from "./comparison-rows.ts";
import { startDifferentialBed } from "./differential-bed.ts";
import { MINIMUM_RUNS, type RunsOfCase, writeRecording } from "./kubelet-recording.ts";
import { runOnAllSides } from "./run-cases.ts";

process.chdir(join(import.meta.dirname, "../.."));
const rounds = Number(process.argv[2] ?? 5);
const only = process.env["BERTH_PODS"]?.split(",");
const cases = allCases.filter(({ name }) => only?.includes(name) ?? true);
const seen = new Map<string, Rows[]>(cases.map(({ name }) => [name, []]));
for (let round = 1; round <= rounds; round++) {
  const bed = await startDifferentialBed(["kubelet", "kubelet"], console.log);
  try {
    for (const side of await runOnAllSides(bed, cases)) for (const [name, rows] of side) seen.get(name)?.push(rows);
  } finally {
    await bed.end();
  }
  console.log(`round ${round} of ${rounds}`);
}
const recorded = cases.map((podCase) => [podCase.name, completeRuns(podCase)] as const);
const tooFew = recorded.filter(([, { runs }]) => runs < MINIMUM_RUNS).map(([name]) => name);
await writeRecording(new Map(recorded.filter(([name]) => !tooFew.includes(name))));
if (tooFew.length > 0) throw new Error(`too few runs are complete, record these again: ${tooFew.join(", ")}`);

/** The runs of a case that missed nothing. */
function completeRuns({ name, viewParts = [] }: PodCase): RunsOfCase {
  const all = seen.get(name) ?? [];
  const complete = all.filter(
    (rows) => missedSnapshots(rows).length === 0 && emptyViewParts(viewParts, rows).length === 0,
  );
  if (complete.length < all.length) console.log(`${name}: ${complete.length} of ${all.length} runs are complete`);
  return { runs: complete.length, rows: joinRuns(complete) };
}
