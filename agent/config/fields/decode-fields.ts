import { parseTime, TimeError } from "../../../proto/kubernetes/time.ts";
import { nearestName } from "../../../proto/nearest-name.ts";
import {
  defaultOrigin,
  emptyMap,
  type ListNode,
  type MapNode,
  type Node,
  type Scalar,
  showNode,
} from "../../../proto/yaml/value-node.ts";
import type { Problem } from "../problem.ts";
import { parseDuration } from "./duration.ts";
import type { Field, FieldType } from "./field-rule.ts";
import { fieldAt, keyBelow, namesBelow, pathBelow } from "./field-tree.ts";
import { checks } from "./value-checks.ts";
import { describeExpectation, describeShape, valueType } from "./value-description.ts";

export interface Shaped {
  /** What is left when everything that is named in a problem is taken away, or emptied where a list keeps its places. */
  readonly node: MapNode;
  readonly problems: readonly Problem[];
}

/** How one file is read, and what was found wrong with it so far. */
interface Reading {
  readonly keepsNull: boolean;
  readonly problems: Problem[];
}

/**
 * Holds one file against the schema: every field known, every value of its type. Null is "not set"; a drop-in keeps it
 * (`keepsNull`), since there it removes a field.
 */
export function checkShape(root: Node, keepsNull: boolean): Shaped {
  if (root.kind !== "map") {
    const message = `found ${showNode(root)}, must be a map of fields, beginning with apiVersion and kind`;
    return { node: emptyMap(root.where), problems: [{ where: root.where, field: "", message }] };
  }
  const reading: Reading = { keepsNull, problems: [] };
  return { node: readStruct(reading, root, "", ""), problems: reading.problems };
}

function readStruct(reading: Reading, node: MapNode, path: string, shown: string): MapNode {
  const entries = new Map<string, Node>();
  for (const [name, value] of node.entries) {
    const below = pathBelow(shown, name.slice(0, 60));
    const field = namesBelow(path).includes(name) ? fieldAt(pathBelow(path, name)) : undefined;
    if (field === undefined) {
      reading.problems.push({ where: value.where, field: below, message: describeUnknown(path, name) });
      continue;
    }
    if (isNull(value) && !reading.keepsNull) continue;
    const read = isNull(value) ? value : readField(reading, value, pathBelow(path, name), below, field);
    if (read !== undefined) entries.set(name, read);
  }
  return { ...node, entries };
}

function readField(reading: Reading, node: Node, path: string, shown: string, field: Field): Node | undefined {
  switch (field.type) {
    case "struct":
    case "*struct":
      return node.kind === "map" ? readStruct(reading, node, path, shown) : refuseShape(reading, node, shown, field);
    case "[]struct":
      return node.kind === "list"
        ? readStructs(reading, node, path, shown, field)
        : refuseShape(reading, node, shown, field);
    case "[]string":
    case "[]int32":
      return node.kind === "list" ? readList(reading, node, shown, field) : refuseShape(reading, node, shown, field);
    case "map[string]string":
    case "map[string]bool":
    case "map[string]Quantity":
    case "map[string][]string":
      return node.kind === "map" ? readMap(reading, node, shown, field) : refuseShape(reading, node, shown, field);
    default:
      return readValue(reading, node, shown, field);
  }
}

function readStructs(reading: Reading, list: ListNode, path: string, shown: string, field: Field): Node {
  const items = list.items.map((item, index) => {
    const place = `${shown}[${index}]`;
    const before = reading.problems.length;
    const read = item.kind === "map" ? readStruct(reading, item, `${path}[]`, place) : undefined;
    if (read === undefined) refuse(reading, item, place, field, "a map of fields");
    // What is left of a broken element would be refused a second time, for what was taken out of it.
    return read !== undefined && reading.problems.length === before ? read : emptyMap(defaultOrigin);
  });
  return { ...list, items };
}

function readList(reading: Reading, list: ListNode, shown: string, field: Field): Node {
  const broken: Node = { kind: "scalar", value: null, where: defaultOrigin };
  const items = list.items.map((item, index) => readValue(reading, item, `${shown}[${index}]`, field) ?? broken);
  return { ...list, items };
}

function readMap(reading: Reading, map: MapNode, shown: string, field: Field): Node {
  const entries = new Map<string, Node>();
  for (const [key, value] of map.entries) {
    const place = keyBelow(shown, key);
    const read = isNull(value) && reading.keepsNull ? value : readMapValue(reading, value, place, field);
    if (read !== undefined) entries.set(key, read);
  }
  return { ...map, entries };
}

function readMapValue(reading: Reading, value: Node, place: string, field: Field): Node | undefined {
  if (field.type !== "map[string][]string") return readValue(reading, value, place, field);
  return value.kind === "list"
    ? readList(reading, value, place, field)
    : refuse(reading, value, place, field, "a list of strings");
}

function readValue(reading: Reading, node: Node, shown: string, field: Field): Node | undefined {
  if (node.kind === "scalar" && hasType(valueType(field.type), node.value)) return node;
  const needsQuotes = valueType(field.type) === "string" && node.kind === "scalar" && field.allowed === undefined;
  const hint = needsQuotes && node.value !== null ? " (put it in quotes)" : "";
  return refuse(reading, node, shown, field, `${describeExpectation(field)}${hint}`);
}

function refuseShape(reading: Reading, node: Node, shown: string, field: Field): undefined {
  return refuse(reading, node, shown, field, describeShape(field));
}

function refuse({ problems }: Reading, node: Node, shown: string, field: Field, expected: string): undefined {
  const found = field.secret ? "a value that is not shown" : showNode(node);
  problems.push({ where: node.where, field: shown, message: `found ${found}, must be ${expected}` });
  return undefined;
}

function isNull(node: Node): boolean {
  return node.kind === "scalar" && node.value === null;
}

function describeUnknown(path: string, name: string): string {
  const nearest = nearestName(name, namesBelow(path));
  if (nearest !== undefined) return `unknown field, did you mean ${nearest}?`;
  const names = namesBelow(path);
  return names.length > 12 ? "unknown field" : `unknown field, known are ${names.join(", ")}`;
}

function hasType(type: FieldType, value: Scalar): boolean {
  switch (type) {
    case "bool":
    case "*bool":
      return typeof value === "boolean";
    case "int32":
    case "*int32":
      return isIntegerWithin(value, -(2 ** 31), 2 ** 31 - 1);
    case "uint32":
      return isIntegerWithin(value, 0, 2 ** 32 - 1);
    case "int64":
    case "*int64":
      return isIntegerWithin(value, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
    case "*float64":
      return Number.isFinite(value);
    case "Duration":
    case "*Duration":
      return typeof value === "string" && parseDuration(value) !== undefined;
    case "TimeOrMetaDuration":
      return Number.isSafeInteger(value) || (typeof value === "string" && parseDuration(value) !== undefined);
    case "QuantityValue":
      return Number.isFinite(value) || typeof value === "string"
        ? checks["a quantity such as 10Mi"](String(value))
        : false;
    case "*Time":
      return typeof value === "string" && isTime(value);
    default:
      return typeof value === "string";
  }
}

function isIntegerWithin(value: Scalar, least: number, greatest: number): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= least && value <= greatest;
}

function isTime(text: string): boolean {
  try {
    parseTime(text);
    return true;
  } catch (error) {
    if (error instanceof TimeError) return false;
    throw error;
  }
}
