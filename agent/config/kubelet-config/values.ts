import { nearestName } from "../../../proto/nearest-name.ts";
import {
  DEFAULT_ORIGIN,
  describeNode,
  type Scalar,
  type ScalarNode,
  type ValueNode,
} from "../../../proto/yaml/value-node.ts";
import { parseDuration } from "../fields/duration.ts";
import { childPath, keyPath } from "../fields/field-tree.ts";
import { isMemoryResource, valueChecks } from "../fields/value-checks.ts";
import { describeExpectation } from "../fields/value-description.ts";
import type { Problem } from "../problem.ts";
import { fieldAt } from "./config-fields.ts";
import type { Field } from "./field.ts";
import { gateError } from "./gates.ts";

const MAX_LISTED_KEYS = 6;

/** Checks every value of the merged configuration against the schema: ranges, enumerations, formats, map keys. */
export function checkValues(config: ValueNode): readonly Problem[] {
  return checkNode(config, "", "", undefined);
}

function checkNode(
  node: ValueNode,
  path: string,
  shownPath: string,
  parentField: Field | undefined,
): readonly Problem[] {
  const field = fieldAt(path) ?? parentField;
  switch (node.kind) {
    case "list":
      return node.items.flatMap((item, index) =>
        checkNode(item, item.kind === "map" ? `${path}[]` : path, `${shownPath}[${index}]`, field),
      );
    case "map":
      return [...node.entries].flatMap(([key, value]) => {
        if (field?.type.startsWith("map[")) return checkEntry(key, value, path, keyPath(shownPath, key), field);
        return checkNode(value, childPath(path, key), childPath(shownPath, key), undefined);
      });
    case "scalar":
      return field === undefined ? [] : checkScalar(node, shownPath, field);
  }
}

function checkEntry(key: string, value: ValueNode, path: string, shownPath: string, field: Field): readonly Problem[] {
  const { where } = value;
  if (path === "featureGates") {
    const message =
      value.kind === "scalar" && typeof value.value === "boolean" ? gateError(key, value.value) : undefined;
    return message === undefined ? [] : [{ where, field: childPath(path, key.slice(0, 60)), message }];
  }
  if (path === "reservedMemory[].limits" && !isMemoryResource(key))
    return [{ where, field: shownPath, message: "unknown resource, known are memory and hugepages-<size>" }];
  if (field.keys !== undefined && !field.keys.includes(key)) {
    const nearest = field.keys.length > MAX_LISTED_KEYS ? nearestName(key, field.keys) : undefined;
    const hint = nearest === undefined ? `must be one of ${field.keys.join(", ")}` : `did you mean ${nearest}?`;
    return [{ where, field: shownPath, message: `unknown key, ${hint}` }];
  }
  return checkNode(value, path, shownPath, field);
}

function checkScalar(node: ScalarNode, shownPath: string, field: Field): readonly Problem[] {
  // Default values need no check, such as one that depends on a gate or means "unset".
  if (node.where === DEFAULT_ORIGIN || isAccepted(node.value, field)) return [];
  const found = field.secret ? "a value that is not shown" : describeNode(node);
  return [{ where: node.where, field: shownPath, message: `found ${found}, must be ${describeExpectation(field)}` }];
}

function isAccepted(value: Scalar, { allowed, range, must }: Field): boolean {
  if (allowed !== undefined) return allowed.some((one) => one === value);
  if (must !== undefined) return valueChecks[must](String(value));
  if (range === undefined) return true;
  const [min, max] = range;
  const amount = toNumber(value);
  return amount >= toNumber(min) && amount <= toNumber(max);
}

/** Returns numbers unchanged and durations in milliseconds. */
function toNumber(value: Scalar): number {
  return typeof value === "string" ? (parseDuration(value) ?? Number.NaN) : Number(value);
}
