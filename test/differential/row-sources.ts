import { createHash } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { createConditionSources } from "./condition-sources.ts";

/** The functions that make rows: of snapshots and events, and of the runtime's log. */
const makers = [
  { name: "toRows", path: join(import.meta.dirname, "comparison-rows.ts") },
  { name: "readCreatedIds", path: join(import.meta.dirname, "../e2e/create-attempts.ts") },
];

/**
 * The hash of the code that makes rows, with all that it calls, without types, comments and format. `read` returns the
 * source of a module.
 */
export function hashOfRowSources(read = (path: string): string => readFileSync(path, "utf8")): string {
  const paths = makers.map(({ path }) => path);
  const sources = createConditionSources(paths, read, true);
  const text = sources.describe({ toString: () => makers.map(({ name }) => name).join(" ") });
  return createHash("sha256").update(text).digest("hex").slice(0, 16);
}
