/** How a suite ended: on a busy machine, or with a fault that makes a test wait for ever, it may run out of time. */
export type SuiteResult = "passed" | "failed" | "timed out";

/**
 * The first suite that finds the planted fault: it fails, and fails again with the same seed. A failure that does not come
 * twice is the machine's, and so may be a suite that runs out of time. Undefined if no suite finds the fault.
 */
export async function findingSuite(
  suites: readonly string[],
  run: (suite: string) => Promise<SuiteResult>,
): Promise<string | undefined> {
  for (const suite of suites) if ((await run(suite)) === "failed" && (await run(suite)) === "failed") return suite;
  return undefined;
}
