/** How a suite ended: on a busy machine, or with a fault that makes code loop or wait for ever, it may run out of time. */
export type SuiteResult = "passed" | "failed" | "timed out";

/**
 * The first suite that finds the planted fault: with the same seed it fails twice, or runs out of time twice. Without the
 * fault each suite passes in a sixth of its time, so that two such ends are the fault's; one alone may be the machine's.
 * Undefined if no suite finds the fault.
 */
export async function findingSuite(
  suites: readonly string[],
  run: (suite: string) => Promise<SuiteResult>,
): Promise<string | undefined> {
  for (const suite of suites) {
    const result = await run(suite);
    if (result !== "passed" && (await run(suite)) === result) return suite;
  }
  return undefined;
}
