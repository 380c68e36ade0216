import type { Node, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type DesiredPod, fullNameOf } from "../pod/desired.ts";
import { mirroredUid } from "./api-pod.ts";

/** What has to be done in the API so that it shows the static pods of this node. */
export interface MirrorPlan {
  readonly create: readonly Pod[];
  /** Those that show what is no more, or show it as it was. */
  readonly remove: readonly Pod[];
}

export interface MirrorScene {
  readonly desired: Iterable<DesiredPod>;
  /** The mirror pods that the API server has. */
  readonly mirrors: Iterable<Pod>;
  /** This node in the API; undefined as long as no mirror pod may have it as its owner. */
  readonly node: { readonly name: string; readonly uid: string } | undefined;
  /** Every source has spoken: what no source asks for is nobody's. */
  readonly isComplete: boolean;
}

/** The uid of the Node that may own new mirror pods; undefined where there is none, or it is about to go, and they with it. */
export function mirrorOwnerOf(node: Node | undefined): string | undefined {
  return node?.metadata.deletionTimestamp === undefined ? node?.metadata.uid : undefined;
}

const hashAnnotation = "kubernetes.io/config.hash";
const mirrorAnnotation = "kubernetes.io/config.mirror";

/**
 * Each static pod has one mirror pod, which carries the static pod's uid as its hash. One of another hash, or one that somebody
 * deletes, is removed, and a new one takes its place: deleting a mirror never ends the pod. While a static pod ends its mirror
 * stays, and shows how.
 */
export function planMirrors({ desired, mirrors, node, isComplete }: MirrorScene): MirrorPlan {
  const statics = [...desired].filter(({ source }) => source.kind !== "api");
  const ending = new Set(statics.filter(isEnding).map(({ pod }) => fullNameOf(pod)));
  const wanted = new Map(
    statics
      .filter((each) => !isEnding(each))
      .map(({ pod }) => [fullNameOf(pod), pod] as const)
      // The first of a name is mirrored; its successors wait for its end.
      .toReversed(),
  );
  const present = new Map([...mirrors].map((mirror) => [fullNameOf(mirror), mirror]));
  const remove = [...present]
    .filter(([name]) => !ending.has(name))
    .filter(([name, mirror]) => {
      const pod = wanted.get(name);
      return !isLeaving(mirror) && (pod === undefined ? isComplete : !isMirrorOf(mirror, pod));
    })
    .map(([, mirror]) => mirror);
  if (node === undefined) return { create: [], remove };
  const create = [...wanted]
    .filter(([name]) => !ending.has(name) && !present.has(name))
    .map(([, pod]) => mirrorOf(pod, node))
    .toReversed();
  return { create, remove };
}

function isEnding({ termination }: DesiredPod): boolean {
  return termination !== undefined;
}

/** It goes by itself, as soon as its finalizers let it. */
function isLeaving({ metadata }: Pod): boolean {
  return metadata.deletionTimestamp !== undefined && metadata.deletionGracePeriodSeconds === 0;
}

function isMirrorOf(mirror: Pod, { metadata }: Pod): boolean {
  return (
    mirror.metadata.deletionTimestamp === undefined && mirroredUid(mirror) === metadata.annotations?.[hashAnnotation]
  );
}

/** The pod as the API is to show it. The node owns it, so that it goes with the node; the API server demands it. */
function mirrorOf({ metadata, spec }: Pod, node: NonNullable<MirrorScene["node"]>): Pod {
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
