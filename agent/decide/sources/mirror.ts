import type { Node, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { hashAnnotation, mirrorAnnotation } from "../../../proto/kubernetes/well-known-names.ts";
import { type DesiredPod, fullNameOf } from "../pod/desired.ts";
import { mirroredUid } from "./api-pod.ts";

/** The API calls that make the mirror pods match the static pods of this node. */
export interface MirrorPlan {
  readonly create: readonly Pod[];
  /** Mirror pods without a static pod, or of an earlier version of it. */
  readonly remove: readonly Pod[];
}

export interface MirrorInput {
  readonly desired: Iterable<DesiredPod>;
  /** The mirror pods that exist in the API. */
  readonly mirrors: Iterable<Pod>;
  /** This node's API object; undefined while it must not own new mirror pods. */
  readonly node: { readonly name: string; readonly uid: string } | undefined;
  /** Every source is ready: a mirror pod without a static pod is an orphan. */
  readonly areSourcesReady: boolean;
}

/**
 * The uid of the Node that may own new mirror pods; undefined if there is none, or if it is being deleted, and they
 * with it.
 */
export function mirrorOwnerOf(node: Node | undefined): string | undefined {
  return node?.metadata.deletionTimestamp === undefined ? node?.metadata.uid : undefined;
}

/**
 * Each static pod has one mirror pod, with the static pod's hash in its annotation. A mirror pod with another hash, or
 * one that a user deletes, is removed and created again: deleting a mirror pod never ends the static pod. While a
 * static pod terminates, its mirror pod stays and shows the progress.
 */
export function planMirrors({ desired, mirrors, node, areSourcesReady }: MirrorInput): MirrorPlan {
  const staticPods = [...desired].filter(({ source }) => source.kind !== "api");
  const terminating = new Set(staticPods.filter(isTerminating).map(({ pod }) => fullNameOf(pod)));
  const expected = new Map(
    staticPods
      .filter((each) => !isTerminating(each))
      .map(({ pod }) => [fullNameOf(pod), pod] as const)
      // The first pod of a name is mirrored; its successors wait until it has ended.
      .toReversed(),
  );
  const existing = new Map([...mirrors].map((mirror) => [fullNameOf(mirror), mirror]));
  const remove = [...existing]
    .filter(([name]) => !terminating.has(name))
    .filter(([name, mirror]) => {
      const pod = expected.get(name);
      return !isBeingDeleted(mirror) && (pod === undefined ? areSourcesReady : !isMirrorOf(mirror, pod));
    })
    .map(([, mirror]) => mirror);
  if (node === undefined) return { create: [], remove };
  const create = [...expected]
    .filter(([name]) => !terminating.has(name) && !existing.has(name))
    .map(([, pod]) => mirrorOf(pod, node))
    .toReversed();
  return { create, remove };
}

function isTerminating({ termination }: DesiredPod): boolean {
  return termination !== undefined;
}

/** The API server removes it as soon as its finalizers are gone. */
function isBeingDeleted({ metadata }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined && metadata.deletionGracePeriodSeconds === 0;
}

function isMirrorOf(mirror: Pod, { metadata }: Pod): boolean {
  return (
    mirror.metadata.deletionTimestamp === undefined && mirroredUid(mirror) === metadata.annotations?.[hashAnnotation]
  );
}

/**
 * The mirror pod of a static pod. The node owns it, as the API server requires, so that it is removed with the node.
 */
function mirrorOf({ metadata, spec }: Pod, node: NonNullable<MirrorInput["node"]>): Pod {
  const { name = "", namespace = "default", labels, annotations } = metadata;
  const hash = annotations?.[hashAnnotation] ?? metadata.uid ?? "";
  return {
    apiVersion: "v1",
    kind: "Pod",
    metadata: {
      name,
      namespace,
      ...(labels === undefined ? {} : { labels }),
      annotations: { ...annotations, [mirrorAnnotation]: hash },
      ownerReferences: [{ apiVersion: "v1", kind: "Node", name: node.name, uid: node.uid, controller: true }],
    },
    spec,
  };
}
