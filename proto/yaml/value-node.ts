export type Scalar = string | number | boolean | null;
export type Json = Scalar | readonly Json[] | { readonly [key: string]: Json };

/** A JSON value that remembers who said it: `file:line`, `--flag`, or `default`. */
export type Node = ScalarNode | ListNode | MapNode;
export interface ScalarNode {
  readonly kind: "scalar";
  readonly value: Scalar;
  readonly where: string;
}
export interface ListNode {
  readonly kind: "list";
  readonly items: readonly Node[];
  readonly where: string;
}
export interface MapNode {
  readonly kind: "map";
  readonly entries: ReadonlyMap<string, Node>;
  readonly where: string;
}

/** How deep lists and maps may be nested in each other. */
export const deepest = 50;

export const defaultOrigin = "default";

/** A map without entries, said by `where`. */
export function emptyMap(where: string): MapNode {
  return { kind: "map", entries: new Map(), where };
}

/** The node of a JSON value, all of it said by `where`. */
export function nodeOf(json: Json, where: string): Node {
  if (json === null || typeof json !== "object") return { kind: "scalar", value: json, where };
  if (isList(json)) return { kind: "list", items: json.map((item) => nodeOf(item, where)), where };
  return {
    kind: "map",
    entries: new Map(Object.entries(json).map(([key, value]) => [key, nodeOf(value, where)])),
    where,
  };
}

/** The JSON value of a node; a key such as `__proto__` becomes a property like any other. */
export function jsonOf(node: Node): Json {
  switch (node.kind) {
    case "scalar":
      return node.value;
    case "list":
      return node.items.map(jsonOf);
    case "map":
      return Object.fromEntries([...node.entries].map(([key, value]) => [key, jsonOf(value)]));
  }
}

/** The node at a path of map keys, or undefined. */
export function getAt(node: Node | undefined, keys: readonly string[]): Node | undefined {
  let found = node;
  for (const key of keys) found = found?.kind === "map" ? found.entries.get(key) : undefined;
  return found;
}

/** A copy of the map with the node at a path of keys replaced; maps on the way are made where they are missing. */
export function setAt(map: MapNode, [key, ...rest]: readonly string[], value: Node): MapNode {
  if (key === undefined) return map;
  const below = map.entries.get(key);
  const inner = rest.length === 0 ? value : setAt(below?.kind === "map" ? below : emptyMap(value.where), rest, value);
  return { ...map, entries: new Map([...map.entries, [key, inner]]) };
}

/**
 * RFC 7386: maps are merged key by key, null removes, everything else (lists among it) replaces. What the patch says
 * keeps the patch's origin.
 */
export function mergePatch(target: Node | undefined, patch: Node): Node {
  if (patch.kind !== "map") return patch;
  const entries = new Map(target?.kind === "map" ? target.entries : []);
  for (const [key, value] of patch.entries) {
    if (value.kind === "scalar" && value.value === null) entries.delete(key);
    else entries.set(key, mergePatch(entries.get(key), value));
  }
  return { kind: "map", entries, where: target?.kind === "map" ? target.where : patch.where };
}

/** The value as a message shows it: short, on one line. */
export function showNode(node: Node): string {
  switch (node.kind) {
    case "scalar":
      return shorten(JSON.stringify(node.value));
    case "list":
      return node.items.length === 0 ? "an empty list" : "a list";
    case "map":
      return node.entries.size === 0 ? "an empty map" : "a map";
  }
}

const longestShown = 60;

/** A text cut to what fits into a message. */
export function shorten(text: string): string {
  return text.length <= longestShown ? text : `${text.slice(0, longestShown - 1)}…`;
}

function isList(json: readonly Json[] | { readonly [key: string]: Json }): json is readonly Json[] {
  return Array.isArray(json);
}
