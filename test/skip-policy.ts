import type { Outcome } from "./suite.ts";

type Environment = Readonly<Record<string, string | undefined>>;

/** With `BERTH_WITHOUT_UPSTREAM=1` people without Go leave out all suites that need Kubernetes' own programs. */
export const isWithoutUpstream = (env: Environment): boolean => env["BERTH_WITHOUT_UPSTREAM"] === "1";

/** Whether every test must run: in CI, so that nothing is left out silently, or on demand. */
export const requiresAll = (env: Environment): boolean => env["CI"] === "true" || env["BERTH_REQUIRE_ALL"] === "1";

/**
 * Returns the outcome of a suite with its skips turned into failures where every test must run. Only the suites that
 * need the upstream programs are spared, and only on demand: if the programs cannot be downloaded or built, that is a failure.
 */
export function applySkipPolicy(outcome: Outcome, needsUpstream: boolean, env: Environment): Outcome {
  if (!requiresAll(env) || (needsUpstream && isWithoutUpstream(env))) return outcome;
  const failed = outcome.skipped.map((title) => `${title} (skipped, but every test must run here)`);
  return { ...outcome, failed: [...outcome.failed, ...failed], skipped: [] };
}
