import { parseBoolean, parseInteger } from "../../../proto/yaml/scalar.ts";
import type { Json } from "../../../proto/yaml/value-node.ts";
import { parseDuration } from "../fields/duration.ts";
import { checks, isMemoryResource } from "../fields/value-checks.ts";
import type { Flag } from "./flag.ts";

/** A value, or what it must be where the text is none. */
export type FlagReading = { readonly value: Json } | { readonly expected: string };

/**
 * Reads what a flag was given, all its repetitions together: lists and maps grow, of everything else the last one
 * stands. The value is JSON of the shape of the field that the flag sets.
 */
export function readFlag(flag: Flag, texts: readonly string[]): FlagReading {
  const readings = isGrowing(flag)
    ? texts.map((text) => readText(flag, text))
    : texts.map((text) => readText(flag, text)).slice(-1);
  const wrong = readings.find((reading) => "expected" in reading);
  if (wrong !== undefined) return wrong;
  return { value: readings.map((reading) => ("value" in reading ? reading.value : null)).reduce(join) };
}

function isGrowing({ type }: Flag): boolean {
  return type === "strings" || type === "reserved-memory" || type.startsWith("map") || type.startsWith("colon");
}

function join(one: Json, other: Json): Json {
  if (Array.isArray(one) && Array.isArray(other)) return [...one, ...other];
  if (!isMap(one) || !isMap(other)) return other;
  const entries = new Map(Object.entries(one));
  // The header map alone holds lists: headers of one name are all sent.
  for (const [key, value] of Object.entries(other))
    entries.set(key, Array.isArray(value) ? join(entries.get(key) ?? [], value) : value);
  return Object.fromEntries(entries);
}

