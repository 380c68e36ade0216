import { decodeStrict } from "../../../proto/kubernetes/decode/strict-decode.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type StaticPodOptions, staticPod } from "../../../proto/kubernetes/static-pod.ts";
import { staticPodReferences } from "../../../proto/kubernetes/static-pod-references.ts";
import { describeFieldError, type FieldError, invalid } from "../../../proto/kubernetes/validation/field-error.ts";
import { validatePod } from "../../../proto/kubernetes/validation/pod.ts";
import { nearestName } from "../../../proto/nearest-name.ts";
import { parseCanonicalJson } from "../../../proto/yaml/canonical-json.ts";
import { YamlError } from "../../../proto/yaml/error.ts";
import { type Json, shorten, toJson, type ValueNode } from "../../../proto/yaml/value-node.ts";

/** A manifest's pod, or one line with the reason why there is none. */
export type ManifestResult =
  | { readonly pod: Pod; readonly problem?: never }
  | { readonly pod?: never; readonly problem: string };

export type ManifestListResult =
  | { readonly pods: readonly Pod[]; readonly problem?: never }
  | { readonly pods?: never; readonly problem: string };

type ReadOptions = Omit<StaticPodOptions, "source">;

/** Reads one Pod, in YAML or JSON, as a static pod of this node. */
export async function readPodManifest(
  text: string,
  { path, ...options }: ReadOptions & { readonly path: string },
): Promise<ManifestResult> {
  const origin = { ...options, source: { kind: "file", path } } as const;
  const json = parseCanonicalJson(text);
  const fastResult = json === undefined ? undefined : validate(json, origin);
  if (fastResult?.pod !== undefined) return fastResult;
  const root = await parse(text, path);
  if ("problem" in root) return root;
  const kind = kindOf(root.node);
  if (kind.endsWith("List"))
    return { problem: `${path}: it is a ${kind}; a manifest holds one Pod, so give each Pod a file of its own` };
  return toStaticPod(root.node, origin, path);
}

/** Reads a Pod or a PodList, the response of a manifest URL; an empty text has no pods. One invalid pod rejects all. */
export async function readPodListManifest(
  text: string,
  { url, ...options }: ReadOptions & { readonly url: string },
): Promise<ManifestListResult> {
  const origin = { ...options, source: { kind: "http", url } } as const;
  if (text.trim() === "") return { pods: [] };
  const where = "the answer";
  const root = await parse(text, where);
  if ("problem" in root) return root;
  const pods: Pod[] = [];
  /** The path of the item of each uid: two identical items have the same uid. */
  const pathByUid = new Map<string | undefined, string>();
  for (const [index, item] of itemsOf(root.node).entries()) {
    const { pod, problem } = toStaticPod(item, origin, where);
    if (problem !== undefined) return { problem };
    const { uid } = pod.metadata;
    const owner = pathByUid.get(uid);
    const path = `items[${index}]`;
    if (owner !== undefined)
      return { problem: `${item.where}: ${path}: pod uid ${uid} is already defined by ${owner}` };
    pathByUid.set(uid, path);
    pods.push(pod);
  }
  return { pods };
}

async function parse(text: string, file: string): Promise<{ readonly node: ValueNode } | { readonly problem: string }> {
  // Loaded lazily to save the memory of the YAML parser on nodes without manifests.
  const { parseYaml } = await import("../../../proto/yaml/parse.ts");
  try {
    const node = parseYaml(text, file);
    return node === undefined ? { problem: `${file}: it is empty; a manifest holds one Pod` } : { node };
  } catch (error) {
    if (!(error instanceof YamlError)) throw error;
    return { problem: error.message };
  }
}

function kindOf(node: ValueNode): string {
  const kind = node.kind === "map" ? node.entries.get("kind") : undefined;
  return kind?.kind === "scalar" ? String(kind.value) : "";
}

/** The items of a PodList have no apiVersion and kind. */
function itemsOf(node: ValueNode): readonly ValueNode[] {
  if (node.kind !== "map" || kindOf(node) !== "PodList") return [node];
  const items = node.entries.get("items");
  if (items?.kind !== "list") return [];
  return items.items.map((item) => (item.kind === "map" ? withHeader(item) : item));
}

function withHeader(item: Extract<ValueNode, { kind: "map" }>): ValueNode {
  const header = { apiVersion: "v1", kind: "Pod" };
  const entries = Object.entries(header).map(([key, value]): [string, ValueNode] => [
    key,
    item.entries.get(key) ?? { kind: "scalar", value, where: item.where },
  ]);
  return { ...item, entries: new Map([...item.entries, ...entries]) };
}

function toStaticPod(node: ValueNode, origin: StaticPodOptions, where: string): ManifestResult {
  const { pod, errors } = validate(toJson(node), origin);
  return errors === undefined ? { pod } : { problem: describeErrors(errors, node, where) };
}

type ValidationResult =
  | { readonly pod: Pod; readonly errors?: never }
  | { readonly pod?: never; readonly errors: readonly FieldError[] };

function validate(json: Json, origin: StaticPodOptions): ValidationResult {
  const otherKind = otherKindOf(json);
  // In an object of another kind every field would be an error.
  if (otherKind !== undefined) return { errors: [otherKindError(otherKind)] };
  const shape = decodeStrict(json);
  if (shape.errors !== undefined) return { errors: shape.errors };
  const pod = staticPod(shape.pod, origin);
  // Check the name as written: with the node name as a suffix an empty name would pass.
  const nameErrors: readonly FieldError[] = shape.pod.metadata.name
    ? []
    : [{ field: "metadata.name", reason: "FieldValueRequired", message: "Required value" }];
  const errors = [...nameErrors, ...uidErrors(pod), ...validatePod(pod), ...staticPodReferences(pod)];
  return errors.length === 0 ? { pod } : { errors };
}

function otherKindOf(json: Json): string | undefined {
  const kind = typeof json === "object" && json !== null && "kind" in json ? json["kind"] : undefined;
  return typeof kind === "string" && !["", "Pod"].includes(kind) ? kind : undefined;
}

function otherKindError(kind: string): FieldError {
  const nearest = nearestName(kind, ["Pod"]);
  const hint = nearest === undefined ? "static pods are Pods only" : `did you mean ${JSON.stringify(nearest)}?`;
  return { field: "kind", reason: "FieldValueNotSupported", message: `${shorten(JSON.stringify(kind))}: ${hint}` };
}

/** A manifest may set the uid, which becomes part of directory names, file names and labels. */
function uidErrors({ metadata: { uid = "" } }: Pod): readonly FieldError[] {
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(uid)) return [];
  return [
    invalid(
      "metadata.uid",
      uid,
      "must be letters, digits, dots, dashes and underscores, at most 128, and begin with a letter or digit",
    ),
  ];
}

/** `file:12: spec.containers[0].image: Required value; file:14: …`, each with the line nearest to the field. */
function describeErrors(errors: readonly FieldError[], node: ValueNode, where: string): string {
  const lines = errors.map((error) => `${locationOf(node, error.field) ?? where}: ${describeFieldError(error)}`);
  return [...new Set(lines)].join("; ");
}

/** The location of the deepest existing node on a path such as `spec.containers[0].image`. */
function locationOf(root: ValueNode, field: string): string | undefined {
  let node: ValueNode = root;
  for (const part of field.match(/[^.[\]]+/g) ?? []) {
    const below: ValueNode | undefined =
      node.kind === "map" ? node.entries.get(part) : node.kind === "list" ? node.items[Number(part)] : undefined;
    if (below === undefined) break;
    node = below;
  }
  return node.where;
}
