import { join } from "node:path";
import { execa } from "execa";
import { unpackSuite } from "../bed/packages.ts";
import { whyUnavailable } from "./programs.ts";

// Runs one suite on the real parts of a cluster, and shows what it prints as it comes: `differential` (with BERTH_PODS=a,b of these pods
// alone), or `chaos` (with BERTH_CHAOS=N of so many lives, and BERTH_SEED=N as they were another time).
const suites: Readonly<Record<string, string>> = { differential: "differential.test.ts", chaos: "chaos.ts" };
const suite = suites[process.argv[2] ?? ""];
if (suite === undefined) throw new Error(`which suite is to be run: ${Object.keys(suites).join(" or ")}?`);
process.chdir(join(import.meta.dirname, "../.."));
const unavailable = await whyUnavailable();
if (unavailable === undefined) {
  for (const release of ["bookworm", "forky"] as const) await unpackSuite(release, console.log);
  const { exitCode } = await execa(process.execPath, ["test", `./test/e2e/cluster/${suite}`], {
    stdio: "inherit",
    reject: false,
  });
  process.exitCode = exitCode ?? 1;
} else {
  console.error(`the programs of a cluster cannot be had: ${unavailable}`);
  process.exitCode = 1;
}
