/** Patches as an API server applies them. The rules: RFC 7386, and Kubernetes' strategic merge patch. */
export type Json = unknown;
export interface JsonObject {
  readonly [key: string]: Json;
}

export const isJsonObject = (value: Json): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** RFC 7386: null removes, objects are merged, anything else replaces. */
export function mergePatch(original: Json, patch: Json): Json {
  if (!isJsonObject(patch)) return patch;
  const merged: Record<string, Json> = isJsonObject(original) ? { ...original } : {};
  for (const [key, value] of Object.entries(patch))
    if (value === null) delete merged[key];
    else merged[key] = mergePatch(merged[key], value);
  return merged;
}

/**
 * The lists that are merged, and by which field their elements are told apart; an empty name where the elements are themselves
 * what is compared. All others are replaced. Rule: the patchStrategy and patchMergeKey tags of Kubernetes' types.
 */
const MERGED_LISTS: Readonly<Record<string, string>> = {
  addresses: "type",
  allocatedResourcesStatus: "name",
  conditions: "type",
  containers: "name",
  env: "name",
  ephemeralContainers: "name",
  finalizers: "",
  hostAliases: "ip",
  hostIPs: "ip",
  imagePullSecrets: "name",
  initContainers: "name",
  ownerReferences: "uid",
  podCIDRs: "",
  podIPs: "ip",
  resourceClaimStatuses: "name",
  resourceClaims: "name",
  schedulingGates: "name",
  secrets: "name",
  topologySpreadConstraints: "topologyKey",
  volumeDevices: "devicePath",
  volumeMounts: "mountPath",
  volumes: "name",
};

const ORDER = "$setElementOrder/";
const REMOVAL = "$deleteFromPrimitiveList/";

export function strategicMerge(original: JsonObject, patch: JsonObject): JsonObject {
  if (patch["$patch"] === "delete") return {};
  if (patch["$patch"] === "replace") return withoutDirectives(Object.fromEntries(withoutMarker(patch))) as JsonObject;
  const retained = patch["$retainKeys"] as readonly string[] | undefined;
  const merged: Record<string, Json> = Object.fromEntries(
    Object.entries(original).filter(([key]) => retained?.includes(key) ?? true),
  );
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith("$")) continue;
    const before = merged[key];
    if (value === null) delete merged[key];
    else if (isJsonObject(before) && isJsonObject(value)) merged[key] = strategicMerge(before, value);
    else if (Array.isArray(before) && Array.isArray(value)) merged[key] = mergeList(key, before, value);
    else merged[key] = withoutDirectives(value);
  }
  for (const [directive, value] of Object.entries(patch)) {
    const items = value as readonly Json[];
    if (directive.startsWith(REMOVAL)) {
      const key = directive.slice(REMOVAL.length);
      merged[key] = ((merged[key] ?? []) as readonly Json[]).filter((item) => !items.includes(item));
    }
    if (directive.startsWith(ORDER)) {
      const key = directive.slice(ORDER.length);
      const before = (original[key] ?? []) as readonly Json[];
      if (Array.isArray(merged[key])) merged[key] = inOrder(merged[key], items, before, identityOf(key, before));
    }
  }
  return merged;
}

type Identity = (item: Json) => Json;

function identityOf(list: string, items: readonly Json[]): Identity | undefined {
  // Containers and services call their lists alike.
  const portKey = items.some((item) => isJsonObject(item) && "containerPort" in item) ? "containerPort" : "port";
  const key = list === "ports" ? portKey : MERGED_LISTS[list];
  if (key === undefined) return undefined;
  return (item) => (isJsonObject(item) ? item[key] : item);
}

function mergeList(list: string, original: readonly Json[], patch: readonly Json[]): readonly Json[] {
  const identity = identityOf(list, [...original, ...patch]);
  if (identity === undefined) return withoutDirectives(patch) as readonly Json[];
  const isMarked = (item: Json, directive: string) => isJsonObject(item) && item["$patch"] === directive;
  const removed = new Set(patch.filter((item) => isMarked(item, "delete")).map(identity));
  const plain = patch.filter((item) => !isJsonObject(item) || item["$patch"] === undefined);
  if (patch.some((item) => isMarked(item, "replace"))) return plain;

  const kept = original.filter((item) => !removed.has(identity(item)));
  const merged = [...kept];
  for (const item of plain) {
    const index = merged.findIndex((other) => identity(other) === identity(item));
    const before = merged[index];
    if (index < 0) merged.push(withoutDirectives(item));
    else if (isJsonObject(before) && isJsonObject(item)) merged[index] = strategicMerge(before, item);
  }
  return inOrder(merged, plain, kept, identity);
}

/**
 * What the patch names comes in the patch's order, and the rest in the order it had. Where the two meet, the old order decides, as
 * far as it knows both.
 */
function inOrder(
  merged: readonly Json[],
  patch: readonly Json[],
  before: readonly Json[],
  identity: Identity = (item) => item,
): readonly Json[] {
  const placeIn = (list: readonly Json[], item: Json) => list.findIndex((other) => identity(other) === identity(item));
  const named = merged.filter((item) => placeIn(patch, item) >= 0);
  const others = merged.filter((item) => placeIn(patch, item) < 0);
  named.sort((a, b) => placeIn(patch, a) - placeIn(patch, b));
  others.sort((a, b) => placeIn(before, a) - placeIn(before, b));
  const all: Json[] = [];
  for (;;) {
    const [next, other] = [named[0], others[0]];
    if (named.length === 0 || others.length === 0) return [...all, ...others, ...named];
    const [place, otherPlace] = [placeIn(before, next), placeIn(before, other)];
    if (place >= 0 && otherPlace >= 0 && otherPlace < place) all.push(others.shift());
    else all.push(named.shift());
  }
}

const withoutMarker = (patch: JsonObject) => Object.entries(patch).filter(([key]) => key !== "$patch");

/** What is new is taken as it is, but for directives, and nulls, which have nothing to remove. */
function withoutDirectives(value: Json): Json {
  if (Array.isArray(value))
    return value.filter((item) => !isJsonObject(item) || item["$patch"] === undefined).map(withoutDirectives);
  if (!isJsonObject(value)) return value;
  const plain = Object.entries(value).filter(([key, field]) => !key.startsWith("$") && field !== null);
  return Object.fromEntries(plain.map(([key, field]) => [key, withoutDirectives(field)]));
}
