import { truncateText } from "../truncate-text.ts";

export type Scalar = string | number | boolean | null;
export type Json = Scalar | readonly Json[] | { readonly [key: string]: Json };

/** A JSON value with its origin: `file:line`, `--flag`, or `default`. */
export type ValueNode = ScalarNode | ListNode | MapNode;
export interface ScalarNode {
  readonly kind: "scalar";
  readonly value: Scalar;
  readonly where: string;
}
export interface ListNode {
  readonly kind: "list";
  readonly items: readonly ValueNode[];
  readonly where: string;
}
export interface MapNode {
  readonly kind: "map";
  readonly entries: ReadonlyMap<string, ValueNode>;
  readonly where: string;
}

/** The maximum nesting depth of lists and maps. */
export const MAX_DEPTH = 50;

export const DEFAULT_ORIGIN = "default";

/** A map without entries, with the given origin. */
export function emptyMap(where: string): MapNode {
  return { kind: "map", entries: new Map(), where };
}

/** Converts a JSON value to a node with the given origin. */
export function toNode(json: Json, where: string): ValueNode {
  if (json === null || typeof json !== "object") return { kind: "scalar", value: json, where };
  if (isList(json)) return { kind: "list", items: json.map((item) => toNode(item, where)), where };
  return {
    kind: "map",
    entries: new Map(Object.entries(json).map(([key, value]) => [key, toNode(value, where)])),
    where,
  };
}

/** Converts a node to its JSON value. A key such as `__proto__` becomes an ordinary property. */
export function toJson(node: ValueNode): Json {
  switch (node.kind) {
    case "scalar":
      return node.value;
    case "list":
      return node.items.map(toJson);
    case "map":
      return Object.fromEntries([...node.entries].map(([key, value]) => [key, toJson(value)]));
  }
}

/** The node at a path of map keys, or undefined. */
export function getAt(node: ValueNode | undefined, keys: readonly string[]): ValueNode | undefined {
  let found = node;
  for (const key of keys) found = found?.kind === "map" ? found.entries.get(key) : undefined;
  return found;
}

/** Copies the map with the node at a path of keys replaced. Creates missing maps on the way. */
export function setAt(map: MapNode, [key, ...rest]: readonly string[], value: ValueNode): MapNode {
  if (key === undefined) return map;
  const below = map.entries.get(key);
  const inner = rest.length === 0 ? value : setAt(below?.kind === "map" ? below : emptyMap(value.where), rest, value);
  return { ...map, entries: new Map([...map.entries, [key, inner]]) };
}

/**
 * Applies a JSON Merge Patch (RFC 7386): maps are merged, null removes a key, everything else replaces, lists included.
 * Patched values keep the origin of the patch.
 */
export function mergePatch(target: ValueNode | undefined, patch: ValueNode): ValueNode {
  if (patch.kind !== "map") return patch;
  const entries = new Map(target?.kind === "map" ? target.entries : []);
  for (const [key, value] of patch.entries) {
    if (value.kind === "scalar" && value.value === null) entries.delete(key);
    else entries.set(key, mergePatch(entries.get(key), value));
  }
  return { kind: "map", entries, where: target?.kind === "map" ? target.where : patch.where };
}

/** Formats a value for a message: short, on one line. */
export function describeNode(node: ValueNode): string {
  switch (node.kind) {
    case "scalar":
      return shorten(JSON.stringify(node.value));
    case "list":
      return node.items.length === 0 ? "an empty list" : "a list";
    case "map":
      return node.entries.size === 0 ? "an empty map" : "a map";
  }
}

const MAX_SHOWN_LENGTH = 60;

/** Truncates a text to the length that messages show, the `…` included. */
export function shorten(text: string): string {
  return text.length <= MAX_SHOWN_LENGTH ? text : truncateText(text, MAX_SHOWN_LENGTH - 1);
}

function isList(json: readonly Json[] | { readonly [key: string]: Json }): json is readonly Json[] {
  return Array.isArray(json);
}
