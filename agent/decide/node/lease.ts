import type { Lease, OwnerReference } from "../../../proto/kubernetes/gen/types.ts";
import { formatMicroTime, parseTime, TimeError } from "../../../proto/kubernetes/values/time.ts";
import type { NodeSettings } from "./node-settings.ts";

/** The namespace of the leases of all nodes. */
export const LEASE_NAMESPACE = "kube-node-lease";

/** The share of the lease duration after which it is renewed, and the maximal jitter of it. */
const RENEW_AFTER = 0.25;
const JITTER = 0.04;

/** The time between two renewals of a node's lease; `random` is in [0, 1). */
export function renewAfterMs({ nodeLeaseDurationSeconds }: LeaseSettings, random: number): number {
  return nodeLeaseDurationSeconds * 1000 * RENEW_AFTER * (1 + JITTER * random);
}

/** The end of the year 9999, the last time that can be written. */
const LAST_TIME = 253_402_300_799_999;

type LeaseSettings = Pick<NodeSettings, "nodeName" | "nodeLeaseDurationSeconds">;

/**
 * The lease of a node, new or made from the server's, of which it keeps all fields that are not ours. The Node of this
 * uid owns it, and no earlier Node of the same name.
 *
 * Each renewal is later than the one before it, whatever the clock shows: the control plane counts a renewal only if
 * its time has grown, so a clock that is set back by an hour would make a healthy node unreachable for an hour. While
 * the clock is behind, each renewal is a millisecond after the last, so that the two meet as soon as possible.
 */
export function leaseOf(
  { nodeName, nodeLeaseDurationSeconds }: LeaseSettings,
  nodeUid: string,
  before: Lease | undefined,
  now: number,
): Lease {
  const owner: OwnerReference = { apiVersion: "v1", kind: "Node", name: nodeName, uid: nodeUid };
  const others = (before?.metadata.ownerReferences ?? []).filter(({ kind }) => kind !== "Node");
  const renewedBefore = before === undefined ? undefined : renewedAt(before);
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: {
      ...before?.metadata,
      name: nodeName,
      namespace: LEASE_NAMESPACE,
      ownerReferences: [owner, ...others],
    },
    spec: {
      ...before?.spec,
      holderIdentity: nodeName,
      leaseDurationSeconds: nodeLeaseDurationSeconds,
      renewTime: formatMicroTime(
        renewedBefore === undefined || renewedBefore >= LAST_TIME ? now : Math.max(now, renewedBefore + 1),
      ),
    },
  };
}

/** When the lease was last renewed; undefined if it does not say so. */
export function renewedAt({ spec }: Lease): number | undefined {
  const { renewTime: time } = spec ?? {};
  if (time === undefined) return undefined;
  try {
    return parseTime(time);
  } catch (error) {
    // A malformed time counts as absent.
    if (error instanceof TimeError) return undefined;
    throw error;
  }
}
