import { createAutoResetEvent } from "../../../host/async/auto-reset-event.ts";
import { createBackoffCounter } from "../../../host/async/backoff.ts";
import type { Semaphore } from "../../../host/async/semaphore.ts";
import type { Clock } from "../../../host/clock.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { isServerFailure, KubeError } from "../../../kube/error.ts";
import { persistentVolumeClaims, persistentVolumes } from "../../../kube/resource.ts";
import type { ClaimReference, KnownClaim } from "../../../proto/kubernetes/claims.ts";
import { bindingProblem, claimProblem } from "../../decide/volumes/claim-binding.ts";
import { AUTHORIZER_RETRY_MS, WAIT_FOR_AUTHORIZER_MS } from "./node-authorizer.ts";

/** Reads a claim that a pod uses, and the persistent volume that is bound to it. */
export interface ClaimRead {
  /** Reads until the claim is bound, or until `stop`; never rejects. Called once. */
  run(): Promise<void>;
  /** The API server serves us again: a claim that is not bound is read now. */
  retryAfterOutage(): void;
  /** Ends the read; `onKnown` is not called afterwards. */
  stop(): void;
}

export interface ClaimReadOptions {
  readonly kube: Pick<KubeClient, "get">;
  readonly clock: Clock;
  readonly reference: ClaimReference;
  /** Limits the requests of all claims. */
  readonly requestSlots: Semaphore;
  /** The claim is bound, or the pod cannot use it for this reason. May not throw. */
  readonly onKnown: (known: KnownClaim) => void;
  /** What an earlier agent knew of the claim is on the disk, so that the pod does not have to wait for a slow answer. */
  readonly isKept: () => boolean;
}

const DEADLINE_MS = 10_000;
/** The time for which pods wait for Secrets, ConfigMaps and tokens, too. */
const WAIT_WITH_KEPT_MS = 1_000;
/** A claim is usually bound within a second of its pod's creation, if it is not bound before. */
const RETRY = { initialMs: 500, maxMs: 8_000 };

/**
 * The node authorizer lets a node `get` the claims of its pods and their volumes, and watch neither. What a bound claim is
 * bound to does not change any more, so it is read once for each pod.
 */
export function createClaimRead(options: ClaimReadOptions): ClaimRead {
  const { clock, requestSlots, onKnown, isKept } = options;
  const stopping = new AbortController();
  const { signal } = stopping;
  const retry = createAutoResetEvent(clock);
  const backoff = createBackoffCounter(RETRY);

  let endWait = () => {};

  async function readUntilBound(): Promise<void> {
    const startedAt = clock.monotonicMs();
    while (!signal.aborted) {
      const { isForbidden, ...known } = await requestSlots.run(() => readClaim(options, signal), signal);
      endWait();
      if (signal.aborted) return;
      const isTooEarly = isForbidden === true && clock.monotonicMs() - startedAt < WAIT_FOR_AUTHORIZER_MS;
      if (!isTooEarly) onKnown(known);
      if (!("failure" in known)) return;
      await retry.wait(clock.now() + (isTooEarly ? AUTHORIZER_RETRY_MS : backoff.next()), signal);
    }
  }

  return {
    async run() {
      if (isKept()) endWait = clock.wakeAt(clock.now() + WAIT_WITH_KEPT_MS, () => onKnown(withoutAnswer));
      try {
        await readUntilBound();
      } catch (error) {
        // The wait for a request slot was aborted.
        if (!signal.aborted) throw error;
      } finally {
        endWait();
      }
    },
    retryAfterOutage: retry.set,
    stop: () => stopping.abort(),
  };
}

const withoutAnswer: KnownClaim = {
  failure: "failed to fetch PVC from API server: timed out waiting for the condition",
  isOutage: true,
};

type ReadClaim = KnownClaim & { readonly isForbidden?: true };

async function readClaim(
  { kube, reference: { namespace, name } }: Pick<ClaimReadOptions, "kube" | "reference">,
  signal: AbortSignal,
): Promise<ReadClaim> {
  const options = { deadlineMs: DEADLINE_MS, signal };
  const claim = await failureOf("PVC", kube.get(persistentVolumeClaims(namespace), name, options));
  if ("failure" in claim) return claim;
  const problem = claimProblem(claim);
  if (problem !== undefined) return { failure: problem };
  const { volumeName = "" } = claim.spec;
  const persistentVolume = await failureOf(`PV ${volumeName}`, kube.get(persistentVolumes, volumeName, options));
  if ("failure" in persistentVolume) return persistentVolume;
  const failure = bindingProblem(claim, persistentVolume);
  return failure === undefined ? { claim, persistentVolume } : { failure };
}

interface FailedRead {
  readonly failure: string;
  readonly isForbidden?: true;
  readonly isOutage?: true;
}

/** The object, or the kubelet's words for a request that failed. */
async function failureOf<T extends object>(what: string, request: Promise<T>): Promise<T | FailedRead> {
  try {
    return await request;
  } catch (error) {
    if (!(error instanceof KubeError)) throw error;
    const failure = `failed to fetch ${what} from API server: ${error.serverMessage ?? error.message}`;
    if (error.code === "FORBIDDEN") return { failure, isForbidden: true };
    return isServerFailure(error) ? { failure, isOutage: true } : { failure };
  }
}
