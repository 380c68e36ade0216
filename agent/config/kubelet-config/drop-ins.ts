import { join } from "node:path/posix";
import { describeCause, type Problem } from "../problem.ts";
import type { ConfigFiles } from "./config-file.ts";

export interface DropIns {
  /** The paths of the `.conf` files in the order in which they are laid over each other. */
  readonly files: readonly string[];
  /** What lies there besides. */
  readonly skipped: readonly string[];
  readonly problems: readonly Problem[];
}

const mostEntries = 10_000;
const deepest = 20;

/**
 * Walks the folder of `--config-dir`: names in lexical order, a folder's content in its place among them, links to
 * folders not followed. Rule: the kubelet reads what ends in `.conf` and leaves everything else.
 */
export async function findDropIns(folder: string, { list }: ConfigFiles): Promise<DropIns> {
  const files: string[] = [];
  const skipped: string[] = [];
  const problems: Problem[] = [];

  async function walk(path: string, depth: number): Promise<void> {
    if (depth > deepest) return refuse(path, `lies more than ${deepest} folders below ${folder}`);
    const entries = await listFolder(path);
    for (const { name, kind } of [...entries].sort((a, b) => (a.name < b.name ? -1 : 1))) {
      const below = join(path, name);
      if (files.length + skipped.length >= mostEntries) return refuse(folder, `holds more than ${mostEntries} files`);
      if (kind === "directory") await walk(below, depth + 1);
      else (name.endsWith(".conf") ? files : skipped).push(below);
    }
  }

  async function listFolder(path: string) {
    try {
      const entries = await list(path);
      if (entries === undefined) refuse(path, "there is no such folder");
      return entries ?? [];
    } catch (error) {
      refuse(path, `cannot be listed: ${describeCause(error)}`);
      return [];
    }
  }

  function refuse(where: string, message: string): void {
    problems.push({ where, field: "", message });
  }

  await walk(folder, 0);
  return { files, skipped, problems };
}
