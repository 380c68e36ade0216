import type { Outcome } from "./suite.ts";

/** The line for a finished suite. */
export function outcomeLine({ name, durationMs, passed, failed, skipped }: Outcome): string {
  const verdict = failed.length > 0 ? "FAILED" : passed === 0 ? "skipped" : "ok";
  const counts = [`${passed} passed`, ...count(failed, "failed"), ...count(skipped, "skipped")].join(", ");
  return `${name.padEnd(32)} ${verdict.padEnd(8)} ${seconds(durationMs).padStart(8)}   ${counts}`;
}

/** The last line of the output, which CI parses. */
export function closingLine(outcomes: readonly Outcome[]): string {
  const passed = outcomes.reduce((sum, one) => sum + one.passed, 0);
  const failed = outcomes.flatMap((one) => one.failed);
  const skipped = outcomes.flatMap((one) => one.skipped);
  return [`${passed} passed, ${failed.length} failed`, ...count(skipped, "skipped")].join(", ");
}

/** Turns skips into failures, for runs that must execute everything. */
export function withoutSkips(outcome: Outcome): Outcome {
  const failed = outcome.skipped.map((title) => `${title} (skipped, but every test must run here)`);
  return { ...outcome, failed: [...outcome.failed, ...failed], skipped: [] };
}

export const seconds = (durationMs: number) => `${(durationMs / 1000).toFixed(1)} s`;

const count = (things: readonly string[], word: string) => (things.length === 0 ? [] : [`${things.length} ${word}`]);
