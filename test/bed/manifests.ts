import { copyFile, mkdir, readdir, readFile, rename, rm } from "node:fs/promises";
import { join } from "node:path";

/** A folder of manifests that is ready for an agent. */
export interface ManifestFolder {
  /** The files that an agent reads there, sorted. */
  readonly names: readonly string[];
  /** Those that are still as the examples have them. */
  readonly unchanged: ReadonlySet<string>;
  /** Whether the folder is as its user left it; otherwise it has just been filled with the examples. */
  readonly isKept: boolean;
  /** Where what its user had there is now, if the examples have taken its place. */
  readonly before?: string;
}

/**
 * Fills `folder` with the manifests of the folder `examples` if it is absent or `isFresh`; one that is there is its user's, and
 * stays as it is, or is put aside if it has other files than the examples. The folder comes whole or not at all.
 */
export async function prepareManifests(folder: string, examples: string, isFresh: boolean): Promise<ManifestFolder> {
  const before = isFresh ? await putAside(folder, examples) : undefined;
  const kept = await listManifests(folder);
  if (kept === undefined) await fill(folder, examples);
  const names = kept ?? (await listManifests(folder)) ?? [];
  const unchanged = await sameIn(names, folder, examples);
  return { names, unchanged, isKept: kept !== undefined, ...(before !== undefined && { before }) };
}

/** Takes the folder away. Returns where its files are now, if any of them is not as the examples have it. */
async function putAside(folder: string, examples: string): Promise<string | undefined> {
  const names = (await listManifests(folder)) ?? [];
  const isOwn = (await sameIn(names, folder, examples)).size < names.length;
  if (!isOwn) {
    await rm(folder, { recursive: true, force: true });
    return undefined;
  }
  const aside = `${folder}.before`;
  await rm(aside, { recursive: true, force: true });
  await rename(folder, aside);
  return aside;
}

async function sameIn(names: readonly string[], folder: string, examples: string): Promise<ReadonlySet<string>> {
  const same = await Promise.all(names.map((name) => hasSameText(join(folder, name), join(examples, name))));
  return new Set(names.filter((_, at) => same[at]));
}

async function fill(folder: string, examples: string): Promise<void> {
  const work = `${folder}.new`;
  await rm(work, { recursive: true, force: true });
  await mkdir(work, { recursive: true });
  for (const name of (await listManifests(examples)) ?? []) await copyFile(join(examples, name), join(work, name));
  await rename(work, folder);
}

/** What an agent takes for manifests: each file, whatever its ending, whose name begins with no dot. */
async function listManifests(folder: string): Promise<readonly string[] | undefined> {
  try {
    const entries = await readdir(folder, { withFileTypes: true });
    const files = entries.filter((entry) => !entry.isDirectory() && !entry.name.startsWith("."));
    return files.map(({ name }) => name).toSorted();
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return undefined;
    throw error;
  }
}

async function hasSameText(path: string, other: string): Promise<boolean> {
  // A file that is not there, or a link that leads nowhere, is no example.
  const [one, two] = await Promise.all([path, other].map((file) => readFile(file, "utf8").catch(() => undefined)));
  return one !== undefined && one === two;
}
