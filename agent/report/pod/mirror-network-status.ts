import { type BackoffOptions, createBackoffCounter } from "../../../host/async/backoff.ts";
import { createKeyedCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { hasCode } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { networkStatusAnnotation, networksAnnotation } from "../../../proto/kubernetes/well-known-names.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import { mirroredUid } from "../../decide/sources/api-pod.ts";

export interface MirrorNetworkStatusOptions {
  readonly kube: Pick<KubeClient, "patch">;
  /** The annotation's value for the static pod with this uid; undefined if the pod has no secondary networks, or none yet. */
  readonly readStatus: (uid: string) => Promise<string | undefined>;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
}

/**
 * Writes the annotation `k8s.v1.cni.cncf.io/network-status` of mirror pods. A static pod starts without its mirror pod, and even without
 * the API server, and users may delete its mirror pod: so each of the two events makes it compare what is written with the cache.
 */
export interface MirrorNetworkStatus {
  /** A mirror pod was created or has changed, or was deleted: then the next one of its static pod comes by another call. */
  onMirror(mirror: Pod, change: "observed" | "deleted"): void;
  /** The networks of a static pod have been made. */
  onAttached(uid: string): void;
  /** Cancels the request under way, and resolves when it has ended; no other one follows. */
  stop(): Promise<void>;
}

const DEADLINE_MS = 10_000;
const BACKOFF: BackoffOptions = { initialMs: 1_000, maxMs: 60_000 };

export function createMirrorNetworkStatus(options: MirrorNetworkStatusOptions): MirrorNetworkStatus {
  const { kube, readStatus, clock, log } = options;
  /** By the uid of the static pod: the mirror pods that select networks. */
  const mirrors = new Map<string, Pod>();
  const retries = new Map<string, () => void>();
  const stopped = new AbortController();
  const backoff = createBackoffCounter(BACKOFF);
  const worker = createKeyedCoalescingWorker(compare);

  async function compare(uid: string): Promise<void> {
    retries.get(uid)?.();
    retries.delete(uid);
    const mirror = mirrors.get(uid);
    if (mirror === undefined || stopped.signal.aborted) return;
    try {
      const status = await readStatus(uid);
      if (status !== undefined && status !== mirror.metadata.annotations?.[networkStatusAnnotation])
        await write(uid, mirror, status);
      backoff.reset();
    } catch (error) {
      if (stopped.signal.aborted) return;
      log.warn({ pod: fullNameOf(mirror), uid, err: error }, `cannot write ${networkStatusAnnotation} of a mirror pod`);
      retries.set(
        uid,
        clock.wakeAt(clock.now() + backoff.next(), () => worker.wake(uid)),
      );
    }
  }

  async function write(uid: string, { metadata }: Pod, status: string): Promise<void> {
    const body = { metadata: { annotations: { [networkStatusAnnotation]: status } } };
    const patch = { type: "merge", subresource: "status", uid: metadata.uid ?? "", body } as const;
    try {
      const requestOptions = { deadlineMs: DEADLINE_MS, signal: stopped.signal };
      await kube.patch(pods(metadata.namespace), metadata.name ?? "", patch, requestOptions);
    } catch (error) {
      if (!hasCode(error, "NOT_FOUND", "CONFLICT")) throw error;
      forget(uid, metadata);
    }
  }

  /** Another mirror pod of the static pod may have come in between. */
  function forget(uid: string, { uid: mirrorUid }: Pod["metadata"]): void {
    if (mirrors.get(uid)?.metadata.uid !== mirrorUid) return;
    mirrors.delete(uid);
    retries.get(uid)?.();
    retries.delete(uid);
  }

  return {
    onMirror(mirror, change) {
      const uid = mirroredUid(mirror);
      if (uid === undefined) return;
      if (change === "deleted") return forget(uid, mirror.metadata);
      if (mirror.metadata.annotations?.[networksAnnotation] === undefined) return;
      mirrors.set(uid, mirror);
      worker.wake(uid);
    },
    onAttached: worker.wake,
    async stop() {
      stopped.abort();
      for (const cancel of retries.values()) cancel();
      await worker.settled();
    },
  };
}
