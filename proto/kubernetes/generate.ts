import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ApiDocument } from "./generator/document.ts";
import { renderShape } from "./generator/shapes.ts";
import { renderTypes } from "./generator/types.ts";
import document from "./openapi.json" with { type: "json" };

/** Writes everything that is made from openapi.json into the folder, which is created when it is missing. */
export function generateKubernetes(folder: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "types.ts"), renderTypes(document as ApiDocument));
  writeFileSync(join(folder, "shapes.ts"), renderShape(document as ApiDocument));
}

if (import.meta.main) generateKubernetes(process.argv[2] ?? join(import.meta.dir, "gen"));
