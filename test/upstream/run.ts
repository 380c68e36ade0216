import { join } from "node:path";
import { execa } from "execa";
import { unpackPackages } from "../bed/packages.ts";
import { ensurePrograms, unavailableReason } from "./programs.ts";

// Runs one suite on a real cluster with live output: `differential` (BERTH_PODS=a,b selects pods; `record` as the next
// argument records the kubelet again, `record metrics` the names of its metrics) or `chaos` (BERTH_CHAOS=N sets the number of random workloads, BERTH_SEED=N
// repeats an earlier run).
const differential = ["test", "./test/e2e/cluster/differential.test.ts"];
const commands: Readonly<Record<string, readonly string[]>> = {
  differential,
  "differential record": ["test/differential/record.ts"],
  "differential record metrics": ["test/differential/metrics/record-metrics.ts"],
  chaos: ["test", "./test/e2e/cluster/chaos.ts"],
};
const args = process.argv.slice(2);
/** Options of `bun test`, such as its report. */
const options = args.filter((arg) => arg.startsWith("--"));
const name = args.filter((arg) => !arg.startsWith("--")).join(" ");
const command = commands[name];
if (command === undefined) throw new Error(`name a suite to run: ${Object.keys(commands).join(", ")}`);
process.chdir(join(import.meta.dirname, "../.."));
const unavailable = await unavailableReason();
if (unavailable === undefined) {
  for (const release of ["bookworm", "forky"] as const) await unpackPackages(release, console.log);
  // The suite's own time limit does not include the build, which takes long on a busy machine.
  await ensurePrograms(undefined, console.log);
  const { exitCode } = await execa(process.execPath, [...command, ...options], {
    stdio: "inherit",
    reject: false,
    env: { BERTH_LIVE_KUBELETS: "1" },
  });
  process.exitCode = exitCode ?? 1;
} else {
  console.error(`the programs of a cluster are unavailable: ${unavailable}`);
  process.exitCode = 1;
}
