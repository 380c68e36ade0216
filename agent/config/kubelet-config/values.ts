import { nearestName } from "../../../proto/nearest-name.ts";
import { defaultOrigin, type Node, type Scalar, type ScalarNode, showNode } from "../../../proto/yaml/value-node.ts";
import { parseDuration } from "../fields/duration.ts";
import type { Field } from "../fields/field-rule.ts";
import { fieldAt, keyBelow, pathBelow } from "../fields/field-tree.ts";
import { checks, isMemoryResource } from "../fields/value-checks.ts";
import { describeExpectation } from "../fields/value-description.ts";
import type { Problem } from "../problem.ts";
import { refuseGate } from "./gates.ts";

const fewKeys = 6;

/** Holds every value of the whole configuration against its row: ranges, enumerations, formats, keys of maps. */
export function checkValues(config: Node): readonly Problem[] {
  return checkNode(config, "", "", undefined);
}

function checkNode(node: Node, path: string, shown: string, above: Field | undefined): readonly Problem[] {
  const field = fieldAt(path) ?? above;
  switch (node.kind) {
    case "list":
      return node.items.flatMap((item, index) =>
        checkNode(item, item.kind === "map" ? `${path}[]` : path, `${shown}[${index}]`, field),
      );
    case "map":
      return [...node.entries].flatMap(([key, value]) => {
        if (field?.type.startsWith("map[")) return checkEntry(key, value, path, keyBelow(shown, key), field);
        return checkNode(value, pathBelow(path, key), pathBelow(shown, key), undefined);
      });
    case "scalar":
      return field === undefined ? [] : checkScalar(node, shown, field);
  }
}

function checkEntry(key: string, value: Node, path: string, shown: string, field: Field): readonly Problem[] {
  const { where } = value;
  if (path === "featureGates") {
    const message =
      value.kind === "scalar" && typeof value.value === "boolean" ? refuseGate(key, value.value) : undefined;
    return message === undefined ? [] : [{ where, field: pathBelow(path, key.slice(0, 60)), message }];
  }
  if (path === "reservedMemory[].limits" && !isMemoryResource(key))
    return [{ where, field: shown, message: "unknown resource, known are memory and hugepages-<size>" }];
  if (field.keys !== undefined && !field.keys.includes(key)) {
    const nearest = field.keys.length > fewKeys ? nearestName(key, field.keys) : undefined;
    const hint = nearest === undefined ? `must be one of ${field.keys.join(", ")}` : `did you mean ${nearest}?`;
    return [{ where, field: shown, message: `unknown key, ${hint}` }];
  }
  return checkNode(value, path, shown, field);
}

function checkScalar(node: ScalarNode, shown: string, field: Field): readonly Problem[] {
  // A default that depends on a gate or that means "not set" is right by construction.
  if (node.where === defaultOrigin || isAccepted(node.value, field)) return [];
  const found = field.secret ? "a value that is not shown" : showNode(node);
  return [{ where: node.where, field: shown, message: `found ${found}, must be ${describeExpectation(field)}` }];
}

function isAccepted(value: Scalar, { allowed, range, must }: Field): boolean {
  if (allowed !== undefined) return allowed.some((one) => one === value);
  if (must !== undefined) return checks[must](String(value));
  if (range === undefined) return true;
  const [least, greatest] = range;
  const amount = amountOf(value);
  return amount >= amountOf(least) && amount <= amountOf(greatest);
}

/** A number as itself, a duration in milliseconds. */
function amountOf(value: Scalar): number {
  return typeof value === "string" ? (parseDuration(value) ?? Number.NaN) : Number(value);
}
