// Rebuilds everything generated below proto/: `bun proto/generate.ts`.
import { join } from "node:path";
import { generateCri } from "./cri/generate.ts";
import { generateKubernetes } from "./kubernetes/generate.ts";

/** What makes each generated folder, named as seen from proto/. Each is handed the absolute path to write to. */
export const generators: Readonly<Record<string, (folder: string) => void | Promise<void>>> = {
  "cri/gen": generateCri,
  "kubernetes/gen": generateKubernetes,
};

/** Generates everything below the root, laid out as below proto/. */
export async function generateAll(root: string): Promise<void> {
  for (const [folder, generate] of Object.entries(generators)) await generate(join(root, folder));
}

if (import.meta.main) await generateAll(import.meta.dir);
