// Removes what killed runs have left: bun test/bed/reset.ts [--all]
import { existsSync } from "node:fs";
import { type BedRecord, listRecords, ownerLives } from "./cleanup/bed-record.ts";
import { describeLeftovers, findLeftovers } from "./cleanup/bed-resources.ts";
import { cleanUp } from "./cleanup/clean-up.ts";
import { readSwitches } from "./script-flags.ts";

const usage = `npm run reset -- [--all]

Removes what a run that was killed has left on this machine. Its manifests, logs and volumes stay in its folder.

  --all      end the runs that are under way too
`;

/**
 * Removes every bed whose owner is gone, saying a line each and below it one for each kind of thing that was left. A bed in use
 * is named and left alone, unless `all`. Returns how many beds could not be removed.
 */
export async function resetBeds(all: boolean, say: (line: string) => void): Promise<number> {
  const beds = await listRecords();
  let failures = 0;
  for (const bed of beds) {
    if (!all && (await ownerLives(bed))) {
      say(`${bed.stateDir}: in use by process ${bed.owner.pid}, left alone (npm run reset -- --all takes it too)`);
      continue;
    }
    try {
      await resetBed(bed, say);
    } catch (error) {
      failures++;
      say(error instanceof Error ? error.message : String(error));
    }
  }
  return failures;
}

async function resetBed(bed: BedRecord, say: (line: string) => void): Promise<void> {
  const found = describeLeftovers(await findLeftovers(bed));
  await cleanUp(bed);
  say(`${bed.stateDir}: removed ${found.length === 0 ? "its record, nothing else was left" : "what was left of it"}`);
  for (const line of found) say(`  ${line}`);
  if (existsSync(bed.stateDir)) say("  the files in the folder stay: manifests, logs and volumes");
}

async function main(): Promise<number> {
  const switches = readSwitches("reset", usage, ["all"]);
  if (typeof switches === "number") return switches;
  if ((await listRecords()).length === 0) console.log("nothing to reset: no bed of ours is on this machine");
  return (await resetBeds(switches.has("all"), console.log)) === 0 ? 0 : 1;
}

if (import.meta.main) process.exitCode = await main();
