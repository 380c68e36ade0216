import { parseTime, TimeError } from "../../../proto/kubernetes/values/time.ts";
import { nearestName } from "../../../proto/nearest-name.ts";
import {
  DEFAULT_ORIGIN,
  describeNode,
  emptyMap,
  type ListNode,
  type MapNode,
  type Scalar,
  type ValueNode,
} from "../../../proto/yaml/value-node.ts";
import type { Problem } from "../problem.ts";
import { parseDuration } from "./duration.ts";
import type { FieldRule, FieldType } from "./field-rule.ts";
import { childPath, type FieldTree, keyPath } from "./field-tree.ts";
import { valueChecks } from "./value-checks.ts";
import { describeExpectation, describeField, valueType } from "./value-description.ts";

export interface DecodeResult {
  /** The valid part. Invalid values are removed; an invalid list element becomes an empty one, so that indexes stay. */
  readonly node: MapNode;
  readonly problems: readonly Problem[];
}

/** The decoding of one file, with the problems found so far. */
interface DecodeState {
  readonly tree: FieldTree<FieldRule>;
  readonly keepsNull: boolean;
  readonly problems: Problem[];
}

/**
 * Decodes one file: every field must be known and of its type, and the required ones must be set. Null means unset. A
 * drop-in keeps null (`keepsNull`), since merging it removes a field.
 */
export function decodeFields(root: ValueNode, tree: FieldTree<FieldRule>, keepsNull = false): DecodeResult {
  if (root.kind !== "map") {
    const message = `found ${describeNode(root)}, must be a map of fields, beginning with apiVersion and kind`;
    return { node: emptyMap(root.where), problems: [{ where: root.where, field: "", message }] };
  }
  const state: DecodeState = { tree, keepsNull, problems: [] };
  return { node: decodeStruct(state, root, "", ""), problems: state.problems };
}

function decodeStruct(state: DecodeState, node: MapNode, path: string, shownPath: string): MapNode {
  const { fieldAt, childNames } = state.tree;
  const known = childNames(path);
  const entries = new Map<string, ValueNode>();
  for (const [name, value] of node.entries) {
    const below = childPath(shownPath, name.slice(0, 60));
    const field = known.includes(name) ? fieldAt(childPath(path, name)) : undefined;
    if (field === undefined) {
      state.problems.push({ where: value.where, field: below, message: describeUnknown(name, known) });
      continue;
    }
    if (isNull(value) && !state.keepsNull) continue;
    const decoded = isNull(value) ? value : decodeField(state, value, childPath(path, name), below, field);
    if (decoded !== undefined) entries.set(name, decoded);
  }
  for (const name of known)
    if (fieldAt(childPath(path, name))?.isRequired && isNull(node.entries.get(name)))
      state.problems.push({
        where: node.where,
        field: childPath(shownPath, name),
        message: "missing, must be set",
      });
  return { ...node, entries };
}

function decodeField(
  state: DecodeState,
  node: ValueNode,
  path: string,
  shownPath: string,
  field: FieldRule,
): ValueNode | undefined {
  if (field.isNonEmpty && node.kind === "list" && node.items.length === 0) {
    const message = "found an empty list, must have at least one element";
    state.problems.push({ where: node.where, field: shownPath, message });
    return undefined;
  }
  switch (field.type) {
    case "struct":
    case "*struct":
      return node.kind === "map"
        ? decodeStruct(state, node, path, shownPath)
        : addShapeProblem(state, node, shownPath, field);
    case "[]struct":
      return node.kind === "list"
        ? decodeStructList(state, node, path, shownPath, field)
        : addShapeProblem(state, node, shownPath, field);
    case "[]string":
    case "[]int32":
      return node.kind === "list"
        ? decodeList(state, node, shownPath, field)
        : addShapeProblem(state, node, shownPath, field);
    case "map[string]string":
    case "map[string]bool":
    case "map[string]Quantity":
    case "map[string][]string":
      return node.kind === "map"
        ? decodeMap(state, node, shownPath, field)
        : addShapeProblem(state, node, shownPath, field);
    default:
      return decodeValue(state, node, shownPath, field);
  }
}

