import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Pair,
  parseAllDocuments,
  Scalar,
  type Node as YamlNode,
} from "yaml";
import { YamlError, type YamlProblem } from "./error.ts";
import { parsePlainScalar } from "./scalar.ts";
import type { MapNode, ValueNode } from "./value-node.ts";
import { MAX_DEPTH, shorten } from "./value-node.ts";

const MAX_VALUES = 50_000;
const MAX_SYNTAX_ERRORS = 5;
const tooDeep = `nested deeper than ${MAX_DEPTH} levels`;
const tagPrefix = "tag:yaml.org,2002:";

/** A converted value and its size in values; an alias counts as the value that it repeats. */
interface BuiltNode {
  readonly node: ValueNode;
  readonly size: number;
}

/**
 * Parses one YAML or JSON document as the kubelet's YAML library does, and records the line of every value. Returns
 * undefined for a document without content. Rejects repeated keys, a second document, aliases that expand to more than
 * 50 000 values, and nesting deeper than 50.
 *
 * @throws YamlError with every syntax error, or with the first invalid value
 */
export function parseYaml(text: string, file: string): ValueNode | undefined {
  const lines = new LineCounter();
  const whereOf = (offset: number) => `${file}:${lines.linePos(offset).line}`;
  const documents = parseDocuments(text, file, lines);
  const problems = syntaxProblems(documents, whereOf);
  if (problems.length > 0) throw new YamlError(problems);
  const [first, second] = documents.filter(({ contents }) => !isEmpty(contents));
  if (second?.contents)
    throw yamlError(whereOf(second.contents.range?.[0] ?? 0), "a second document begins here; a file holds one");
  return first?.contents ? createBuilder(whereOf)(first.contents) : undefined;
}

/** The first error of each line, up to a limit: later errors are mostly consequences. */
function syntaxProblems(documents: readonly Document[], whereOf: (offset: number) => string): readonly YamlProblem[] {
  const messages = new Map<string, string>();
  for (const { message, pos } of documents.flatMap(({ errors }) => errors)) {
    const where = whereOf(pos[0]);
    if (messages.size < MAX_SYNTAX_ERRORS && !messages.has(where))
      messages.set(where, message.startsWith("Maximum call stack") ? tooDeep : `not YAML: ${message.slice(0, 120)}`);
  }
  return [...messages].map(([where, message]) => ({ where, message }));
}

function parseDocuments(text: string, file: string, lineCounter: LineCounter) {
  try {
    // In the failsafe schema every scalar is a string, so that only parsePlainScalar interprets it.
    const parsed = parseAllDocuments(text, {
      schema: "failsafe",
      resolveKnownTags: false,
      uniqueKeys: false,
      prettyErrors: false,
      logLevel: "silent",
      lineCounter,
    });
    return "empty" in parsed ? [] : parsed;
  } catch (cause) {
    // The library recurses, so deep nesting overflows the stack.
    if (cause instanceof RangeError) throw yamlError(file, tooDeep);
    throw cause;
  }
}

function isEmpty(contents: YamlNode | null): boolean {
  return contents === null || (isScalar(contents) && contents.type === Scalar.PLAIN && contents.value === "");
}

function createBuilder(whereOf: (offset: number) => string): (root: YamlNode) => ValueNode {
  const anchors = new Map<string, BuiltNode | undefined>();
  let values = 0;

  function build(yaml: YamlNode | null | undefined, parentOffset: number, depth: number): BuiltNode {
    const offset = yaml?.range?.[0] ?? parentOffset;
    const where = whereOf(offset);
    if (depth > MAX_DEPTH) throw yamlError(where, tooDeep);
    const anchor = isAlias(yaml) ? undefined : yaml?.anchor;
    if (anchor !== undefined) anchors.set(anchor, undefined);
    const before = values;
    const node = isAlias(yaml) ? resolveAlias(yaml.source, where) : buildNode(yaml, where, offset, depth);
    values += 1;
    if (values > MAX_VALUES) throw yamlError(where, `the file unfolds to more than ${MAX_VALUES} values`);
    const built = { node, size: values - before };
    if (anchor !== undefined) anchors.set(anchor, built);
    return built;
  }

  function resolveAlias(name: string, where: string): ValueNode {
    const built = anchors.get(name);
    if (built === undefined)
      throw yamlError(
        where,
        anchors.has(name) ? `the alias *${shorten(name)} contains itself` : `the alias *${shorten(name)} has no anchor`,
      );
    values += built.size;
    return built.node;
  }

  function buildNode(yaml: YamlNode | null | undefined, where: string, offset: number, depth: number): ValueNode {
    if (isMap(yaml)) return buildMap(yaml.items as readonly Pair<YamlNode, YamlNode | null>[], where, depth);
    if (isSeq(yaml))
      return { kind: "list", items: yaml.items.map((item) => build(item as YamlNode, offset, depth + 1).node), where };
    if (!isScalar(yaml)) return { kind: "scalar", value: null, where };
    return { kind: "scalar", value: readScalar(yaml, where), where };
  }

  function buildMap(pairs: readonly Pair<YamlNode, YamlNode | null>[], where: string, depth: number): MapNode {
    const entries = new Map<string, ValueNode>();
    const mergeSourceNodes: ValueNode[] = [];
    for (const { key, value } of pairs) {
      const built = build(key, 0, depth + 1).node;
      const child = build(value, key.range?.[0] ?? 0, depth + 1).node;
      if (isScalar(key) && key.type === Scalar.PLAIN && key.value === "<<") {
        mergeSourceNodes.push(child);
        continue;
      }
      if (built.kind !== "scalar") throw yamlError(built.where, "a key must be a scalar");
      const name = String(built.value);
      const earlier = entries.get(name);
      if (earlier !== undefined)
        throw yamlError(built.where, `the key ${shorten(name)} is repeated; it was first set at ${earlier.where}`);
      // A value may begin lines after its key. Report the line of the key.
      entries.set(name, { ...child, where: built.where });
    }
    for (const source of mergeSourceNodes)
      for (const [name, node] of mergeSources(source)) if (!entries.has(name)) entries.set(name, node);
    return { kind: "map", entries, where };
  }

  return (root) => build(root, 0, 0).node;
}

/** The entries that `<<` merges: one map, or a list of maps of which earlier ones win. */
function mergeSources(source: ValueNode): readonly (readonly [string, ValueNode])[] {
  const maps = source.kind === "list" ? source.items : [source];
  return maps.flatMap((map) => {
    if (map.kind !== "map") throw yamlError(map.where, "<< takes a map or a list of maps");
    return [...map.entries];
  });
}

function readScalar(scalar: Scalar, where: string): string | number | boolean | null {
  const text = String(scalar.value);
  const tag = scalar.tag?.startsWith(tagPrefix) ? scalar.tag.slice(tagPrefix.length) : scalar.tag;
  if (tag === undefined) return scalar.type === Scalar.PLAIN ? parsePlainScalar(text) : text;
  if (tag === "!" || tag === "str") return text;
  const value = parsePlainScalar(text);
  if (tag === "null" && value === null) return null;
  if (tag === "bool" && typeof value === "boolean") return value;
  if ((tag === "int" && Number.isInteger(value)) || (tag === "float" && typeof value === "number")) return value;
  throw yamlError(where, `${shorten(JSON.stringify(text))} cannot be read as ${shorten(tag)}`);
}

function yamlError(where: string, message: string): YamlError {
  return new YamlError([{ where, message }]);
}
