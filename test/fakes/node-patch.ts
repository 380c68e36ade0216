import type { NodePatch } from "../../agent/decide/node-patch.ts";
import type { Node } from "../../proto/kubernetes/gen/types.ts";

type Fields = Record<string, unknown>;

/** A Node after a strategic merge patch, as far as those that the agent sends need it: conditions and addresses go by their types. */
export function patchedNode(node: Node, patch: NodePatch): Node {
  return merged(node as unknown as Fields, patch) as unknown as Node;
}

function merged(before: Fields, patch: Fields): Fields {
  const after = { ...before };
  for (const [key, value] of Object.entries(patch)) {
    const old = after[key];
    if (value === null) delete after[key];
    else if (Array.isArray(value)) after[key] = mergedList(key, Array.isArray(old) ? old : [], value);
    else if (isFields(value)) after[key] = merged(isFields(old) ? old : {}, value);
    else after[key] = value;
  }
  return after;
}

function mergedList(key: string, before: readonly Fields[], patch: readonly Fields[]): readonly Fields[] {
  const items = patch.filter((item) => !("$patch" in item));
  if ((key !== "conditions" && key !== "addresses") || items.length < patch.length) return items;
  const byType = new Map(before.map((item) => [item["type"], item]));
  for (const item of items) byType.set(item["type"], { ...byType.get(item["type"]), ...item });
  return [...byType.values()];
}

function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
