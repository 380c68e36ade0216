import type { Lease, OwnerReference } from "../../../proto/kubernetes/gen/types.ts";
import { formatMicroTime, parseTime, TimeError } from "../../../proto/kubernetes/time.ts";
import type { NodeSettings } from "./node-settings.ts";

/** Where the leases of all nodes are. */
export const leaseNamespace = "kube-node-lease";

/** The share of a lease's duration after which it is renewed, and by how much of that each renewal may be later. */
const RENEW_AFTER = 0.25;
const JITTER = 0.04;

/** How long a node's lease is left alone between two renewals; `random` is from 0 up to 1. */
export function renewAfterMs({ nodeLeaseDurationSeconds }: LeaseSettings, random: number): number {
  return nodeLeaseDurationSeconds * 1000 * RENEW_AFTER * (1 + JITTER * random);
}

/** The end of the year 9999: nothing that can be written comes after it. */
const LAST_TIME = 253_402_300_799_999;

type LeaseSettings = Pick<NodeSettings, "nodeName" | "nodeLeaseDurationSeconds">;

/**
 * The lease of a node, new or made of the one that the server has, which keeps everything that is not ours. It goes with the Node of
 * this uid, and with none that had the name before.
 *
 * Each renewal is later than the one before it, whatever the clock says: the control plane counts a renewal only when its time has
 * grown, so a clock that is set back by an hour would make a healthy node lost for an hour. While the clock is behind, each renewal is
 * a millisecond after the last, so that the two meet as soon as they can.
 */
export function leaseOf(
  { nodeName, nodeLeaseDurationSeconds }: LeaseSettings,
  nodeUid: string,
  before: Lease | undefined,
  now: number,
): Lease {
  const owner: OwnerReference = { apiVersion: "v1", kind: "Node", name: nodeName, uid: nodeUid };
  const others = (before?.metadata.ownerReferences ?? []).filter(({ kind }) => kind !== "Node");
  const last = before === undefined ? undefined : renewedAt(before);
  return {
    apiVersion: "coordination.k8s.io/v1",
    kind: "Lease",
    metadata: {
      ...before?.metadata,
      name: nodeName,
      namespace: leaseNamespace,
      ownerReferences: [owner, ...others],
    },
    spec: {
      ...before?.spec,
      holderIdentity: nodeName,
      leaseDurationSeconds: nodeLeaseDurationSeconds,
      renewTime: formatMicroTime(last === undefined || last >= LAST_TIME ? now : Math.max(now, last + 1)),
    },
  };
}

/** When a lease says that it was last renewed; undefined where it does not say it. */
export function renewedAt({ spec }: Lease): number | undefined {
  const { renewTime: time } = spec ?? {};
  if (time === undefined) return undefined;
  try {
    return parseTime(time);
  } catch (error) {
    // A time that nobody can read is as good as none.
    if (error instanceof TimeError) return undefined;
    throw error;
  }
}
