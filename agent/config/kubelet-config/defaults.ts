import {
  defaultOrigin,
  emptyMap,
  getAt,
  type Json,
  type MapNode,
  type Node,
  nodeOf,
  setAt,
} from "../../../proto/yaml/value-node.ts";
import { parseDuration } from "../fields/duration.ts";
import type { Field } from "../fields/field-rule.ts";
import { fieldAt, namesBelow, pathBelow } from "../fields/field-tree.ts";
import type { Gates } from "./gates.ts";

/**
 * Fills in whatever is not set, as the kubelet does for a configuration file. What is already set stays, so applying it
 * twice changes nothing. Fields of the caller's keep their origin; the others come from `default`.
 */
export function applyDefaults(config: MapNode, gates: Gates): MapNode {
  return fill(applyDependentDefaults(config), "", gates, defaultOrigin);
}

/** Defaults that follow from other fields. Rule: SetDefaults_KubeletConfiguration. */
function applyDependentDefaults(config: MapNode): MapNode {
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
    filled = setAt(filled, ["serializeImagePulls"], nodeOf(false, defaultOrigin));
  const pids = config.entries.get("podPidsLimit");
  if (pids?.kind === "scalar" && Number(pids.value) < 0)
    filled = setAt(filled, ["podPidsLimit"], { ...pids, value: -1 });
  return mergeDefaultThresholds(filled);
}

/** A partial evictionHard replaces the default thresholds, unless it is asked to add to them. */
function mergeDefaultThresholds(config: MapNode): MapNode {
  const merges = getAt(config, ["mergeDefaultEvictionSettings"]);
  const given = config.entries.get("evictionHard");
  if (merges?.kind !== "scalar" || merges.value !== true || given?.kind !== "map") return config;
  const thresholds = nodeOf(fieldAt("evictionHard")?.default ?? {}, defaultOrigin);
  const missing =
    thresholds.kind === "map" ? [...thresholds.entries].filter(([signal]) => !given.entries.has(signal)) : [];
  return setAt(config, ["evictionHard"], { ...given, entries: new Map([...given.entries, ...missing]) });
}

/** In the order of the table. `origin` is who answers for a missing field: an element of a list must be whole, so there it is the element. */
function fill(map: MapNode, path: string, gates: Gates, origin: string): MapNode {
  const entries = new Map<string, Node>();
  for (const name of namesBelow(path)) {
    const below = pathBelow(path, name);
    const field = fieldAt(below);
    const value = field && fillField(map.entries.get(name), below, field, gates, origin);
    if (value !== undefined) entries.set(name, value);
  }
  return { ...map, entries };
}

function fillField(
  value: Node | undefined,
  path: string,
  field: Field,
  gates: Gates,
  origin: string,
): Node | undefined {
  switch (field.type) {
    case "struct":
      return fill(value?.kind === "map" ? value : emptyMap(defaultOrigin), path, gates, origin);
    case "*struct":
      return value?.kind === "map" ? fill(value, path, gates, origin) : undefined;
    case "[]struct":
      if (value?.kind !== "list") return nodeOf([], defaultOrigin);
      return {
        ...value,
        items: value.items.map((item) => (item.kind === "map" ? fill(item, `${path}[]`, gates, item.where) : item)),
      };
    default:
      return isSet(value, field) ? value : defaultOf(field, gates, origin);
  }
}

function defaultOf(field: Field, gates: Gates, origin: string): Node | undefined {
  if (field.gate !== undefined && !gates[field.gate]) return undefined;
  const value = field.default ?? zeroOf(field);
  return value === undefined ? undefined : nodeOf(value, origin);
}

/** Go cannot tell a zero from nothing, except behind a pointer and in lists and maps. */
function isSet(value: Node | undefined, { type }: Field): boolean {
  if (value?.kind !== "scalar") return value !== undefined;
  if (type === "Duration" || type === "TimeOrMetaDuration") return !isZeroDuration(value);
  return type.startsWith("*") || !(value.value === "" || value.value === 0 || value.value === false);
}

function isZeroDuration(node: Node | undefined): boolean {
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