function readText(flag: Flag, text: string): FlagReading {
  switch (flag.type) {
    case "string":
      return readString(flag, text);
    case "bool":
      return orExpected(parseBoolean(text), "true or false");
    case "version[=true]":
      if (/^(raw|v\d.*)$/.test(text)) return { value: text };
      return orExpected(parseBoolean(text), "true, false, raw or a version such as v1.36.3");
    case "int32":
      return readInteger(text, -(2 ** 31), 2 ** 31 - 1);
    case "int":
      return readInteger(text, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
    case "Level":
      return readInteger(text, 0, 2 ** 31 - 1);
    case "duration":
      return orExpected(parseDuration(text) === undefined ? undefined : text, "a duration such as 300ms or 1m30s");
    case "quantity":
      return orExpected(checks["a quantity such as 10Mi"](text) ? text : undefined, "a quantity such as 10Mi");
    case "ip":
      return orExpected(checks["an IP address"](text) ? text : undefined, "an IP address");
    case "strings":
      return orExpected(splitList(text), 'a list such as a,b or "a,b",c');
    case "mapStringString":
      return readMap(flag, text);
    case "mapStringBool":
      return readSwitches(text);
    case "colonSeparatedMultimapStringString":
      return readHeaders(text);
    case "[]v1.Taint":
      return readTaints(text);
    case "reserved-memory":
      return readReservedMemory(text);
    case "pattern=N,...":
      return readModules(text);
  }
}

function readString({ allowed, must }: Flag, text: string): FlagReading {
  if (allowed !== undefined && !allowed.includes(text))
    return { expected: `one of ${allowed.map((one) => JSON.stringify(one)).join(", ")}` };
  return must === undefined || checks[must](text) ? { value: text } : { expected: must };
}

function readInteger(text: string, least: number, greatest: number): FlagReading {
  const value = parseInteger(text.replaceAll(/(?<=[\da-fA-F])_(?=[\da-fA-F])/g, ""));
  const isWithin = value !== undefined && value >= least && value <= greatest;
  return isWithin ? { value } : { expected: `an integer from ${least} to ${greatest}` };
}

/** One line of comma-separated values, a value with commas in double quotes. Rule: pflag reads it with encoding/csv. */
function splitList(text: string): readonly string[] | undefined {
  if (text === "") return [];
  if (!/^(?:[^",\r\n]*|"(?:[^"]|"")*")(?:,(?:[^",\r\n]*|"(?:[^"]|"")*"))*$/.test(text)) return undefined;
  const values = text.match(/(?<=^|,)(?:"(?:[^"]|"")*"|[^",]*)/g) ?? [];
  return values.map((value) => (value.startsWith('"') ? value.slice(1, -1).replaceAll('""', '"') : value));
}

function readMap(flag: Flag, text: string): FlagReading {
  const { isSinglePair, name } = flag;
  const separator = flag.separator ?? "=";
  const expected = `pairs such as key${separator}value`;
  const parts = isSinglePair ? [text] : text.split(",").filter((part) => part !== "");
  const pairs = parts.map((part) => splitPair(part, separator));
  // A node label may stand without a value.
  if (name === "node-labels") return readLabels(pairs);
  if (pairs.some(([, value]) => value === undefined)) return { expected };
  return { value: Object.fromEntries(pairs.map(([key, value = ""]) => [key, value])) };
}

function readLabels(pairs: readonly (readonly [string, string | undefined])[]): FlagReading {
  const wrong = pairs.some(
    ([key, value = ""]) => !checks["a label key such as example.com/role"](key) || !checks["a label value"](value),
  );
  if (wrong) return { expected: "labels such as example.com/role=edge" };
  const reserved = pairs.map(([key]) => key).find((key) => !isOwnLabel(key));
  if (reserved !== undefined) return { expected: `labels that a node may give itself, which ${reserved} is not` };
  return { value: Object.fromEntries(pairs.map(([key, value = ""]) => [key, value])) };
}

const ownLabels: ReadonlySet<string> = new Set([
  "kubernetes.io/hostname",
  "kubernetes.io/os",
  "kubernetes.io/arch",
  "beta.kubernetes.io/os",
  "beta.kubernetes.io/arch",
  "beta.kubernetes.io/instance-type",
  "node.kubernetes.io/instance-type",
  "topology.kubernetes.io/zone",
  "topology.kubernetes.io/region",
  "failure-domain.beta.kubernetes.io/zone",
  "failure-domain.beta.kubernetes.io/region",
]);

/** Of the labels below kubernetes.io and k8s.io a node may give itself a few. Rule: IsKubeletLabel. */
function isOwnLabel(key: string): boolean {
  const domain = key.includes("/") ? key.slice(0, key.indexOf("/")) : "";
  if (!/(^|\.)(kubernetes|k8s)\.io$/.test(domain) || ownLabels.has(key)) return true;
  return /(^|\.)(kubelet|node)\.kubernetes\.io$/.test(domain);
}

function readSwitches(text: string): FlagReading {
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

function readHeaders(text: string): FlagReading {
  const pairs = text
    .split(",")
    .filter((part) => part !== "")
    .map((part) => splitPair(part, ":"));
  if (pairs.some(([, value]) => value === undefined)) return { expected: "headers such as name:value" };
  return { value: pairs.map(([name, value = ""]): Json => Object.fromEntries([[name, [value]]])).reduce(join, {}) };
}

function readTaints(text: string): FlagReading {
  const taints = text
    .split(",")
    .filter((part) => part !== "")
    .map((part) => /^([^=:]*)(?:=([^=:]*))?:([^=:]*)$/.exec(part));
  const read = taints.flatMap((taint) =>
    taint === null ? [] : [{ key: taint[1] ?? "", value: taint[2] ?? "", effect: taint[3] ?? "" }],
  );
  return read.length === taints.length ? { value: read } : { expected: "taints such as key=value:NoSchedule" };
}

function readReservedMemory(text: string): FlagReading {
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
    Object.values(limits).every((amount) => checks["a quantity such as 10Mi"](amount)),
  );
  return read.length === nodes.length && areQuantities ? { value: read } : { expected };
}

function readModules(text: string): FlagReading {
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

function orExpected(value: Json | undefined, expected: string): FlagReading {
  return value === undefined ? { expected } : { value };
}

function isMap(json: Json): json is { readonly [key: string]: Json } {
  return json !== null && typeof json === "object" && !Array.isArray(json);
}
