import { isDeepStrictEqual } from "node:util";
import { defaultOrigin, type Json, jsonOf, type MapNode, type Node, shorten } from "../../../proto/yaml/value-node.ts";
import { parseDuration } from "../fields/duration.ts";
import type { Field } from "../fields/field-rule.ts";
import { fieldAt, namesBelow, pathBelow } from "../fields/field-tree.ts";
import { hasNoEffect } from "./gates.ts";

/**
 * One line for each field that was set to something other than its default, asks for what does not happen yet, and so is not
 * carried out, saying who set it and what happens instead.
 */
export function findWarnings(config: MapNode): readonly string[] {
  return [...walk(config, ""), ...gateWarnings(config.entries.get("featureGates"))];
}

function walk(map: MapNode, path: string): readonly string[] {
  return namesBelow(path).flatMap((name) => {
    const below = pathBelow(path, name);
    const value = map.entries.get(name);
    const field = fieldAt(below);
    if (value === undefined || field === undefined) return [];
    if (field.type === "struct" || field.type === "*struct") return value.kind === "map" ? walk(value, below) : [];
    return isWorthWarning(value, field) ? [warn(value, below, field)] : [];
  });
}

function isWorthWarning(value: Node, { implemented, implementedValues, default: byDefault }: Field): boolean {
  const json = jsonOf(value);
  if (implementedValues !== undefined && elementsOf(json).every((each) => isOneOf(each, implementedValues)))
    return false;
  // What is carried out only in part is said even of the default, since the default is what does not happen.
  if (implemented) return implementedValues !== undefined;
  if (originOf(value) === defaultOrigin) return false;
  return byDefault === undefined ? !isEmpty(value) : !isSame(json, byDefault);
}

/** The values that a row speaks of: those of a list or map, or the value itself. */
function elementsOf(json: Json): readonly Json[] {
  return typeof json === "object" && json !== null ? Object.values(json) : [json];
}

function isOneOf(json: Json, all: readonly Json[]): boolean {
  return all.some((one) => isSame(one, json));
}

function isEmpty(value: Node): boolean {
  return (value.kind === "list" && value.items.length === 0) || (value.kind === "map" && value.entries.size === 0);
}

/** Equal, and 60s equals 1m. */
function isSame(one: Json, other: Json): boolean {
  if (typeof one !== "string" || typeof other !== "string" || one === other) return isDeepStrictEqual(one, other);
  const durationMs = parseDuration(one);
  return durationMs !== undefined && durationMs === parseDuration(other);
}

/** Who said it: where a default was added to or taken from, the first that did. */
function originOf(value: Node): string {
  if (value.where !== defaultOrigin || value.kind !== "map") return value.where;
  const origins = [...value.entries.values()].map(originOf);
  return origins.find((origin) => origin !== defaultOrigin) ?? defaultOrigin;
}

function warn(value: Node, path: string, { secret, instead }: Field): string {
  const shown = secret ? "" : ` ${shorten(JSON.stringify(jsonOf(value)))}`;
  return `${originOf(value)}: ${path}${shown} is known but not implemented yet: ${instead}`;
}

function gateWarnings(gates: Node | undefined): readonly string[] {
  if (gates?.kind !== "map") return [];
  return [...gates.entries]
    .filter(([name, value]) => value.kind === "scalar" && hasNoEffect(name, value.value === true))
    .map(([name, value]) => `${value.where}: the feature gate ${name} is known but has no effect yet`);
}
