import { isDeepStrictEqual } from "node:util";
import {
  DEFAULT_ORIGIN,
  type Json,
  type MapNode,
  shorten,
  toJson,
  type ValueNode,
} from "../../../proto/yaml/value-node.ts";
import { parseDuration } from "../fields/duration.ts";
import { childPath } from "../fields/field-tree.ts";
import { childNames, fieldAt } from "./config-fields.ts";
import type { Field } from "./field.ts";
import { isUnimplementedChange } from "./gates.ts";

/**
 * Returns one warning for each set field that requests an unimplemented feature, also if that is the kubelet's default:
 * where it was set, and what happens instead.
 */
export function findWarnings(config: MapNode): readonly string[] {
  return [...collectWarnings(config, ""), ...gateWarnings(config.entries.get("featureGates"))];
}

function collectWarnings(map: MapNode, path: string): readonly string[] {
  return childNames(path).flatMap((name) => {
    const below = childPath(path, name);
    const value = map.entries.get(name);
    const field = fieldAt(below);
    if (value === undefined || field === undefined) return [];
    if (field.type === "struct" || field.type === "*struct")
      return value.kind === "map" ? collectWarnings(value, below) : [];
    return needsWarning(value, field) ? [formatWarning(value, below, field)] : [];
  });
}

function needsWarning(value: ValueNode, { implemented, implementedValues }: Field): boolean {
  const json = toJson(value);
  if (implementedValues !== undefined && elementsOf(json).every((each) => isOneOf(each, implementedValues)))
    return false;
  // A field that is implemented only in part is reported even with its default, when the default is the unimplemented
  // part.
  if (implemented) return implementedValues !== undefined;
  return originOf(value) !== DEFAULT_ORIGIN && !isEmpty(value);
}

/** The values that `implementedValues` applies to: the elements of a list or map, or the value itself. */
function elementsOf(json: Json): readonly Json[] {
  return typeof json === "object" && json !== null ? Object.values(json) : [json];
}

function isOneOf(json: Json, all: readonly Json[]): boolean {
  return all.some((one) => isSame(one, json));
}

function isEmpty(value: ValueNode): boolean {
  return (value.kind === "list" && value.items.length === 0) || (value.kind === "map" && value.entries.size === 0);
}

/** Whether the values are equal; 60s equals 1m. */
function isSame(one: Json, other: Json): boolean {
  if (typeof one !== "string" || typeof other !== "string" || one === other) return isDeepStrictEqual(one, other);
  const durationMs = parseDuration(one);
  return durationMs !== undefined && durationMs === parseDuration(other);
}

/** Where a value was set. For a map merged with defaults: where its first explicit entry was set. */
function originOf(value: ValueNode): string {
  if (value.where !== DEFAULT_ORIGIN || value.kind !== "map") return value.where;
  const origins = [...value.entries.values()].map(originOf);
  return origins.find((origin) => origin !== DEFAULT_ORIGIN) ?? DEFAULT_ORIGIN;
}

function formatWarning(value: ValueNode, path: string, { secret, insteadMessage }: Field): string {
  const shown = secret ? "" : ` ${shorten(JSON.stringify(toJson(value)))}`;
  return `${originOf(value)}: ${path}${shown} is known but not implemented yet: ${insteadMessage}`;
}

function gateWarnings(gates: ValueNode | undefined): readonly string[] {
  if (gates?.kind !== "map") return [];
  return [...gates.entries]
    .filter(([name, value]) => value.kind === "scalar" && isUnimplementedChange(name, value.value === true))
    .map(([name, value]) => `${value.where}: the feature gate ${name} is known but has no effect yet`);
}
