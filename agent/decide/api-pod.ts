import type { Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";

const mirrorAnnotation = "kubernetes.io/config.mirror";

/** The uid of the static pod that a pod of the API mirrors; undefined for all others, which are pods of their own. */
export function mirroredUid({ metadata }: Pod): string | undefined {
  return metadata.annotations?.[mirrorAnnotation];
}

/** True for a pod that has ended: the API server takes no other phase from anybody afterwards. */
export function isTerminal(status: Pick<PodStatus, "phase"> | undefined): boolean {
  return status?.phase === "Succeeded" || status?.phase === "Failed";
}

/**
 * True when the first is a later state of an object than the second. A resourceVersion is a decimal number that grows; what is not
 * one, such as that of a server which is no kube-apiserver, is taken for later, since nobody can tell.
 */
export function isLater(version: string | undefined, than: string | undefined): boolean {
  if (version === undefined || than === undefined || !isNumber(version) || !isNumber(than)) return version !== than;
  return version.length === than.length ? version > than : version.length > than.length;
}

function isNumber(version: string): boolean {
  return /^[1-9]\d*$/.test(version);
}
