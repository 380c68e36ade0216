import { join } from "node:path";
import { execa } from "execa";
import { unpackSuite } from "../bed/packages.ts";
import { whyUnavailable } from "../upstream/programs.ts";

// Shows what the suite prints as it comes: a table of all that is not the same, whether or not it counts. With BERTH_PODS=a,b only
// these pods are run.
process.chdir(join(import.meta.dirname, "../.."));
const unavailable = await whyUnavailable();
if (unavailable === undefined) {
  for (const suite of ["bookworm", "forky"] as const) await unpackSuite(suite, console.log);
  const { exitCode } = await execa(process.execPath, ["test", "./test/e2e/cluster/differential.test.ts"], {
    stdio: "inherit",
    reject: false,
  });
  process.exitCode = exitCode ?? 1;
} else {
  console.error(`the reference kubelet cannot be had: ${unavailable}`);
  process.exitCode = 1;
}
