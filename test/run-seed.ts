import { execa } from "execa";

/**
 * The seed of a test run: BERTH_SEED of `env` if it is set, otherwise a number computed from the commit's id, so that each run
 * of a commit makes the same random choices. Outside a clone it is random.
 */
export async function selectSeed(
  { BERTH_SEED }: Readonly<Record<string, string | undefined>>,
  readCommit: () => Promise<string | undefined> = readHeadCommit,
): Promise<string> {
  if (BERTH_SEED !== undefined) return BERTH_SEED;
  const commit = await readCommit();
  const value = commit === undefined ? Math.random() * 1e9 : Number.parseInt(commit.slice(0, 8), 16);
  return String(Math.floor(value) % 1_000_000_000);
}

/** The id of the commit that is checked out; undefined outside a clone. */
async function readHeadCommit(): Promise<string | undefined> {
  const { exitCode, stdout } = await execa("git", ["rev-parse", "HEAD"], { reject: false });
  return exitCode === 0 ? stdout : undefined;
}
