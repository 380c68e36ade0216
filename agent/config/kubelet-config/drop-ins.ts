import { join } from "node:path/posix";
import { describeCause, type Problem } from "../problem.ts";
import type { ConfigFiles } from "./config-file.ts";

export interface DropIns {
  /** The paths of the `.conf` files, in the order in which they are merged. */
  readonly files: readonly string[];
  /** All other files. */
  readonly skipped: readonly string[];
  readonly problems: readonly Problem[];
}

const MAX_ENTRIES = 10_000;
const MAX_DEPTH = 20;

/**
 * Walks the directory of `--config-dir` in lexical order, depth first. Symlinks to directories are not followed. Rule:
 * the kubelet reads the files that end in `.conf` and ignores all others.
 */
export async function findDropIns(dir: string, { list }: ConfigFiles): Promise<DropIns> {
  const files: string[] = [];
  const skipped: string[] = [];
  const problems: Problem[] = [];

  async function walk(path: string, depth: number): Promise<void> {
    if (depth > MAX_DEPTH) return addProblem(path, `is more than ${MAX_DEPTH} directories below ${dir}`);
    const entries = await listDir(path);
    for (const { name, kind } of [...entries].sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const below = join(path, name);
      if (files.length + skipped.length >= MAX_ENTRIES)
        return addProblem(dir, `contains more than ${MAX_ENTRIES} files`);
      if (kind === "directory") await walk(below, depth + 1);
      else (name.endsWith(".conf") ? files : skipped).push(below);
    }
  }

  async function listDir(path: string) {
    try {
      const entries = await list(path);
      if (entries === undefined) addProblem(path, "no such directory");
      return entries ?? [];
    } catch (error) {
      addProblem(path, `cannot be listed: ${describeCause(error)}`);
      return [];
    }
  }

  function addProblem(where: string, message: string): void {
    problems.push({ where, field: "", message });
  }

  await walk(dir, 0);
  return { files, skipped, problems };
}
