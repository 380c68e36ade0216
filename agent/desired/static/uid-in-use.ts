import type { DesiredPod } from "../../decide/pod/desired.ts";

/**
 * Whether the node has a static pod of this uid that does not terminate. Its manifest then keeps the uid, also if this
 * release would compute another one.
 */
export function isUidInUse(pods: readonly DesiredPod[], uid: string): boolean {
  return pods.some((pod) => pod.uid === uid && pod.source.kind !== "api" && pod.termination === undefined);
}
