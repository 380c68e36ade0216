import { mkdir, mkdtemp, rename, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { cacheFolder } from "../bed/packages.ts";

const repository = join(import.meta.dirname, "..", "..");

/** Why the program of an earlier commit cannot be built here; undefined where it can, or is in the cache. */
export async function whyNoEarlierRelease(commit: string): Promise<string | undefined> {
  if (await isBuilt(commit)) return undefined;
  const { failed } = await execa("git", ["cat-file", "-e", `${commit}^{commit}`], { cwd: repository, reject: false });
  return failed ? `this clone has no commit ${commit}: fetch its whole history` : undefined;
}

/**
 * The compiled program of an earlier commit, built by its own set-up and with its own packages, once, into the cache. Throws with
 * what the build printed.
 */
export async function earlierRelease(commit: string): Promise<string> {
  const binary = binaryOf(commit);
  if (await isBuilt(commit)) return binary;
  const work = await mkdtemp(join(tmpdir(), "berth-release-"));
  try {
    const archive = join(work, "tree.tar");
    await execa("git", ["archive", "--output", archive, commit], { cwd: repository });
    await execa("tar", ["-xf", archive, "-C", work]);
    await execa("node", ["setup.mjs", "--no-machine", "cli/build.ts"], { cwd: work });
    await mkdir(join(binary, ".."), { recursive: true });
    await execa("cp", [join(work, "dist", "berth"), `${binary}.${process.pid}`]);
    await rename(`${binary}.${process.pid}`, binary);
  } finally {
    await rm(work, { recursive: true, force: true });
  }
  return binary;
}

const releases = () => join(cacheFolder(), "releases");
const binaryOf = (commit: string) => join(releases(), commit, "berth");

/** Whether a program is that of an earlier release. */
export function isEarlierRelease(binary: string): boolean {
  return binary.startsWith(`${releases()}/`);
}

const isBuilt = async (commit: string) =>
  await stat(binaryOf(commit)).then(
    () => true,
    () => false,
  );
