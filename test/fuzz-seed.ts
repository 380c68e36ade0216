// Loaded before fuzz tests: BERTH_SEED selects their inputs. Without it each run has others.
import fc from "fast-check";

const seed = process.env["BERTH_SEED"];
if (seed !== undefined) fc.configureGlobal({ seed: Number(seed) });
