import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { isCertainlyLater, isNumber } from "../../../proto/kubernetes/resource-version.ts";

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
 * True when the first is a later state of an object than the second. What is no number, such as the resourceVersion of a server which
 * is no kube-apiserver, is taken for later, since nobody can tell.
 */
export function isLater(version: string | undefined, than: string | undefined): boolean {
  return isNumber(version) && isNumber(than) ? isCertainlyLater(version, than) : version !== than;
}

/** A complete list, which an object was in. */
export interface AsOf {
  readonly resourceVersion: string;
  /** It is of an earlier state than what the server has shown before: its past is not the one that we know. */
  readonly hasGoneBack: boolean;
}

/**
 * True when what the server shows takes the place of what is known of an object. A list shows everything up to its version: a later
 * state of the object that is known from before that has been taken back, as by a backup that was restored.
 */
export function isNews(shown: string | undefined, known: string | undefined, asOf?: AsOf): boolean {
  if (isLater(shown, known)) return true;
  if (asOf === undefined || shown === known) return false;
  return asOf.hasGoneBack || !isLater(known, asOf.resourceVersion);
}
