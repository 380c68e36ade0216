import { execa } from "execa";

/** The commits that a text names by their first twelve digits, each once. */
export const commitsIn = (text: string): readonly string[] => [...new Set(text.match(/\b[0-9a-f]{12}\b/g))];

/** The number of commits in the history of HEAD since `commit`; undefined if that is not in it. */
export async function commitsSince(commit: string): Promise<number | undefined> {
  const ancestry = await execa("git", ["merge-base", "--is-ancestor", commit, "HEAD"], { reject: false });
  // 1: not an ancestor; 128: no such commit.
  if (ancestry.exitCode === 1 || ancestry.exitCode === 128) return undefined;
  if (ancestry.failed) throw new Error(`git does not tell whether ${commit} is in the history`, { cause: ancestry });
  const { stdout } = await execa("git", ["rev-list", "--count", `${commit}..HEAD`]);
  return Number(stdout);
}
