import {
  DEFAULT_ORIGIN,
  emptyMap,
  getAt,
  type Json,
  type MapNode,
  setAt,
  toNode,
  type ValueNode,
} from "../../../proto/yaml/value-node.ts";
import { parseDuration } from "../fields/duration.ts";
import { childPath } from "../fields/field-tree.ts";
import { childNames, fieldAt } from "./config-fields.ts";
import type { Field } from "./field.ts";
import type { Gates } from "./gates.ts";

/**
 * Fills in the defaults of a configuration file as the kubelet does. Set values stay, so applying it twice changes
 * nothing. Given fields keep their origin; added ones have the origin `default`.
 */
export function applyDefaults(config: MapNode, gates: Gates): MapNode {
  return fill(applyDerivedDefaults(config), "", gates, DEFAULT_ORIGIN);
}

/** Defaults that depend on other fields. Rule: SetDefaults_KubeletConfiguration. */
function applyDerivedDefaults(config: MapNode): MapNode {
  let filled = config;
  const updates = config.entries.get("nodeStatusUpdateFrequency");
  if (
    updates !== undefined &&
    !isZeroDuration(updates) &&
    isZeroDuration(config.entries.get("nodeStatusReportFrequency"))
  )
    filled = setAt(filled, ["nodeStatusReportFrequency"], updates);
  const parallel = config.entries.get("maxParallelImagePulls");
  if (parallel?.kind === "scalar" && Number(parallel.value) >= 2 && !config.entries.has("serializeImagePulls"))
    filled = setAt(filled, ["serializeImagePulls"], toNode(false, DEFAULT_ORIGIN));
  const pids = config.entries.get("podPidsLimit");
  if (pids?.kind === "scalar" && Number(pids.value) < 0)
    filled = setAt(filled, ["podPidsLimit"], { ...pids, value: -1 });
  return mergeDefaultThresholds(filled);
}

/** A partial evictionHard replaces the default thresholds unless mergeDefaultEvictionSettings is true. */
function mergeDefaultThresholds(config: MapNode): MapNode {
  const mergeFlag = getAt(config, ["mergeDefaultEvictionSettings"]);
  const given = config.entries.get("evictionHard");
  if (mergeFlag?.kind !== "scalar" || mergeFlag.value !== true || given?.kind !== "map") return config;
  const thresholds = toNode(fieldAt("evictionHard")?.default ?? {}, DEFAULT_ORIGIN);
  const missing =
    thresholds.kind === "map" ? [...thresholds.entries].filter(([signal]) => !given.entries.has(signal)) : [];
  return setAt(config, ["evictionHard"], { ...given, entries: new Map([...given.entries, ...missing]) });
}

/**
 * Fills one struct in the order of the schema. `origin` is recorded for added values: within a list it is the element,
 * which must be complete.
 */
function fill(map: MapNode, path: string, gates: Gates, origin: string): MapNode {
  const entries = new Map<string, ValueNode>();
  for (const name of childNames(path)) {
    const below = childPath(path, name);
    const field = fieldAt(below);
    const value = field && fillField(map.entries.get(name), below, field, gates, origin);
    if (value !== undefined) entries.set(name, value);
  }
  return { ...map, entries };
}

function fillField(
  value: ValueNode | undefined,
  path: string,
  field: Field,
  gates: Gates,
  origin: string,
): ValueNode | undefined {
  switch (field.type) {
    case "struct":
      return fill(value?.kind === "map" ? value : emptyMap(DEFAULT_ORIGIN), path, gates, origin);
    case "*struct":
      return value?.kind === "map" ? fill(value, path, gates, origin) : undefined;
    case "[]struct":
      if (value?.kind !== "list") return toNode([], DEFAULT_ORIGIN);
      return {
        ...value,
        items: value.items.map((item) => (item.kind === "map" ? fill(item, `${path}[]`, gates, item.where) : item)),
      };
    default:
      return isSet(value, field) ? value : defaultOf(field, gates, origin);
  }
}

function defaultOf(field: Field, gates: Gates, origin: string): ValueNode | undefined {
  if (field.gate !== undefined && !gates[field.gate]) return undefined;
  const value = field.default ?? zeroOf(field);
  return value === undefined ? undefined : toNode(value, origin);
}

/** Go cannot tell zero from unset, except for pointers, lists and maps. */
function isSet(value: ValueNode | undefined, { type }: Field): boolean {
  if (value?.kind !== "scalar") return value !== undefined;
  if (type === "Duration" || type === "TimeOrMetaDuration") return !isZeroDuration(value);
  return type.startsWith("*") || !(value.value === "" || value.value === 0 || value.value === false);
}

function isZeroDuration(node: ValueNode | undefined): boolean {
  if (node?.kind !== "scalar") return true;
  return node.value === 0 || (typeof node.value === "string" && parseDuration(node.value) === 0);
}

function zeroOf({ type }: Field): Json | undefined {
  switch (type) {
    case "bool":
      return false;
    case "string":
      return "";
    case "int32":
    case "int64":
    case "uint32":
      return 0;
    case "Duration":
    case "TimeOrMetaDuration":
      return "0s";
    case "QuantityValue":
      return "0";
    case "[]string":
    case "[]int32":
    case "[]struct":
      return [];
    case "map[string]string":
    case "map[string]bool":
    case "map[string][]string":
    case "map[string]Quantity":
      return {};
    default:
      return undefined;
  }
}
