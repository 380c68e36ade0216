import { ownNodeLabels } from "../../../proto/kubernetes/well-known-names.ts";
import { parseBoolean, parseInteger } from "../../../proto/yaml/scalar.ts";
import type { Json } from "../../../proto/yaml/value-node.ts";
import { parseDuration } from "../fields/duration.ts";
import { isMemoryResource, valueChecks } from "../fields/value-checks.ts";
import type { Flag } from "./flag.ts";

/** A parsed value, or a description of what was expected. */
export type FlagParseResult = { readonly value: Json } | { readonly expected: string };

/**
 * Parses the texts of one flag. Repeated lists and maps are merged; of all other flags the last text counts. The value
 * is JSON in the shape of the field that the flag sets.
 */
export function parseFlag(flag: Flag, texts: readonly string[]): FlagParseResult {
  const readings = accumulates(flag)
    ? texts.map((text) => parseText(flag, text))
    : texts.map((text) => parseText(flag, text)).slice(-1);
  const invalid = readings.find((reading) => "expected" in reading);
  if (invalid !== undefined) return invalid;
  return { value: readings.map((reading) => ("value" in reading ? reading.value : null)).reduce(merge) };
}

function accumulates({ type }: Flag): boolean {
  return type === "strings" || type === "reserved-memory" || type.startsWith("map") || type.startsWith("colon");
}

function merge(one: Json, other: Json): Json {
  if (Array.isArray(one) && Array.isArray(other)) return [...one, ...other];
  if (!isMap(one) || !isMap(other)) return other;
  const entries = new Map(Object.entries(one));
  // Only the header map holds lists: all headers of one name are sent.
  for (const [key, value] of Object.entries(other))
    entries.set(key, Array.isArray(value) ? merge(entries.get(key) ?? [], value) : value);
  return Object.fromEntries(entries);
}

function parseText(flag: Flag, text: string): FlagParseResult {
  switch (flag.type) {
    case "string":
      return parseString(flag, text);
    case "bool":
      return orExpected(parseBoolean(text), "true or false");
    case "version[=true]":
      if (/^(raw|v\d.*)$/.test(text)) return { value: text };
      return orExpected(parseBoolean(text), "true, false, raw or a version such as v1.36.3");
    case "int32":
      return parseIntegerInRange(text, -(2 ** 31), 2 ** 31 - 1);
    case "int":
      return parseIntegerInRange(text, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, "an integer");
    case "Level":
      return parseIntegerInRange(text, 0, 2 ** 31 - 1);
    case "duration":
      return orExpected(parseDuration(text) === undefined ? undefined : text, "a duration such as 300ms or 1m30s");
    case "quantity":
      return orExpected(valueChecks["a quantity such as 10Mi"](text) ? text : undefined, "a quantity such as 10Mi");
    case "ip":
      return orExpected(valueChecks["an IP address"](text) ? text : undefined, "an IP address");
    case "strings":
      return orExpected(splitList(text), 'a list such as a,b or "a,b",c');
    case "mapStringString":
      return parseMap(flag, text);
    case "mapStringBool":
      return parseBooleans(text);
    case "colonSeparatedMultimapStringString":
      return parseHeaders(text);
    case "[]v1.Taint":
      return parseTaints(text);
    case "reserved-memory":
      return parseReservedMemory(text);
    case "pattern=N,...":
      return parseVerbosityPatterns(text);
  }
}

function parseString({ allowed, must }: Flag, text: string): FlagParseResult {
  if (allowed !== undefined && !allowed.includes(text))
    return { expected: `one of ${allowed.map((one) => JSON.stringify(one)).join(", ")}` };
  return must === undefined || valueChecks[must](text) ? { value: text } : { expected: must };
}

function parseIntegerInRange(
  text: string,
  min: number,
  max: number,
  expected = `an integer from ${min} to ${max}`,
): FlagParseResult {
  const value = parseInteger(text.replaceAll(/(?<=[\da-fA-F])_(?=[\da-fA-F])/g, ""));
  const isWithin = value !== undefined && value >= min && value <= max;
  return isWithin ? { value } : { expected };
}

