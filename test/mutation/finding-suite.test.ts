import { expect, test } from "bun:test";
import { findingSuite, type SuiteResult } from "./finding-suite.ts";

test.each<
  [what: string, units: readonly SuiteResult[], scenarios: readonly SuiteResult[], foundBy: string | undefined]
>([
  ["a suite that fails twice", ["failed", "failed"], [], "units"],
  ["a later suite that fails twice", ["passed"], ["failed", "failed"], "scenarios"],
  ["no suite if all pass", ["passed"], ["passed"], undefined],
  ["not a suite that fails once", ["failed", "passed"], ["failed", "failed"], "scenarios"],
  ["no suite if each fails once at most", ["passed"], ["failed", "passed"], undefined],
  ["a suite that runs out of time twice", ["timed out", "timed out"], [], "units"],
  ["not a suite that runs out of time once", ["timed out", "passed"], ["failed", "failed"], "scenarios"],
  ["not a suite that fails, and runs out of time when it is repeated", ["failed", "timed out"], ["passed"], undefined],
  ["not a suite that runs out of time, and fails when it is repeated", ["timed out", "failed"], ["passed"], undefined],
])("a fault is found by %s", async (_, units, scenarios, foundBy) => {
  const left: Readonly<Record<string, SuiteResult[]>> = { units: [...units], scenarios: [...scenarios] };
  const run = async (suite: string) => {
    const result = left[suite]?.shift();
    if (result === undefined) throw new Error(`${suite} runs once too often`);
    return result;
  };
  expect(await findingSuite(Object.keys(left), run)).toBe(foundBy);
  expect(left).toEqual({ units: [], scenarios: [] });
});
