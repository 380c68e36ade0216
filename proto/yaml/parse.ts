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
import { readPlainScalar } from "./scalar.ts";
import type { MapNode, Node } from "./value-node.ts";
import { deepest, shorten } from "./value-node.ts";

const mostValues = 50_000;
const mostSyntaxErrors = 5;
const tooDeep = `nested deeper than ${deepest} levels`;
const tagPrefix = "tag:yaml.org,2002:";

/** A finished part of the document and how many values it stands for, aliases counted as what they repeat. */
interface Built {
  readonly node: Node;
  readonly size: number;
}

/**
 * Reads one YAML or JSON document the way the kubelet's YAML library does, every value with its line. Undefined where the
 * file holds nothing but comments. Duplicate keys, a second document, aliases that unfold to more than 50 000 values
 * and nesting deeper than 50 are refused.
 *
 * @throws YamlError with every syntax error, or with the first value that cannot be used
 */
export function parseYaml(text: string, file: string): Node | undefined {
  const lines = new LineCounter();
  const whereOf = (offset: number) => `${file}:${lines.linePos(offset).line}`;
  const documents = parseDocuments(text, file, lines);
  const problems = syntaxProblems(documents, whereOf);
  if (problems.length > 0) throw new YamlError(problems);
  const [first, second] = documents.filter(({ contents }) => !isEmpty(contents));
  if (second?.contents)
    throw refuse(whereOf(second.contents.range?.[0] ?? 0), "a second document begins here; a file holds one");
  return first?.contents ? createBuilder(whereOf)(first.contents) : undefined;
}

/** The first error of each line, and of the first lines only: the later ones are mostly consequences. */
function syntaxProblems(documents: readonly Document[], whereOf: (offset: number) => string): readonly YamlProblem[] {
  const messages = new Map<string, string>();
  for (const { message, pos } of documents.flatMap(({ errors }) => errors)) {
    const where = whereOf(pos[0]);
    if (messages.size < mostSyntaxErrors && !messages.has(where))
      messages.set(where, message.startsWith("Maximum call stack") ? tooDeep : `not YAML: ${message.slice(0, 120)}`);
  }
  return [...messages].map(([where, message]) => ({ where, message }));
}

function parseDocuments(text: string, file: string, lineCounter: LineCounter) {
  try {
    // The failsafe schema leaves every scalar a string, so that readPlainScalar alone decides what it means.
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
    // The library's composer recurses: deep nesting exhausts the stack.
    if (cause instanceof RangeError) throw refuse(file, tooDeep);
    throw cause;
  }
}

function isEmpty(contents: YamlNode | null): boolean {
  return contents === null || (isScalar(contents) && contents.type === Scalar.PLAIN && contents.value === "");
}

function createBuilder(whereOf: (offset: number) => string): (root: YamlNode) => Node {
  const anchors = new Map<string, Built | undefined>();
  let values = 0;

  function build(yaml: YamlNode | null | undefined, parentOffset: number, depth: number): Built {
    const offset = yaml?.range?.[0] ?? parentOffset;
    const where = whereOf(offset);
    if (depth > deepest) throw refuse(where, tooDeep);
    const anchor = isAlias(yaml) ? undefined : yaml?.anchor;
    if (anchor !== undefined) anchors.set(anchor, undefined);
    const before = values;
    const node = isAlias(yaml) ? follow(yaml.source, where) : buildOwn(yaml, where, offset, depth);
    values += 1;
    if (values > mostValues) throw refuse(where, `the file unfolds to more than ${mostValues} values`);
    const built = { node, size: values - before };
    if (anchor !== undefined) anchors.set(anchor, built);
    return built;
  }

  function follow(name: string, where: string): Node {
    const built = anchors.get(name);
    if (built === undefined)
      throw refuse(
        where,
        anchors.has(name) ? `the alias *${shorten(name)} contains itself` : `the alias *${shorten(name)} has no anchor`,
      );
    values += built.size;
    return built.node;
  }

  function buildOwn(yaml: YamlNode | null | undefined, where: string, offset: number, depth: number): Node {
    if (isMap(yaml)) return buildMap(yaml.items as readonly Pair<YamlNode, YamlNode | null>[], where, depth);
    if (isSeq(yaml))
      return { kind: "list", items: yaml.items.map((item) => build(item as YamlNode, offset, depth + 1).node), where };
    if (!isScalar(yaml)) return { kind: "scalar", value: null, where };
    return { kind: "scalar", value: readScalar(yaml, where), where };
  }

  function buildMap(pairs: readonly Pair<YamlNode, YamlNode | null>[], where: string, depth: number): MapNode {
    const entries = new Map<string, Node>();
    const merged: Node[] = [];
    for (const { key, value } of pairs) {
      const built = build(key, 0, depth + 1).node;
      const below = build(value, key.range?.[0] ?? 0, depth + 1).node;
      if (isScalar(key) && key.type === Scalar.PLAIN && key.value === "<<") {
        merged.push(below);
        continue;
      }
      if (built.kind !== "scalar") throw refuse(built.where, "a key must be a single word");
      const name = String(built.value);
      const earlier = entries.get(name);
      if (earlier !== undefined)
        throw refuse(built.where, `${shorten(name)} stands here a second time; it was set at ${earlier.where}`);
      // A value may begin lines after its key; the key's line is the one that shows what is meant.
      entries.set(name, { ...below, where: built.where });
    }
    for (const source of merged)
      for (const [name, node] of mergeSources(source)) if (!entries.has(name)) entries.set(name, node);
    return { kind: "map", entries, where };
  }

  return (root) => build(root, 0, 0).node;
}

/** What `<<` brings in: one map or a list of maps, of which earlier ones win. */
function mergeSources(source: Node): readonly (readonly [string, Node])[] {
  const maps = source.kind === "list" ? source.items : [source];
  return maps.flatMap((map) => {
    if (map.kind !== "map") throw refuse(map.where, "<< takes a map or a list of maps");
    return [...map.entries];
  });
}

function readScalar(scalar: Scalar, where: string): string | number | boolean | null {
  const text = String(scalar.value);
  const tag = scalar.tag?.startsWith(tagPrefix) ? scalar.tag.slice(tagPrefix.length) : scalar.tag;
  if (tag === undefined) return scalar.type === Scalar.PLAIN ? readPlainScalar(text) : text;
  if (tag === "!" || tag === "str") return text;
  const value = readPlainScalar(text);
  if (tag === "null" && value === null) return null;
  if (tag === "bool" && typeof value === "boolean") return value;
  if ((tag === "int" && Number.isInteger(value)) || (tag === "float" && typeof value === "number")) return value;
  throw refuse(where, `${shorten(JSON.stringify(text))} cannot be read as ${shorten(tag)}`);
}

function refuse(where: string, message: string): YamlError {
  return new YamlError([{ where, message }]);
}