/** Splits one CSV line; double quotes enclose a value with commas. Rule: pflag uses encoding/csv. */
function splitList(text: string): readonly string[] | undefined {
  if (text === "") return [];
  if (!/^(?:[^",\r\n]*|"(?:[^"]|"")*")(?:,(?:[^",\r\n]*|"(?:[^"]|"")*"))*$/.test(text)) return undefined;
  const values = text.match(/(?<=^|,)(?:"(?:[^"]|"")*"|[^",]*)/g) ?? [];
  return values.map((value) => (value.startsWith('"') ? value.slice(1, -1).replaceAll('""', '"') : value));
}

function parseMap(flag: Flag, text: string): FlagParseResult {
  const { isSinglePair, name } = flag;
  const separator = flag.separator ?? "=";
  const expected = `pairs such as key${separator}value`;
  const parts = isSinglePair ? [text] : text.split(",").filter((part) => part !== "");
  const pairs = parts.map((part) => splitPair(part, separator));
  // A node label may have no value.
  if (name === "node-labels") return parseLabels(pairs);
  if (pairs.some(([, value]) => value === undefined)) return { expected };
  return { value: Object.fromEntries(pairs.map(([key, value = ""]) => [key, value])) };
}

function parseLabels(pairs: readonly (readonly [string, string | undefined])[]): FlagParseResult {
  const invalid = pairs.some(
    ([key, value = ""]) =>
      !valueChecks["a label key such as example.com/role"](key) || !valueChecks["a label value"](value),
  );
  if (invalid) return { expected: "labels such as example.com/role=edge" };
  const reserved = pairs.map(([key]) => key).find((key) => !mayNodeSetLabel(key));
  if (reserved !== undefined) return { expected: `labels that a node may set on itself, unlike ${reserved}` };
  return { value: Object.fromEntries(pairs.map(([key, value = ""]) => [key, value])) };
}

/** Which labels below kubernetes.io and k8s.io a node may set on itself. Rule: IsKubeletLabel. */
function mayNodeSetLabel(key: string): boolean {
  const domain = key.includes("/") ? key.slice(0, key.indexOf("/")) : "";
  if (!/(^|\.)(kubernetes|k8s)\.io$/.test(domain) || ownNodeLabels.includes(key)) return true;
  return /(^|\.)(kubelet|node)\.kubernetes\.io$/.test(domain);
}

function parseBooleans(text: string): FlagParseResult {
  const pairs = text
    .split(",")
    .filter((part) => part !== "")
    .map((part) => splitPair(part, "="));
  const values = pairs.map(([name, value]) => [name, value === undefined ? undefined : parseBoolean(value)] as const);
  const read = values.flatMap(([name, value]) => (value === undefined ? [] : [[name, value] as const]));
  return read.length === values.length
    ? { value: Object.fromEntries(read) }
    : { expected: "switches such as Name=true,Other=false" };
}

function parseHeaders(text: string): FlagParseResult {
  const pairs = text
    .split(",")
    .filter((part) => part !== "")
    .map((part) => splitPair(part, ":"));
  if (pairs.some(([, value]) => value === undefined)) return { expected: "headers such as name:value" };
  return { value: pairs.map(([name, value = ""]): Json => Object.fromEntries([[name, [value]]])).reduce(merge, {}) };
}

function parseTaints(text: string): FlagParseResult {
  const taints = text
    .split(",")
    .filter((part) => part !== "")
    .map((part) => /^([^=:]*)(?:=([^=:]*))?:([^=:]*)$/.exec(part));
  const read = taints.flatMap((taint) =>
    taint === null ? [] : [{ key: taint[1] ?? "", value: taint[2] ?? "", effect: taint[3] ?? "" }],
  );
  return read.length === taints.length ? { value: read } : { expected: "taints such as key=value:NoSchedule" };
}

function parseReservedMemory(text: string): FlagParseResult {
  const expected = "reservations such as 0:memory=1Gi,hugepages-2Mi=2Gi;1:memory=2Gi";
  const nodes = text
    .split(";")
    .filter((part) => part !== "")
    .map((part) => splitPair(part, ":"));
  const read = nodes.flatMap(([node, list = ""]) => {
    const limits = list.split(",").map((limit) => splitPair(limit, "="));
    const isRight =
      /^\d{1,9}$/.test(node) && limits.every(([name, amount]) => isMemoryResource(name) && amount !== undefined);
    return isRight
      ? [{ numaNode: Number(node), limits: Object.fromEntries(limits.map(([name, amount = ""]) => [name, amount])) }]
      : [];
  });
  const areQuantities = read.every(({ limits }) =>
    Object.values(limits).every((amount) => valueChecks["a quantity such as 10Mi"](amount)),
  );
  return read.length === nodes.length && areQuantities ? { value: read } : { expected };
}

function parseVerbosityPatterns(text: string): FlagParseResult {
  const pairs = text
    .split(",")
    .filter((part) => part !== "")
    .map((part) => splitPair(part, "="));
  const read = pairs.flatMap(([filePattern, level = ""]) =>
    /^\d{1,9}$/.test(level) && filePattern !== "" ? [{ filePattern, verbosity: Number(level) }] : [],
  );
  return read.length === pairs.length ? { value: read } : { expected: "patterns such as file=2,other=4" };
}

function splitPair(text: string, separator: string): readonly [string, string | undefined] {
  const at = text.indexOf(separator);
  return at === -1 ? [text.trim(), undefined] : [text.slice(0, at).trim(), text.slice(at + 1).trim()];
}

function orExpected(value: Json | undefined, expected: string): FlagParseResult {
  return value === undefined ? { expected } : { value };
}

function isMap(json: Json): json is { readonly [key: string]: Json } {
  return json !== null && typeof json === "object" && !Array.isArray(json);
}
