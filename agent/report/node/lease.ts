import { createBell } from "../../../host/async/auto-reset-event.ts";
import type { Clock, Instant } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { Kube } from "../../../kube/client.ts";
import { leases } from "../../../kube/resource.ts";
import type { Lease } from "../../../proto/kubernetes/gen/types.ts";
import { leaseNamespace, leaseOf, renewAfterMs, renewedAt } from "../../decide/node/lease.ts";
import type { NodeSettings } from "../../decide/node/node-settings.ts";
import { createTrouble, hasCode, retryAfterMs } from "../retry.ts";

export interface LeaseParts {
  readonly kube: Pick<Kube, "get" | "create" | "replace">;
  readonly clock: Clock;
  readonly log: Log;
  /** From 0 up to 1. */
  readonly random: () => number;
  readonly settings: Pick<NodeSettings, "nodeName" | "nodeLeaseDurationSeconds">;
  /** The uid of the Node that the lease goes with; undefined while there is none. */
  readonly nodeUid: () => string | undefined;
  readonly deadlineMs: number;
}

export interface LeaseState {
  /** When the API server last took a renewal. */
  readonly renewedAt: Instant | undefined;
  /** Why it has not since. */
  readonly error: unknown;
  /** When that was. */
  readonly failedAt: Instant | undefined;
}

export interface NodeLease {
  /** Keeps the lease until the signal aborts; never rejects. */
  run(signal: AbortSignal): Promise<void>;
  /** There is a Node, or another one, or the API server is back: the lease is renewed at once. */
  hurry(): void;
  state(): LeaseState;
}

/**
 * Renews the node's lease, by which the control plane knows that the node lives. The lease is written whole over the version that was
 * answered last, so that in the ordinary case a renewal is one request. Whatever fails is tried again for ever.
 */
export function createNodeLease(parts: LeaseParts): NodeLease {
  const { clock, log, random, settings, nodeUid } = parts;
  const bell = createBell(clock);
  const renewal = createRenewal(parts);
  const trouble = createTrouble(log, "the node's lease cannot be renewed; trying again");
  let state: LeaseState = { renewedAt: undefined, error: undefined, failedAt: undefined };

  async function renew(uid: string, signal: AbortSignal): Promise<boolean> {
    try {
      await renewal.renew(uid, signal);
      trouble.over();
      state = { renewedAt: clock.now(), error: undefined, failedAt: undefined };
      return true;
    } catch (error) {
      if (!signal.aborted) trouble.met(error);
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
          await bell.wait(Number.POSITIVE_INFINITY, signal);
          continue;
        }
        failures = (await renew(uid, signal)) ? 0 : failures + 1;
        const delayMs = failures === 0 ? renewAfterMs(settings, random()) : retryAfterMs(failures, state.error);
        await bell.wait(clock.now() + delayMs, signal);
      }
    },
    hurry: () => bell.ring(),
    state: () => state,
  };
}

/** One renewal, over the lease that is known. */
function createRenewal({ kube, clock, settings, deadlineMs }: LeaseParts) {
  const resource = leases(leaseNamespace);
  let known: Lease | undefined;
  /** Also of a lease that was deleted: the control plane remembers it. */
  let last: Instant | undefined;

  function next(uid: string, before: Lease | undefined): Lease {
    return leaseOf(settings, uid, before, Math.max(clock.now(), last === undefined ? 0 : last + 1));
  }

  async function take(lease: Promise<Lease>): Promise<void> {
    known = await lease;
    last = renewedAt(known) ?? last;
  }

  /** Reads what is there, and writes over it, or anew. */
  async function begin(uid: string, options: Parameters<typeof kube.get>[2]): Promise<void> {
    const found = await kube.get(resource, settings.nodeName, options).catch((error: unknown) => {
      if (hasCode(error, "NOT_FOUND")) return undefined;
      throw error;
    });
    const lease = next(uid, found);
    await take(found === undefined ? kube.create(resource, lease, options) : kube.replace(resource, lease, options));
  }

  return {
    async renew(uid: string, signal: AbortSignal): Promise<void> {
      const options = { lane: "heartbeat", deadlineMs, signal } as const;
      if (known === undefined) return await begin(uid, options);
      try {
        await take(kube.replace(resource, next(uid, known), options));
      } catch (error) {
        // Somebody else has written it, or taken it away; or we have, by a request whose answer was lost.
        if (!hasCode(error, "CONFLICT", "NOT_FOUND")) throw error;
        await begin(uid, options);
      }
    },
  };
}