function decodeStructList(
  state: DecodeState,
  list: ListNode,
  path: string,
  shownPath: string,
  field: FieldRule,
): ValueNode {
  const items = list.items.map((item, index) => {
    const itemPath = `${shownPath}[${index}]`;
    const before = state.problems.length;
    const decoded = item.kind === "map" ? decodeStruct(state, item, `${path}[]`, itemPath) : undefined;
    if (decoded === undefined) addProblem(state, item, itemPath, field, "a map of fields");
    // Empty an invalid element, so that later checks do not report the fields removed from it.
    return decoded !== undefined && state.problems.length === before ? decoded : emptyMap(DEFAULT_ORIGIN);
  });
  return { ...list, items };
}

function decodeList(state: DecodeState, list: ListNode, shownPath: string, field: FieldRule): ValueNode {
  const invalidItem: ValueNode = { kind: "scalar", value: null, where: DEFAULT_ORIGIN };
  const items = list.items.map(
    (item, index) => decodeValue(state, item, `${shownPath}[${index}]`, field) ?? invalidItem,
  );
  return { ...list, items };
}

function decodeMap(state: DecodeState, map: MapNode, shownPath: string, field: FieldRule): ValueNode {
  const entries = new Map<string, ValueNode>();
  for (const [key, value] of map.entries) {
    const itemPath = keyPath(shownPath, key);
    const decoded = isNull(value) && state.keepsNull ? value : decodeMapValue(state, value, itemPath, field);
    if (decoded !== undefined) entries.set(key, decoded);
  }
  return { ...map, entries };
}

function decodeMapValue(
  state: DecodeState,
  value: ValueNode,
  itemPath: string,
  field: FieldRule,
): ValueNode | undefined {
  if (field.type !== "map[string][]string") return decodeValue(state, value, itemPath, field);
  return value.kind === "list"
    ? decodeList(state, value, itemPath, field)
    : addProblem(state, value, itemPath, field, "a list of strings");
}

function decodeValue(state: DecodeState, node: ValueNode, shownPath: string, field: FieldRule): ValueNode | undefined {
  if (node.kind === "scalar" && hasType(valueType(field.type), node.value)) {
    const problem = field.problemOf?.(String(node.value));
    return problem === undefined ? node : addMessage(state, node, shownPath, field, problem);
  }
  const hasForm = field.allowed !== undefined || field.problemOf !== undefined;
  const needsQuotes = valueType(field.type) === "string" && node.kind === "scalar" && !hasForm;
  const hint = needsQuotes && node.value !== null ? " (put it in quotes)" : "";
  return addProblem(state, node, shownPath, field, `${describeExpectation(field)}${hint}`);
}

function addShapeProblem(state: DecodeState, node: ValueNode, shownPath: string, field: FieldRule): undefined {
  return addProblem(state, node, shownPath, field, describeField(field));
}

function addProblem(
  state: DecodeState,
  node: ValueNode,
  shownPath: string,
  field: FieldRule,
  expected: string,
): undefined {
  return addMessage(state, node, shownPath, field, `must be ${expected}`);
}

function addMessage(
  { problems }: DecodeState,
  node: ValueNode,
  shownPath: string,
  field: FieldRule,
  message: string,
): undefined {
  const found = field.secret ? "a value that is not shown" : describeNode(node);
  problems.push({ where: node.where, field: shownPath, message: `found ${found}, ${message}` });
  return undefined;
}

function isNull(node: ValueNode | undefined): boolean {
  return node === undefined || (node.kind === "scalar" && node.value === null);
}

function describeUnknown(name: string, names: readonly string[]): string {
  const nearest = nearestName(name, names);
  if (nearest !== undefined) return `unknown field, did you mean ${nearest}?`;
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
        ? valueChecks["a quantity such as 10Mi"](String(value))
        : false;
    case "*Time":
      return typeof value === "string" && isTime(value);
    default:
      return typeof value === "string";
  }
}

function isIntegerWithin(value: Scalar, min: number, max: number): boolean {
  return typeof value === "number" && Number.isInteger(value) && value >= min && value <= max;
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
