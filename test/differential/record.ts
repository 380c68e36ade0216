// Records what the reference kubelet shows of every case, into test/golden/kubelet-rows: five rounds on two nodes, which
// takes some 25 minutes. `bun test/differential/record.ts [ROUNDS]`
import { join } from "node:path";
import { allCases } from "./cases/all.ts";
import type { PodCase } from "./cases/pod-case.ts";
import { joinRuns } from "./compare.ts";
import { emptyViewParts, missedSnapshots, type Rows } from "./comparison-rows.ts";
import { startDifferentialBed } from "./differential-bed.ts";
import { type RunsOfCase, writeRecording } from "./kubelet-recording.ts";
import { runOnAllSides } from "./run-cases.ts";

/** A case needs this many complete runs. */
const MINIMUM_RUNS = 3;

process.chdir(join(import.meta.dirname, "../.."));
const rounds = Number(process.argv[2] ?? 5);
const seen = new Map<string, Rows[]>(allCases.map(({ name }) => [name, []]));
for (let round = 1; round <= rounds; round++) {
  const bed = await startDifferentialBed(["kubelet", "kubelet"], console.log);
  try {
    for (const side of await runOnAllSides(bed, allCases)) for (const [name, rows] of side) seen.get(name)?.push(rows);
  } finally {
    await bed.end();
  }
  console.log(`round ${round} of ${rounds}`);
}
await writeRecording(new Map(allCases.map((podCase) => [podCase.name, completeRuns(podCase)])));

/** The runs of a case that missed nothing. Throws if they are too few. */
function completeRuns({ name, viewParts = [] }: PodCase): RunsOfCase {
  const all = seen.get(name) ?? [];
  const complete = all.filter(
    (rows) => missedSnapshots(rows).length === 0 && emptyViewParts(viewParts, rows).length === 0,
  );
  if (complete.length < Math.min(MINIMUM_RUNS, all.length))
    throw new Error(`${name}: ${complete.length} of ${all.length} runs are complete`);
  if (complete.length < all.length) console.log(`${name}: ${complete.length} of ${all.length} runs are complete`);
  return { runs: complete.length, rows: joinRuns(complete) };
}
