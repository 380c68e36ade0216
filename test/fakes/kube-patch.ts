/** Applies JSON merge patches (RFC 7386) and Kubernetes' strategic merge patches as the API server does. */

export interface JsonObject {
  readonly [key: string]: unknown;
}

export const isJsonObject = (value: unknown): value is JsonObject =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** RFC 7386: null removes a key, objects are merged, everything else is replaced. */
export function applyMergePatch(original: unknown, patch: unknown): unknown {
  if (!isJsonObject(patch)) return patch;
  const merged: Record<string, unknown> = isJsonObject(original) ? { ...original } : {};
  for (const [key, value] of Object.entries(patch))
    if (value === null) delete merged[key];
    else merged[key] = applyMergePatch(merged[key], value);
  return merged;
}

/**
 * The lists that are merged, with their merge key; an empty key for lists of primitives. All other lists are replaced.
 * Rule: the patchStrategy and patchMergeKey tags of Kubernetes' types.
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

const ORDER_DIRECTIVE = "$setElementOrder/";
const DELETE_DIRECTIVE = "$deleteFromPrimitiveList/";

export function strategicMerge(original: JsonObject, patch: JsonObject): JsonObject {
  if (patch["$patch"] === "delete") return {};
  if (patch["$patch"] === "replace") return withoutDirectives(Object.fromEntries(withoutMarker(patch))) as JsonObject;
  const retained = patch["$retainKeys"] as readonly string[] | undefined;
  const merged: Record<string, unknown> = Object.fromEntries(
    Object.entries(original).filter(([key]) => retained?.includes(key) ?? true),
  );
  for (const [key, value] of Object.entries(patch)) {
    if (key.startsWith("$")) continue;
    const before = merged[key];
    if (value === null) delete merged[key];
    else if (isJsonObject(before) && isJsonObject(value)) merged[key] = strategicMerge(before, value);
    else if (Array.isArray(before) && Array.isArray(value)) merged[key] = mergeList(key, before, value);
    else if (isDirective(value)) delete merged[key];
    else merged[key] = withoutDirectives(value);
  }
  for (const [directive, value] of Object.entries(patch)) {
    const items = value as readonly unknown[];
    if (directive.startsWith(DELETE_DIRECTIVE)) {
      const key = directive.slice(DELETE_DIRECTIVE.length);
      merged[key] = ((merged[key] ?? []) as readonly unknown[]).filter((item) => !items.includes(item));
    }
    if (directive.startsWith(ORDER_DIRECTIVE)) {
      const key = directive.slice(ORDER_DIRECTIVE.length);
      const before = (original[key] ?? []) as readonly unknown[];
      if (Array.isArray(merged[key])) merged[key] = orderMerged(merged[key], items, before, mergeKeyOf(key, before));
    }
  }
  return merged;
}

type MergeKey = (item: unknown) => unknown;

function mergeKeyOf(list: string, items: readonly unknown[]): MergeKey | undefined {
  // Containers and Services both have a list `ports`, with different merge keys.
  const portKey = items.some((item) => isJsonObject(item) && "containerPort" in item) ? "containerPort" : "port";
  const key = list === "ports" ? portKey : MERGED_LISTS[list];
  if (key === undefined) return undefined;
  return (item) => (isJsonObject(item) ? item[key] : item);
}

function mergeList(list: string, original: readonly unknown[], patch: readonly unknown[]): readonly unknown[] {
  const mergeKey = mergeKeyOf(list, [...original, ...patch]);
  if (mergeKey === undefined) return withoutDirectives(patch) as readonly unknown[];
  const isMarked = (item: unknown, directive: string) => isJsonObject(item) && item["$patch"] === directive;
  const removed = new Set(patch.filter((item) => isMarked(item, "delete")).map(mergeKey));
  const plain = patch.filter((item) => !isJsonObject(item) || item["$patch"] === undefined);
  if (patch.some((item) => isMarked(item, "replace"))) return plain;

  const kept = original.filter((item) => !removed.has(mergeKey(item)));
  const merged = [...kept];
  for (const item of plain) {
    const index = merged.findIndex((other) => mergeKey(other) === mergeKey(item));
    const before = merged[index];
    if (index < 0) merged.push(withoutDirectives(item));
    else if (isJsonObject(before) && isJsonObject(item)) merged[index] = strategicMerge(before, item);
  }
  return orderMerged(merged, plain, kept, mergeKey);
}

/**
 * Orders a merged list: items that the patch names in the patch's order, the others in their old order. When the two
 * sequences are merged, the old order decides between two items that it contains.
 */
function orderMerged(
  merged: readonly unknown[],
  patch: readonly unknown[],
  before: readonly unknown[],
  mergeKey: MergeKey = (item) => item,
): readonly unknown[] {
  const indexIn = (list: readonly unknown[], item: unknown) =>
    list.findIndex((other) => mergeKey(other) === mergeKey(item));
  const named = merged.filter((item) => indexIn(patch, item) >= 0);
  const others = merged.filter((item) => indexIn(patch, item) < 0);
  named.sort((a, b) => indexIn(patch, a) - indexIn(patch, b));
  others.sort((a, b) => indexIn(before, a) - indexIn(before, b));
  const all: unknown[] = [];
  for (;;) {
    const [next, other] = [named[0], others[0]];
    if (named.length === 0 || others.length === 0) return [...all, ...others, ...named];
    const [nextIndex, otherIndex] = [indexIn(before, next), indexIn(before, other)];
    if (nextIndex >= 0 && otherIndex >= 0 && otherIndex < nextIndex) all.push(others.shift());
    else all.push(named.shift());
  }
}

const withoutMarker = (patch: JsonObject) => Object.entries(patch).filter(([key]) => key !== "$patch");

/** A map with `$patch` where the object has no map: the server takes it for a directive without content. */
const isDirective = (value: unknown) => isJsonObject(value) && value["$patch"] !== undefined;

/** A value that is added: without directives, and without nulls, which have nothing to remove. */
function withoutDirectives(value: unknown): unknown {
  if (Array.isArray(value)) return value.filter((item) => !isDirective(item)).map(withoutDirectives);
  if (!isJsonObject(value)) return value;
  const plain = Object.entries(value).filter(
    ([key, field]) => !key.startsWith("$") && field !== null && !isDirective(field),
  );
  return Object.fromEntries(plain.map(([key, field]) => [key, withoutDirectives(field)]));
}
