// By how long the runtime's status lags behind exits on the nodes of scenarios and docs conformance tests.
import { seededRandom } from "../../random.ts";
import type { HarnessOptions } from "./harness-options.ts";

/** Selects the lags, and all else that is random in these tests, such as the calls after which the agent dies. BERTH_SEED repeats it. */
export const seed = Number(process.env["BERTH_SEED"] ?? Math.floor(Math.random() * 1e9));

/** Most statuses lag by less than 100 ms, as those of containerd; on a busy machine it may be more. */
export function exitLags(random: () => number): () => number {
  return () => {
    const kind = random();
    return Math.ceil(random() * (kind < 0.7 ? 100 : kind < 0.95 ? 900 : 3000));
  };
}

let printedFor: string | undefined;

/** Prints the seed once per test file, for the case that a test fails: bun's hooks do not learn whether one has failed. */
function printSeed(): void {
  if (printedFor === Bun.main) return;
  printedFor = Bun.main;
  console.log(`BERTH_SEED=${seed} repeats the lags of exits`);
}

/** The options of a harness with random lags, unless they choose the lags. */
export function withLags(options: HarnessOptions): HarnessOptions {
  if (options.exitLagMs !== undefined || options.hasShortLag === true) return options;
  printSeed();
  return { waitsForExits: true, ...options, exitLagMs: exitLags(seededRandom(seed)) };
}
