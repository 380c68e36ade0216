import type { ListNode, MapNode, ValueNode } from "../../proto/yaml/value-node.ts";
import { KubeError } from "../error.ts";

/** An error about one place in the kubeconfig. `where` is `file:line`, or the file. */
export function kubeconfigError(where: string, message: string): KubeError {
  return new KubeError("CREDENTIALS", `${where}: ${message}`);
}

/** Undefined for a field that is null or missing, as in client-go. */
function fieldAt(map: MapNode, key: string): ValueNode | undefined {
  const node = map.entries.get(key);
  return node === undefined || (node.kind === "scalar" && node.value === null) ? undefined : node;
}

/** A non-empty string; an empty one counts as missing. Throws `KubeError`, without the value. */
export function stringAt(map: MapNode, key: string): string | undefined;
export function stringAt(map: MapNode, key: string, presence: "required"): string;
export function stringAt(map: MapNode, key: string, presence?: "required"): string | undefined {
  const node = fieldAt(map, key);
  if (node !== undefined && (node.kind !== "scalar" || typeof node.value !== "string"))
    throw kubeconfigError(node.where, `${key} is not a string; quote it if it is meant as one`);
  const text = node?.kind === "scalar" && node.value !== "" ? String(node.value) : undefined;
  if (text === undefined && presence === "required") throw kubeconfigError(map.where, `${key} is missing`);
  return text;
}

/** A boolean; false if missing. Throws `KubeError` for anything but true and false. */
export function boolAt(map: MapNode, key: string): boolean {
  const node = fieldAt(map, key);
  if (node === undefined) return false;
  if (node.kind !== "scalar" || typeof node.value !== "boolean")
    throw kubeconfigError(node.where, `${key} must be true or false`);
  return node.value;
}

/** A map; an empty one if missing. Throws `KubeError` for anything else. */
export function mapAt(map: MapNode, key: string): MapNode {
  const node = fieldAt(map, key);
  if (node === undefined) return { kind: "map", entries: new Map(), where: map.where };
  if (node.kind !== "map") throw kubeconfigError(node.where, `${key} is not a map`);
  return node;
}

/** A list of maps; empty if missing. Throws `KubeError` for anything else. */
export function mapsAt(map: MapNode, key: string): readonly MapNode[] {
  return listAt(map, key).map((item) => {
    if (item.kind !== "map") throw kubeconfigError(item.where, `${key} has an entry that is not a map`);
    return item;
  });
}

/** A list of strings; empty if missing. Throws `KubeError`, without the values. */
export function stringsAt(map: MapNode, key: string): readonly string[] {
  return listAt(map, key).map((item) => {
    if (item.kind !== "scalar" || typeof item.value !== "string")
      throw kubeconfigError(item.where, `${key} has an entry that is not a string; quote it if it is meant as one`);
    return item.value;
  });
}

function listAt(map: MapNode, key: string): ListNode["items"] {
  const node = fieldAt(map, key);
  if (node === undefined) return [];
  if (node.kind !== "list") throw kubeconfigError(node.where, `${key} is not a list`);
  return node.items;
}

/**
 * The entry with this name in a list of named entries, such as `clusters`. Throws `KubeError` if there is none, or more
 * than one.
 */
export function namedAt(root: MapNode, key: string, name: string): MapNode {
  const entries = mapsAt(root, key);
  const [found, second] = entries.filter((entry) => stringAt(entry, "name") === name);
  if (second !== undefined) throw kubeconfigError(second.where, `${key} has ${JSON.stringify(name)} twice`);
  if (found !== undefined) return found;
  const known = entries.map((entry) => JSON.stringify(stringAt(entry, "name") ?? "")).slice(0, 10);
  const others = known.length === 0 ? "none at all" : `only ${known.join(", ")}`;
  throw kubeconfigError(root.entries.get(key)?.where ?? root.where, `${key} has no ${JSON.stringify(name)}, ${others}`);
}

/** Throws `KubeError` with the reason if a field is set that Berth does not support. */
export function rejectIfSet(map: MapNode, key: string, reason: string): void {
  const node = fieldAt(map, key);
  if (node !== undefined && !(node.kind === "scalar" && node.value === ""))
    throw kubeconfigError(node.where, `${key}: ${reason}`);
}
