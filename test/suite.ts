import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { ownProcessGroup } from "./bed/cleanup/processes.ts";
import { ifAbsent } from "./bed/if-absent.ts";
import type { Interruption } from "./interruption.ts";
import { readJunit } from "./junit.ts";

/** A program that passes or fails by its exit code, or a set of test files. */
export interface Suite {
  readonly name: string;
  readonly argv: readonly string[];
  /** Whether it is a `bun test` with a JUnit report; otherwise it counts as one test. */
  readonly hasReport: boolean;
  readonly env?: Readonly<Record<string, string>>;
  readonly timeoutMs: number;
  /** Whether it passes without a test, which is a failure otherwise. */
  readonly mayBeEmpty?: boolean;
  /** Why it cannot run here; then it counts as one skip. */
  readonly unavailable?: string | undefined;
}

export interface Outcome {
  readonly name: string;
  readonly durationMs: number;
  readonly passed: number;
  readonly failed: readonly string[];
  readonly skipped: readonly string[];
  /** The file with its output. */
  readonly log: string;
}

/**
 * Runs one suite, writes its output to a file in `reports`, and counts its tests. Does not reject if the suite fails.
 */
export async function runSuite(suite: Suite, reports: string, interruption?: Interruption): Promise<Outcome> {
  const { name } = suite;
  const fileName = name.replaceAll(/[^a-z0-9.]+/gi, "-");
  const log = join(reports, `${fileName}.log`);
  if (suite.unavailable !== undefined)
    return { name, durationMs: 0, passed: 0, failed: [], skipped: [`${name}: ${suite.unavailable}`], log };
  const started = performance.now();
  const report = join(reports, `${fileName}.xml`);
  const [program = "", ...args] = suite.argv;
  const reporting = suite.hasReport ? ["--reporter=junit", `--reporter-outfile=${report}`] : [];
  const running = execa(program, [...args, ...reporting], {
    // A Ctrl-C in the terminal reaches this process alone, which then ends the suite with all that it has started.
    ...(interruption !== undefined && ownProcessGroup),
    all: true,
    buffer: false,
    stdin: "ignore",
    stdout: { file: log },
    stderr: { file: log },
    reject: false,
    timeout: suite.timeoutMs,
    env: { NO_COLOR: "1", ...suite.env },
  });
  const result = await (interruption?.guard(name, running.pid, running) ?? running);
  const durationMs = performance.now() - started;
  const problem = result.timedOut ? `ran longer than ${suite.timeoutMs / 1000} s` : result.originalMessage;
  const failure = result.failed ? (problem ?? `ended with ${result.signal ?? `code ${result.exitCode}`}`) : undefined;
  if (!suite.hasReport) {
    const failed = failure === undefined ? [] : [`${name} ${failure}`];
    return { name, durationMs, passed: 1 - failed.length, failed, skipped: [], log };
  }
  const counts = readJunit(await readFile(report, "utf8").catch(ifAbsent("")));
  const strays = strayFailures(await readFile(log, "utf8"), failure, counts.failed.length);
  const empty = counts.passed + counts.failed.length + counts.skipped.length + strays.length === 0;
  const failed = [...counts.failed, ...strays, ...(empty && suite.mayBeEmpty !== true ? [`${name}: no test ran`] : [])];
  return { name, durationMs, passed: counts.passed, failed, skipped: counts.skipped, log };
}

/** Failures that bun's report omits: files that could not be loaded, and a run that was killed. */
export function strayFailures(output: string, failure: string | undefined, reported: number): readonly string[] {
  const unloaded = [...output.matchAll(/^(?<file>\S+\.test\.ts):\n+# Unhandled error/gm)].map(
    ({ groups }) => `${groups?.["file"]} could not be loaded`,
  );
  if (failure === undefined || unloaded.length + reported > 0) return unloaded;
  return [`the run ${failure}`];
}
