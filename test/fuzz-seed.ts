// Loaded before all tests (bunfig.toml): BERTH_SEED selects the inputs of fuzz tests. Without it each run draws others.
import fc from "fast-check";

const seed = process.env["BERTH_SEED"];
if (seed !== undefined) fc.configureGlobal({ seed: Number(seed) });
