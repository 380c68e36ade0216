import type { Clock } from "../../host/clock.ts";
import type { PodUid } from "../../proto/ids.ts";

/** Retries the read of the Node object: no watch event arrives if the object did not change during the outage. */
const NODE_REFRESH_RETRY_MS = 5_000;

export interface NodeRefreshOptions {
  readonly clock: Clock;
  /**
   * Gets the Node object again. Returns true if it is current or cannot be read, false if the API server does not
   * respond. Never rejects.
   */
  readonly refreshNode: () => Promise<boolean>;
  /** The Node object was read again: pods that waited for it can be decided. */
  readonly onNodeRefreshed: () => void;
}

/** Reads the Node object for pods that cannot be decided by the known one. */
export interface NodeRefresh {
  /** Whether the Node object was read since it was requested for this pod. */
  isFreshFor(uid: PodUid): boolean;
  requestFor(uid: PodUid): void;
  forget(uid: PodUid): void;
}

/**
 * The scheduler may bind a pod by node labels that this agent has not received yet. A pod that does not match the known
 * labels is decided again after the Node object was read once since the pod arrived.
 */
export function createNodeRefresh({ refreshNode, onNodeRefreshed, clock }: NodeRefreshOptions): NodeRefresh {
  const waiting = new Set<PodUid>();
  const fresh = new Set<PodUid>();
  let isRefreshing = false;
  let cancelRetry = () => {};

  async function refresh(): Promise<void> {
    cancelRetry();
    const uids = [...waiting];
    if (uids.length === 0) return;
    isRefreshing = true;
    const isRefreshed = await refreshNode();
    isRefreshing = false;
    if (!isRefreshed) {
      cancelRetry = clock.wakeAt(clock.now() + NODE_REFRESH_RETRY_MS, () => void refresh());
      return;
    }
    for (const uid of uids) if (waiting.delete(uid)) fresh.add(uid);
    onNodeRefreshed();
  }

  return {
    isFreshFor: (uid: PodUid) => fresh.has(uid),
    requestFor(uid: PodUid) {
      waiting.add(uid);
      if (!isRefreshing) void refresh();
    },
    forget(uid: PodUid) {
      waiting.delete(uid);
      fresh.delete(uid);
    },
  };
}
