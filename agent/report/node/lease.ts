import { createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import { createFailureLog } from "../../../host/async/failure-log.ts";
import type { Clock, Instant } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { hasCode } from "../../../kube/error.ts";
import type { RequestOptions } from "../../../kube/request-options.ts";
import { leases } from "../../../kube/resource.ts";
import type { Lease } from "../../../proto/kubernetes/gen/types.ts";
import { LEASE_NAMESPACE, leaseOf, renewAfterMs, renewedAt } from "../../decide/node/lease.ts";
import type { NodeSettings } from "../../decide/node/node-settings.ts";
import { loggedReasonOf, retryAfterMs } from "../retry.ts";

export interface LeaseOptions {
  readonly kube: Pick<KubeClient, "get" | "create" | "replace">;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly settings: Pick<NodeSettings, "nodeName" | "nodeLeaseDurationSeconds">;
  /** The uid of the Node that owns the lease; undefined while there is none. */
  readonly nodeUid: () => string | undefined;
  readonly deadlineMs: number;
}

export interface LeaseState {
  /** The time of the last successful renewal. */
  readonly renewedAt: Instant | undefined;
  /** Why the latest attempt failed, if it did. */
  readonly error: unknown;
  /** The time of that failure. */
  readonly failedAt: Instant | undefined;
}

export interface NodeLease {
  /** Renews the lease until the signal aborts. Never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** Renews at once, because the Node was created or replaced, or the API server is reachable again. */
  retryNow(): void;
  state(): LeaseState;
}

/**
 * Renews the node's Lease, the heartbeat for the node controller. It replaces the whole object at the last known
 * version, so a renewal is normally one request. Failures are retried for ever.
 */
export function createNodeLease(options: LeaseOptions): NodeLease {
  const { clock, log, random, settings, nodeUid } = options;
  const wakeUp = createAutoResetEvent(clock);
  const renewal = createRenewer(options);
  const failureLog = createFailureLog(log, "the node's lease cannot be renewed; trying again", loggedReasonOf);
  let state: LeaseState = { renewedAt: undefined, error: undefined, failedAt: undefined };

  async function renew(uid: string, signal: AbortSignal): Promise<boolean> {
    try {
      await renewal.renew(uid, signal);
      failureLog.clear();
      state = { renewedAt: clock.now(), error: undefined, failedAt: undefined };
      return true;
    } catch (error) {
      if (!signal.aborted) failureLog.report(error);
      state = { ...state, error, failedAt: clock.now() };
      return false;
    }
  }

  return {
    async run(signal) {
      let failures = 0;
      while (!signal.aborted) {
        const uid = nodeUid();
        if (uid === undefined) {
          await wakeUp.wait(Number.POSITIVE_INFINITY, signal);
          continue;
        }
        failures = (await renew(uid, signal)) ? 0 : failures + 1;
        const delayMs = failures === 0 ? renewAfterMs(settings, random()) : retryAfterMs(failures, state.error);
        await wakeUp.wait(clock.now() + delayMs, signal);
      }
    },
    retryNow: () => wakeUp.set(),
    state: () => state,
  };
}

/** Performs single renewals on top of the last known Lease. */
function createRenewer({ kube, clock, settings, deadlineMs }: LeaseOptions) {
  const resource = leases(LEASE_NAMESPACE);
  let known: Lease | undefined;
  /** The last renewTime, kept even if the Lease was deleted, because the node controller remembers it. */
  let last: Instant | undefined;

  function next(uid: string, before: Lease | undefined): Lease {
    return leaseOf(settings, uid, before, Math.max(clock.now(), last === undefined ? 0 : last + 1));
  }

  async function store(lease: Promise<Lease>): Promise<void> {
    known = await lease;
    last = renewedAt(known) ?? last;
  }

  /** Reads the Lease, then replaces or creates it. */
  async function createOrReplace(uid: string, options: Parameters<typeof kube.get>[2]): Promise<void> {
    const found = await kube.get(resource, settings.nodeName, options).catch((error: unknown) => {
      if (hasCode(error, "NOT_FOUND")) return undefined;
      throw error;
    });
    const lease = next(uid, found);
    await store(found === undefined ? kube.create(resource, lease, options) : kube.replace(resource, lease, options));
  }

  return {
    async renew(uid: string, signal: AbortSignal): Promise<void> {
      const options: RequestOptions = { priorityLevel: "heartbeat", deadlineMs, signal };
      if (known === undefined) return await createOrReplace(uid, options);
      try {
        await store(kube.replace(resource, next(uid, known), options));
      } catch (error) {
        // Another client wrote or deleted the Lease, or our own request succeeded and its response was lost.
        if (!hasCode(error, "CONFLICT", "NOT_FOUND")) throw error;
        await createOrReplace(uid, options);
      }
    },
  };
}
