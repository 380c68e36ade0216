import { aborted } from "../../../host/async/abort.ts";
import { createSemaphore } from "../../../host/async/semaphore.ts";
import type { Clock } from "../../../host/clock.ts";
import type { KubeClient } from "../../../kube/client.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { type ClaimReference, claimReferencesOf, type KnownClaim } from "../../../proto/kubernetes/claims.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { type ClaimRead, createClaimRead } from "./claim-read.ts";

/** The PersistentVolumeClaims that pods of this node use, with the volumes that are bound to them. Memory only. */
export interface Claims {
  /** By `claimKey`. A missing entry is still being read. */
  latest(): ReadonlyMap<string, KnownClaim>;
  /** Reads the claims of the pod until they are bound. */
  retain(uid: PodUid, pod: Pod): void;
  /** The pod starts no more containers: forgets its claims. */
  release(uid: PodUid): void;
  /** Sends the requests until the signal aborts; never rejects. Called once. */
  run(signal: AbortSignal): Promise<void>;
}

export interface ClaimsOptions {
  readonly kube: Pick<KubeClient, "get" | "subscribeToRecovery">;
  readonly clock: Clock;
  /** Whether an earlier agent has kept the claim with this `claimKey` on the disk. */
  readonly isKept: (key: string) => boolean;
  /** The pod's claim of this key is bound, or it is known now why the pod cannot use it. May not throw. */
  readonly onChange: (uid: PodUid, key: string) => void;
}

/** A node that starts with a hundred pods must not crowd out its other requests. */
const MAX_REQUESTS = 8;

/** Each pod has its own reads: a claim that is being deleted serves the pods that use it, and no new ones. */
export function createClaims({ kube, clock, isKept, onChange }: ClaimsOptions): Claims {
  const pods = new Map<PodUid, ReadonlyMap<string, ClaimRead>>();
  const latest = new Map<string, KnownClaim>();
  const requestSlots = createSemaphore({ permits: MAX_REQUESTS });
  const running = new Set<Promise<void>>();
  let isRunning = false;
  const all = () => [...pods.values()].flatMap((reads) => [...reads.values()]);

  function createRead(uid: PodUid, key: string, reference: ClaimReference): ClaimRead {
    const onKnown = (known: KnownClaim) => {
      const before = latest.get(key);
      latest.set(key, known);
      if (before === undefined || failureIn(before) !== failureIn(known)) onChange(uid, key);
    };
    return createClaimRead({ kube, clock, reference, requestSlots, onKnown, isKept: () => isKept(key) });
  }

  function start(read: ClaimRead): void {
    const run = read.run().finally(() => running.delete(run));
    running.add(run);
  }

  return {
    latest: () => latest,
    retain(uid, pod) {
      // The volumes of a pod of the API never change.
      if (pods.has(uid)) return;
      const references = claimReferencesOf(pod);
      if (references.size === 0) return;
      const reads = new Map([...references].map(([key, reference]) => [key, createRead(uid, key, reference)]));
      pods.set(uid, reads);
      if (isRunning) for (const read of reads.values()) start(read);
    },
    release(uid) {
      for (const [key, read] of pods.get(uid) ?? []) {
        read.stop();
        latest.delete(key);
      }
      pods.delete(uid);
    },
    async run(signal) {
      isRunning = true;
      kube.subscribeToRecovery(() => {
        for (const read of all()) read.retryAfterOutage();
      }, signal);
      for (const read of all()) start(read);
      await aborted(signal);
      isRunning = false;
      for (const read of all()) read.stop();
      await Promise.all(running);
    },
  };
}

const failureIn = (known: KnownClaim) => ("failure" in known ? known.failure : undefined);
