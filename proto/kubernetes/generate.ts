import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { ApiDocument } from "./generator/document.ts";
import { renderShapes } from "./generator/shapes.ts";
import { renderTypes } from "./generator/types.ts";
import document from "./openapi.json" with { type: "json" };

/** Writes all code generated from openapi.json into the directory, which is created when missing. */
export function generateKubernetes(folder: string): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "types.ts"), renderTypes(document as ApiDocument));
  writeFileSync(join(folder, "shapes.ts"), renderShapes(document as ApiDocument));
}

if (import.meta.main) generateKubernetes(process.argv[2] ?? join(import.meta.dir, "gen"));
