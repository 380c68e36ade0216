import { mkdir, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { ifAbsent } from "./if-absent.ts";

/** A manifest folder that is ready for an agent. */
export interface ManifestFolder {
  /** The files that an agent reads, sorted by name. */
  readonly names: readonly string[];
  /** The files that are equal to the example of the same name. */
  readonly unchanged: ReadonlySet<string>;
  /** True if the folder existed and was left as it is; false if it has just been filled with the examples. */
  readonly isKept: boolean;
  /** The folder with the user's earlier files, if the examples have replaced them. */
  readonly before?: string;
}

/** In an example, the path of the folder that has the manifest folder, because a hostPath is absolute. */
const STATE_FOLDER = "STATE_FOLDER";

/** The text of an example for this manifest folder. */
const exampleText = async (path: string, folder: string) =>
  (await readFile(path, "utf8")).replaceAll(STATE_FOLDER, dirname(folder));

/**
 * Fills `folder` with the manifests of the folder `examples` if it is absent. An existing folder belongs to its user
 * and stays as it is; with `isFresh` it is replaced, and put aside if it differs from the examples. A new folder
 * appears complete, by rename.
 */
export async function prepareManifests(folder: string, examples: string, isFresh: boolean): Promise<ManifestFolder> {
  const before = isFresh ? await putAside(folder, examples) : undefined;
  const existing = await listManifests(folder);
  if (existing === undefined) await fillFolder(folder, examples);
  const names = existing ?? (await listManifests(folder)) ?? [];
  const unchanged = await unchangedFiles(names, folder, examples);
  return { names, unchanged, isKept: existing !== undefined, ...(before !== undefined && { before }) };
}

/** Removes the folder, or renames it if a file differs from the examples. Returns the new path in that case. */
async function putAside(folder: string, examples: string): Promise<string | undefined> {
  const names = (await listManifests(folder)) ?? [];
  const isOwn = (await unchangedFiles(names, folder, examples)).size < names.length;
  if (!isOwn) {
    await rm(folder, { recursive: true, force: true });
    return undefined;
  }
  const aside = await firstFreePath(`${folder}.before`);
  await rename(folder, aside);
  return aside;
}

/** The path itself, or else with the first number from 2 on that no file has. */
async function firstFreePath(path: string): Promise<string> {
  for (let number = 1; ; number++) {
    const candidate = number === 1 ? path : `${path}-${number}`;
    if ((await listManifests(candidate)) === undefined) return candidate;
  }
}

async function unchangedFiles(
  names: readonly string[],
  folder: string,
  examples: string,
): Promise<ReadonlySet<string>> {
  const same = await Promise.all(names.map((name) => isExample(folder, examples, name)));
  return new Set(names.filter((_, at) => same[at]));
}

async function fillFolder(folder: string, examples: string): Promise<void> {
  const work = `${folder}.new`;
  await rm(work, { recursive: true, force: true });
  await mkdir(work, { recursive: true });
  for (const name of (await listManifests(examples)) ?? [])
    await writeFile(join(work, name), await exampleText(join(examples, name), folder));
  await rename(work, folder);
}

/** The manifests by the agent's rule: all files, whatever their extension, except names that begin with a dot. */
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

async function isExample(folder: string, examples: string, name: string): Promise<boolean> {
  // A missing file or a dangling symlink is equal to no example.
  const [own, example] = await Promise.all([
    readFile(join(folder, name), "utf8").catch(ifAbsent(undefined)),
    exampleText(join(examples, name), folder).catch(ifAbsent(undefined)),
  ]);
  return own !== undefined && own === example;
}
