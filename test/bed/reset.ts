import { cleanUp } from "./clean-up.ts";
import { describeLeftovers, findLeftovers } from "./leftovers.ts";
import { listRecords, ownerLives } from "./record.ts";

/**
 * Removes every bed whose owner is gone, saying one line each. A bed in use is named and left alone, unless `all`.
 * Returns how many beds could not be removed.
 */
export async function resetBeds(all: boolean, say: (line: string) => void): Promise<number> {
  const beds = await listRecords();
  let failures = 0;
  for (const bed of beds) {
    if (!all && (await ownerLives(bed))) {
      say(`${bed.stateDir}: in use by process ${bed.owner.pid}, left alone (npm run reset -- --all takes it too)`);
      continue;
    }
    const found = describeLeftovers(await findLeftovers(bed));
    try {
      await cleanUp(bed);
      say(`${bed.stateDir}: removed ${found.length === 0 ? "its record, nothing else was left" : found.join("; ")}`);
    } catch (error) {
      failures++;
      say(error instanceof Error ? error.message : String(error));
    }
  }
  return failures;
}

if (import.meta.main) {
  if ((await listRecords()).length === 0) console.log("nothing to reset: no bed of ours is on this machine");
  process.exitCode = (await resetBeds(process.argv.includes("--all"), console.log)) === 0 ? 0 : 1;
}
