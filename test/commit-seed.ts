import { execa } from "execa";

/**
 * The seed of a test run: BERTH_SEED of `env` or, so that a run of the same commit repeats what is random, one of the commit's id.
 * Undefined outside a clone: then each test draws its own.
 */
export async function runSeed(
  env: Readonly<Record<string, string | undefined>>,
  readCommit: () => Promise<string | undefined> = headCommit,
): Promise<string | undefined> {
  const { BERTH_SEED } = env;
  if (BERTH_SEED !== undefined) return BERTH_SEED;
  const commit = await readCommit();
  return commit === undefined ? undefined : String(Number.parseInt(commit.slice(0, 8), 16) % 1_000_000_000);
}

async function headCommit(): Promise<string | undefined> {
  const { exitCode, stdout } = await execa("git", ["rev-parse", "HEAD"], { reject: false });
  return exitCode === 0 ? stdout : undefined;
}
