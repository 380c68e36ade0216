/** A step back of a pod's status in the API that is right in one scenario. */
export interface ExpectedRegression {
  readonly pod: string;
  /** The container or the condition; left out if the rule is about the whole pod. */
  readonly label?: string;
  /** The name of the rule in `test/status-regressions.ts`: `readiness`, `end`. */
  readonly rule: string;
  /** Why the kubelet's status steps back here, too: one sentence. */
  readonly why: string;
}

/** The rule that a sentence of `statusRegressions` is about, with its pod: `web: a: readiness`. */
export const ruleOf = (regression: string): string => regression.split(" regressed: ")[0] ?? "";

/**
 * Takes the regressions of a run and those that its scenario names. Returns a line for each that is not named, and for
 * each name whose regression the run has not shown: it is stale, and would hide a later fault.
 */
export function regressionProblems(
  regressions: readonly string[],
  expected: readonly ExpectedRegression[],
): readonly string[] {
  const nameOf = ({ pod, label, rule }: ExpectedRegression) =>
    [pod, label, rule].filter((part) => part !== undefined).join(": ");
  const named = new Set(expected.map(nameOf));
  const shown = new Set(regressions.map(ruleOf));
  return [
    ...regressions.filter((line) => !named.has(ruleOf(line))),
    ...[...named].filter((name) => !shown.has(name)).map((name) => `${name} is expected to regress, and did not`),
  ];
}
