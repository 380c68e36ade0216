import type { ListNode, MapNode, Node } from "../../proto/yaml/value-node.ts";
import { KubeError } from "../error.ts";

/** `where` is `file:line`, or the file. */
export function refuse(where: string, message: string): KubeError {
  return new KubeError("CREDENTIALS", `${where}: ${message}`);
}

/** A field that is null or missing is undefined; both mean the same to client-go. */
function fieldAt(map: MapNode, key: string): Node | undefined {
  const node = map.entries.get(key);
  return node === undefined || (node.kind === "scalar" && node.value === null) ? undefined : node;
}

/** A text that is not empty; an empty one counts as missing. Throws `KubeError`, without the value. */
export function textAt(map: MapNode, key: string): string | undefined;
export function textAt(map: MapNode, key: string, need: "required"): string;
export function textAt(map: MapNode, key: string, need?: "required"): string | undefined {
  const node = fieldAt(map, key);
  if (node !== undefined && (node.kind !== "scalar" || typeof node.value !== "string"))
    throw refuse(node.where, `${key} is not a text; put it in quotes if it is meant as one`);
  const text = node?.kind === "scalar" && node.value !== "" ? String(node.value) : undefined;
  if (text === undefined && need === "required") throw refuse(map.where, `${key} is missing`);
  return text;
}

/** A flag; missing is false. Throws `KubeError` for anything but true and false. */
export function boolAt(map: MapNode, key: string): boolean {
  const node = fieldAt(map, key);
  if (node === undefined) return false;
  if (node.kind !== "scalar" || typeof node.value !== "boolean")
    throw refuse(node.where, `${key} is neither true nor false`);
  return node.value;
}

/** Where there is none, an empty one. */
export function mapAt(map: MapNode, key: string): MapNode {
  const node = fieldAt(map, key);
  if (node === undefined) return { kind: "map", entries: new Map(), where: map.where };
  if (node.kind !== "map") throw refuse(node.where, `${key} is no map`);
  return node;
}

/** The maps of a list; none where there is no list. */
export function mapsAt(map: MapNode, key: string): readonly MapNode[] {
  return listAt(map, key).map((item) => {
    if (item.kind !== "map") throw refuse(item.where, `${key} holds something that is no map`);
    return item;
  });
}

/** The texts of a list; none where there is no list. Throws `KubeError`, without the values. */
export function textsAt(map: MapNode, key: string): readonly string[] {
  return listAt(map, key).map((item) => {
    if (item.kind !== "scalar" || typeof item.value !== "string")
      throw refuse(item.where, `${key} holds something that is no text; put it in quotes if it is meant as one`);
    return item.value;
  });
}

function listAt(map: MapNode, key: string): ListNode["items"] {
  const node = fieldAt(map, key);
  if (node === undefined) return [];
  if (node.kind !== "list") throw refuse(node.where, `${key} is no list`);
  return node.items;
}

/** The entry of that name in a list of named entries, such as `clusters`. */
export function namedAt(root: MapNode, key: string, name: string): MapNode {
  const entries = mapsAt(root, key);
  const [found, second] = entries.filter((entry) => textAt(entry, "name") === name);
  if (second !== undefined) throw refuse(second.where, `${key} has ${JSON.stringify(name)} twice`);
  if (found !== undefined) return found;
  const known = entries.map((entry) => JSON.stringify(textAt(entry, "name") ?? "")).slice(0, 10);
  const others = known.length === 0 ? "none at all" : `only ${known.join(", ")}`;
  throw refuse(root.entries.get(key)?.where ?? root.where, `${key} has no ${JSON.stringify(name)}, ${others}`);
}

/** Throws `KubeError` with the reason where a field is set that Berth does not take. */
export function refuseIfGiven(map: MapNode, key: string, why: string): void {
  const node = fieldAt(map, key);
  if (node !== undefined && !(node.kind === "scalar" && node.value === "")) throw refuse(node.where, `${key}: ${why}`);
}
