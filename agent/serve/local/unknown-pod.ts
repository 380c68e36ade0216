import { basename } from "node:path/posix";
import { joinWithAnd } from "../../../proto/join-with-and.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { nearestName } from "../../../proto/nearest-name.ts";
import type { RejectedManifest } from "../../decide/node/local-node-report.ts";
import { correctManifest } from "./explain/cure-rule.ts";

/** The pods that the agent has, and the manifests that it refuses. */
export interface KnownPods {
  readonly pods: readonly Pod[];
  readonly refused: readonly RejectedManifest[];
  readonly nodeName: string;
}

/**
 * Why there is no such pod, for `berth explain`, `logs` and `exec`: it is in another namespace, the agent refuses its
 * manifest, or the name is slightly wrong. The name of a manifest's file tells which pod it is about, because a refused manifest
 * may not contain a name.
 */
export function unknownPodText({ pods, refused, nodeName }: KnownPods, namespace: string, name: string): string {
  const what = `no pod ${JSON.stringify(name)} in namespace ${JSON.stringify(namespace)}`;
  const [, bareName] = /^pods?\/(.+)$/.exec(name) ?? [];
  if (bareName !== undefined) return `${what}: write the name alone, ${bareName}`;
  const elsewhere = pods
    .filter(({ metadata }) => metadata.name === name)
    .map(({ metadata }) => `-n ${metadata.namespace}`);
  if (elsewhere.length > 0) return `${what}; it is in another one: ${joinWithAnd(elsewhere)}`;
  const ownName = (full: string) => withoutNode(full, nodeName);
  const own = ownName(name);
  const manifest = refusedManifestOf({ refused, nodeName }, name);
  if (manifest !== undefined) return `${what}: the agent refuses ${manifest.file}: ${manifest.problem}`;
  const names = pods.flatMap(({ metadata }) => (metadata.namespace === namespace ? [metadata.name ?? ""] : []));
  const nearest = nearestName(own, names.map(ownName));
  const similar = names.find((each) => ownName(each) === nearest) ?? names.find((each) => each.startsWith(own));
  if (similar !== undefined) return `${what}, did you mean ${similar}?`;
  const files = refused.map(({ file }) => basename(file));
  const refusals = files.length === 0 ? "" : `; the agent refuses ${joinWithAnd(files)}`;
  return `${what}; berth pods lists them${refusals}`;
}

/** As `berth explain` shows it: where the agent refuses the pod's manifest, a line says what cures that, and one what to run. */
export function explainUnknownPod(known: KnownPods, namespace: string, name: string): string {
  const text = unknownPodText(known, namespace, name);
  const manifest = refusedManifestOf(known, name);
  if (manifest === undefined || !text.endsWith(manifest.problem)) return text;
  const { text: cure, commands } = correctManifest(manifest.file, { hasPod: false });
  return [text, `cure  ${cure}`, ...commands.map((command) => `run   ${command}`)].join("\n");
}

/** The names of static pods end with the node's, which makes all short ones similar. */
const withoutNode = (name: string, node: string) =>
  name.endsWith(`-${node}`) ? name.slice(0, -node.length - 1) : name;

function refusedManifestOf(
  { refused, nodeName }: Pick<KnownPods, "refused" | "nodeName">,
  name: string,
): RejectedManifest | undefined {
  const own = withoutNode(name, nodeName);
  return refused.find(({ file }) => basename(file).replace(/\.(ya?ml|json)$/, "") === own);
}
