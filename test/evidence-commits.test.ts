// Figures and results name the commit that they were measured on, so that a reader can check it out.
import { describe, expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { readmeFiguresIn } from "./bench/benchmarks-document.ts";
import { commitsIn, commitsSince } from "./evidence-commits.ts";
import { readReadme } from "./readme-manifest.ts";

const read = (name: string) => readFile(join(import.meta.dirname, "..", "docs", name), "utf8");
const documents = {
  "docs/extended-tests.md": await read("extended-tests.md"),
  "docs/benchmarks.md": await read("benchmarks.md"),
  "docs/mutation-tests.md": await read("mutation-tests.md"),
  // The rest of the README has the output of a program with a made-up commit.
  "the six figures of README.md": readmeFiguresIn(await readReadme()),
};

const git = async (...args: readonly string[]) => await execa("git", args, { cwd: import.meta.dirname, reject: false });

/** Why the history is not there to look into; undefined if it is. */
async function missingHistory(): Promise<string | undefined> {
  const { stdout, exitCode } = await git("rev-parse", "--is-shallow-repository");
  if (exitCode !== 0) return "this is no git repository, so the commits of the documents cannot be looked up";
  return stdout === "true"
    ? "the clone is shallow, so it lacks commits of the documents: git fetch --unshallow"
    : undefined;
}
const missing = await missingHistory();
if (missing !== undefined) console.log(`skipped: ${missing}`);

describe.skipIf(missing !== undefined)("in the history", () => {
  test.each(Object.entries(documents))("every commit that %s names can be checked out", async (_, text) => {
    const named = commitsIn(text);
    expect(named.length).toBeGreaterThan(0);
    const ages = await Promise.all(named.map(async (commit) => ({ commit, age: await commitsSince(commit) })));
    const unknown = ages.filter(({ age }) => age === undefined);
    expect(unknown.map(({ commit }) => commit)).toEqual([]);
  });

  test("the age of a commit is the number of those after it", async () => {
    expect(await commitsSince("HEAD")).toBe(0);
    expect(await commitsSince("HEAD~3")).toBeGreaterThanOrEqual(3);
    expect(await commitsSince("0123456789ab")).toBeUndefined();
  });
});

test("a commit is twelve digits and letters of a hash, not more and not fewer", () => {
  expect(commitsIn("on 0123456789ab, 0123456789ab; 0123456789abc, 0123456789a, 0123456789AB")).toEqual([
    "0123456789ab",
  ]);
});
