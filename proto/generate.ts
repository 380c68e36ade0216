// Regenerates all generated code below proto/: `bun proto/generate.ts`.
import { join } from "node:path";
import { generateCri } from "./cri/generate.ts";
import { generateKubernetes } from "./kubernetes/generate.ts";

/** The generator of each directory, by its path below proto/. It gets the absolute path to write to. */
export const generators: Readonly<Record<string, (dir: string) => void | Promise<void>>> = {
  "cri/gen": generateCri,
  "kubernetes/gen": generateKubernetes,
};

/** Generates all directories below the root, in the layout of proto/. */
export async function generateAll(root: string): Promise<void> {
  for (const [dir, generate] of Object.entries(generators)) await generate(join(root, dir));
}

if (import.meta.main) await generateAll(import.meta.dir);
