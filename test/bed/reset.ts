// `npm run reset`: removes what killed runs have left.
import { existsSync } from "node:fs";
import { type BedRecord, isOwnerAlive, listRecords } from "./cleanup/bed-record.ts";
import { describeBedResources, findBedResources } from "./cleanup/bed-resources.ts";
import { cleanUp } from "./cleanup/clean-up.ts";
import { readScriptFlags } from "./script-flags.ts";

const usage = `npm run reset -- [--all]

Removes what killed runs have left on this machine. Their manifests, logs and volumes stay in their folders.

  --all      also end the runs that are in progress
`;

/**
 * Removes every test bed whose owner has died. Prints a line for each bed and one for each kind of resource that was
 * left. Names a bed in use and leaves it alone, unless `all`. Returns the number of beds that could not be removed.
 */
export async function resetBeds(all: boolean, print: (line: string) => void): Promise<number> {
  const beds = await listRecords();
  let failures = 0;
  for (const bed of beds) {
    if (!all && (await isOwnerAlive(bed))) {
      print(`${bed.stateDir}: in use by process ${bed.owner.pid}, left alone (npm run reset -- --all takes it too)`);
      continue;
    }
    try {
      await resetBed(bed, print);
    } catch (error) {
      failures++;
      print(error instanceof Error ? error.message : String(error));
    }
  }
  return failures;
}

async function resetBed(bed: BedRecord, print: (line: string) => void): Promise<void> {
  const found = describeBedResources(await findBedResources(bed));
  await cleanUp(bed);
  print(`${bed.stateDir}: removed ${found.length === 0 ? "its record, nothing else was left" : "what was left of it"}`);
  for (const line of found) print(`  ${line}`);
  if (existsSync(bed.stateDir)) print("  the files in the folder stay: manifests, logs and volumes");
}

async function main(): Promise<number> {
  const flags = readScriptFlags("reset", usage, ["all"]);
  if (typeof flags === "number") return flags;
  if ((await listRecords()).length === 0) console.log("nothing to reset: there is no test bed on this machine");
  return (await resetBeds(flags.has("all"), console.log)) === 0 ? 0 : 1;
}

if (import.meta.main) process.exitCode = await main();
