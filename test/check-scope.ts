import { existsSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { execa } from "execa";
import { ifAbsent } from "./bed/if-absent.ts";

/**
 * What a quick check runs. `since`: the tests that a change after this commit can affect, and the linter on what may differ
 * because of the paths that have `changed`; `allBecause`: everything, for this reason.
 */
export type CheckScope =
  | { readonly since: string; readonly changed: readonly string[] }
  | { readonly allBecause: string };

/** The files of the clone as a commit of no branch, or what Git says against it. */
export type Snapshot = { readonly commit: string } | { readonly problem: string };

/** The tests that read these files run in each check. */
const document = /\.mdx?$|^docs\//;

/** The file that names the commit. It is below `node_modules`, so Git ignores it. */
const recordOf = (root: string) => join(root, "node_modules", ".cache", "berth", "checked");

/**
 * Decides what a check runs. `checked` is the commit of the last check that passed, `changed` the paths that differ from it;
 * each is undefined if it is not known. The importers of a TypeScript file are known; any other file may affect all tests.
 */
export function decideScope(checked: string | undefined, changed: readonly string[] | undefined): CheckScope {
  if (checked === undefined) return { allBecause: "no check has passed in this clone yet" };
  if (changed === undefined) return { allBecause: "Git cannot compare with the last check that passed" };
  const other = changed.find((path) => !path.endsWith(".ts") && !document.test(path));
  return other === undefined ? { since: checked, changed } : { allBecause: `${other} has changed` };
}

/** Compares the clone `root`, of which `now` is the snapshot, with the last check that passed there. */
export async function readScope(root: string, now: Snapshot): Promise<CheckScope> {
  const checked = (await readFile(recordOf(root), "utf8").catch(ifAbsent(""))).trim();
  if (checked === "") return decideScope(undefined, undefined);
  return decideScope(checked, "commit" in now ? await changedPaths(root, checked, now.commit) : undefined);
}

/**
 * The TypeScript files of the clone `root` that a linter with types may judge otherwise after a change of the paths `changed`:
 * the changed ones, and those that import one of them, or another file of its name. Rejects if Git fails.
 */
export async function pathsToLint(root: string, changed: readonly string[]): Promise<readonly string[]> {
  const names = changed.filter((path) => path.endsWith(".ts")).map((path) => basename(path));
  if (names.length === 0) return [];
  const patterns = [...new Set(names)].flatMap((name) => ["-e", `/${name}"`]);
  const argv = ["grep", "--untracked", "--files-with-matches", "--null", "--fixed-strings", ...patterns, "--", "*.ts"];
  const { exitCode, stdout, stderr } = await execa("git", argv, { cwd: root, reject: false });
  // 1: no file imports any of them.
  if (exitCode !== 0 && exitCode !== 1) throw new Error(`git grep: ${stderr}`);
  const own = changed.filter((path) => path.endsWith(".ts") && existsSync(join(root, path)));
  return [...new Set([...own, ...stdout.split("\0").filter((path) => path !== "")])].toSorted();
}

/** Writes down that a check of the snapshot `commit` has passed. */
export async function recordPass(root: string, commit: string): Promise<void> {
  await mkdir(dirname(recordOf(root)), { recursive: true });
  await writeFile(recordOf(root), `${commit}\n`);
}

/**
 * Makes a commit of the files of the clone as they are, also of those that are not committed or that Git does not know yet. No
 * branch gets it, and the clone's index stays as it is.
 */
export async function takeSnapshot(root: string): Promise<Snapshot> {
  const folder = await mkdtemp(join(tmpdir(), "berth-check-"));
  const env = { GIT_INDEX_FILE: join(folder, "index") };
  const git = async (...args: readonly string[]) => (await execa("git", args, { cwd: root, env })).stdout;
  try {
    await git("read-tree", "HEAD");
    await git("add", "--all", ".");
    const author = ["-c", "user.name=check", "-c", "user.email=check@localhost"];
    return { commit: await git(...author, "commit-tree", "-m", "checked", await git("write-tree")) };
  } catch (error) {
    return { problem: error instanceof Error ? error.message : String(error) };
  } finally {
    await rm(folder, { recursive: true });
  }
}

/** The paths that differ between two commits, of a renamed file both; undefined if Git has lost one. */
async function changedPaths(root: string, from: string, to: string): Promise<readonly string[] | undefined> {
  const argv = ["diff", "--name-only", "--no-renames", "--relative", "-z", from, to, "--"];
  const { exitCode, stdout } = await execa("git", argv, { cwd: root, reject: false });
  return exitCode === 0 ? stdout.split("\0").filter((path) => path !== "") : undefined;
}
