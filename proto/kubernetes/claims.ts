import type { PersistentVolume, PersistentVolumeClaim, Pod, Volume } from "./gen/types.ts";

/** The use of a PersistentVolumeClaim by a pod, which is always in the pod's namespace. */
export interface ClaimReference {
  readonly namespace: string;
  readonly name: string;
  readonly podUid: string;
}

export interface BoundClaim {
  readonly claim: PersistentVolumeClaim;
  readonly persistentVolume: PersistentVolume;
}

/** What the agent knows of a claim that a pod uses. */
export type KnownClaim =
  | BoundClaim
  | {
      /** Why the pod cannot use it, in the kubelet's words: `PVC is not bound`. */
      readonly failure: string;
      /** The API server has not answered. */
      readonly isOutage?: true;
    };

/** For example `claim shop/data for …`: never a `referenceKey` nor a `tokenKey`. */
export function claimKey({ namespace, name, podUid }: ClaimReference): string {
  return `claim ${namespace}/${name} for ${podUid}`;
}

/** The claim of a volume; undefined for a volume without one. That of an `ephemeral` volume is named after pod and volume. */
export function claimReferenceOf(
  { metadata: { namespace = "default", name = "", uid = "" } }: Pod,
  { name: volumeName, persistentVolumeClaim, ephemeral }: Volume,
): ClaimReference | undefined {
  if (persistentVolumeClaim !== undefined) return { namespace, name: persistentVolumeClaim.claimName, podUid: uid };
  return ephemeral === undefined ? undefined : { namespace, name: `${name}-${volumeName}`, podUid: uid };
}

/** The claims of all volumes of the pod by {@link claimKey}, each once. */
export function claimReferencesOf(pod: Pod): ReadonlyMap<string, ClaimReference> {
  const references = (pod.spec.volumes ?? []).flatMap((volume) => claimReferenceOf(pod, volume) ?? []);
  return new Map(references.map((each) => [claimKey(each), each]));
}
