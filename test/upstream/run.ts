import { join } from "node:path";
import { execa } from "execa";
import { unpackPackages } from "../bed/packages.ts";
import { unavailableReason } from "./programs.ts";

// Runs one suite on a real cluster with live output: `differential` (BERTH_PODS=a,b selects pods) or `chaos`
// (BERTH_CHAOS=N sets the number of random workloads, BERTH_SEED=N repeats an earlier run).
const suites: Readonly<Record<string, string>> = { differential: "differential.test.ts", chaos: "chaos.ts" };
const suite = suites[process.argv[2] ?? ""];
if (suite === undefined) throw new Error(`name a suite to run: ${Object.keys(suites).join(" or ")}`);
process.chdir(join(import.meta.dirname, "../.."));
const unavailable = await unavailableReason();
if (unavailable === undefined) {
  for (const release of ["bookworm", "forky"] as const) await unpackPackages(release, console.log);
  const { exitCode } = await execa(process.execPath, ["test", `./test/e2e/cluster/${suite}`], {
    stdio: "inherit",
    reject: false,
  });
  process.exitCode = exitCode ?? 1;
} else {
  console.error(`the programs of a cluster are unavailable: ${unavailable}`);
  process.exitCode = 1;
}
