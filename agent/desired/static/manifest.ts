import { checkPodShape } from "../../../proto/kubernetes/decode/strict-decode.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type StaticPodSource, staticPod } from "../../../proto/kubernetes/static-pod.ts";
import { staticPodReferences } from "../../../proto/kubernetes/static-pod-references.ts";
import { describeFieldError, type FieldError, invalid } from "../../../proto/kubernetes/validation/field-error.ts";
import { validatePod } from "../../../proto/kubernetes/validation/pod.ts";
import { readCanonicalJson } from "../../../proto/yaml/canonical-json.ts";
import { YamlError } from "../../../proto/yaml/error.ts";
import { type Json, jsonOf, type Node, shorten } from "../../../proto/yaml/value-node.ts";

/** A manifest's pod, or the one line that says why there is none. */
export type ManifestReading =
  | { readonly pod: Pod; readonly problem?: never }
  | { readonly pod?: never; readonly problem: string };

export type ManifestListReading =
  | { readonly pods: readonly Pod[]; readonly problem?: never }
  | { readonly pods?: never; readonly problem: string };

/** Reads one Pod, in YAML or JSON, and makes it the static pod of this node. */
export async function readPodManifest(
  text: string,
  { path, nodeName }: { readonly path: string; readonly nodeName: string },
): Promise<ManifestReading> {
  const source = { kind: "file", path } as const;
  const json = readCanonicalJson(text);
  const judged = json === undefined ? undefined : judge(json, source, nodeName);
  if (judged?.pod !== undefined) return judged;
  const root = await parse(text, path);
  if ("problem" in root) return root;
  const kind = kindOf(root.node);
  if (kind.endsWith("List"))
    return { problem: `${path}: it is a ${kind}; a manifest holds one Pod, so give each Pod a file of its own` };
  return toStaticPod(root.node, source, nodeName, path);
}

/** Reads a Pod or a PodList, as a URL may answer; an empty answer is no pod. All are good, or all are refused. */
export async function readPodListManifest(
  text: string,
  { url, nodeName }: { readonly url: string; readonly nodeName: string },
): Promise<ManifestListReading> {
  if (text.trim() === "") return { pods: [] };
  const where = "the answer";
  const root = await parse(text, where);
  if ("problem" in root) return root;
  const pods: Pod[] = [];
  /** Where in the list each uid is: two items that are equal to the letter have the same. */
  const places = new Map<string | undefined, string>();
  for (const [index, item] of itemsOf(root.node).entries()) {
    const { pod, problem } = toStaticPod(item, { kind: "http", url }, nodeName, where);
    if (problem !== undefined) return { problem };
    const { uid } = pod.metadata;
    const owner = places.get(uid);
    const place = `items[${index}]`;
    if (owner !== undefined)
      return { problem: `${item.where}: ${place}: pod uid ${uid} is already defined by ${owner}` };
    places.set(uid, place);
    pods.push(pod);
  }
  return { pods };
}

async function parse(text: string, file: string): Promise<{ readonly node: Node } | { readonly problem: string }> {
  // Loaded only here: an agent without manifests has no need of a YAML parser in its memory.
  const { parseYaml } = await import("../../../proto/yaml/parse.ts");
  try {
    const node = parseYaml(text, file);
    return node === undefined ? { problem: `${file}: it is empty; a manifest holds one Pod` } : { node };
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    return { problem: error.message };
  }
}

function kindOf(node: Node): string {
  const kind = node.kind === "map" ? node.entries.get("kind") : undefined;
  return kind?.kind === "scalar" ? String(kind.value) : "";
}

/** The items of a list carry no apiVersion and kind of their own. */
function itemsOf(node: Node): readonly Node[] {
  if (node.kind !== "map" || kindOf(node) !== "PodList") return [node];
  const items = node.entries.get("items");
  if (items?.kind !== "list") return [];
  return items.items.map((item) => (item.kind === "map" ? withHeader(item) : item));
}

function withHeader(item: Extract<Node, { kind: "map" }>): Node {
  const header = { apiVersion: "v1", kind: "Pod" };
  const entries = Object.entries(header).map(([key, value]): [string, Node] => [
    key,
    item.entries.get(key) ?? { kind: "scalar", value, where: item.where },
  ]);
  return { ...item, entries: new Map([...item.entries, ...entries]) };
}

function toStaticPod(node: Node, source: StaticPodSource, nodeName: string, where: string): ManifestReading {
  const { pod, errors } = judge(jsonOf(node), source, nodeName);
  return errors === undefined ? { pod } : { problem: describeErrors(errors, node, where) };
}

type Judgement =
  | { readonly pod: Pod; readonly errors?: never }
  | { readonly pod?: never; readonly errors: readonly FieldError[] };

function judge(json: Json, source: StaticPodSource, nodeName: string): Judgement {
  const otherKind = kindBesidesPod(json);
  // Of what is no Pod every field would be a mistake.
  if (otherKind !== undefined)
    return {
      errors: [
        {
          field: "kind",
          reason: "FieldValueNotSupported",
          message: `${shorten(JSON.stringify(otherKind))}: static pods are Pods only`,
        },
      ],
    };
  const shape = checkPodShape(json);
  if (shape.errors !== undefined) return { errors: shape.errors };
  const pod = staticPod(shape.pod, { nodeName, source });
  // The name is judged as it was written: with the node's name behind it an empty one would pass.
  const nameless: readonly FieldError[] = shape.pod.metadata.name
    ? []
    : [{ field: "metadata.name", reason: "FieldValueRequired", message: "Required value" }];
  const errors = [...nameless, ...wrongUid(pod), ...validatePod(pod), ...staticPodReferences(pod)];
  return errors.length === 0 ? { pod } : { errors };
}

function kindBesidesPod(json: Json): string | undefined {
  const kind = typeof json === "object" && json !== null && "kind" in json ? json["kind"] : undefined;
  return typeof kind === "string" && !["", "Pod"].includes(kind) ? kind : undefined;
}

/** A manifest may carry a uid of its own; folders, files and labels are named by it. */
function wrongUid({ metadata: { uid = "" } }: Pod): readonly FieldError[] {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(uid)) return [];
  return [
    invalid(
      "metadata.uid",
      uid,
      "must be letters, digits, dots, dashes and underscores, at most 128, and begin with a letter or digit",
    ),
  ];
}

/** `file:12: spec.containers[0].image: Required value; file:14: …`, each with the line that is nearest to the field. */
function describeErrors(errors: readonly FieldError[], node: Node, where: string): string {
  const lines = errors.map((error) => `${whereOf(node, error.field) ?? where}: ${describeFieldError(error)}`);
  return [...new Set(lines)].join("; ");
}

/** Walks a path such as `spec.containers[0].image` as far as the manifest goes. */
function whereOf(root: Node, field: string): string | undefined {
  let node: Node = root;
  for (const part of field.match(/[^.[\]]+/g) ?? []) {
    const below: Node | undefined =
      node.kind === "map" ? node.entries.get(part) : node.kind === "list" ? node.items[Number(part)] : undefined;
    if (below === undefined) break;
    node = below;
  }
  return node.where;
}
