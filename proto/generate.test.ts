import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { generateAll } from "./generate.ts";

/** The content of every generated file below a root, by path. */
async function readGenerated(root: string): Promise<Record<string, string>> {
  const files: Record<string, string> = {};
  for await (const path of new Bun.Glob("**/gen/**").scan({ cwd: root }))
    files[path] = await Bun.file(join(root, path)).text();
  return files;
}

test("the generated code in the repository is up to date", async () => {
  const folder = await mkdtemp(join(tmpdir(), "berth-generate-"));
  try {
    await generateAll(folder);
    const committed = await readGenerated(import.meta.dir);
    const fresh = await readGenerated(folder);
    expect(Object.keys(fresh).sort()).toEqual(Object.keys(committed).sort());
    for (const [path, text] of Object.entries(committed)) if (fresh[path] !== text) throw new Error(`${path} is stale`);
  } finally {
    await rm(folder, { recursive: true });
  }
}, 60_000);
