// Loaded before the suites of a mutation run: all of its fuzz tests have the inputs that BERTH_SEED selects.
import fc from "fast-check";

fc.configureGlobal({ seed: Number(process.env["BERTH_SEED"]) });
