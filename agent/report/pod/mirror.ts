import { createCoalescingWorker } from "../../../host/async/coalescing-worker.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import { type ListSnapshot, replaces } from "../../decide/sources/api-object.ts";
import { mirroredUid } from "../../decide/sources/api-pod.ts";
import { planMirrors } from "../../decide/sources/mirror.ts";
import { retryAfterMs } from "../retry.ts";
import { createMirrorClient, type MirrorClientOptions } from "./mirror-client.ts";

/** Maintains a mirror pod in the API for each static pod of this node. Works in the background; never throws. */
export interface MirrorPods {
  /** A static pod was added, terminates or was removed, or all sources became ready. */
  reconcile(): void;
  /** The uid of this node's Node object; undefined if it is absent or about to be deleted. */
  setNodeUid(uid: string | undefined): void;
  /**
   * A pod of this node in the API; pods other than mirrors are ignored. `snapshot`: the complete list that contained
   * it.
   */
  onObserved(pod: Pod, snapshot?: ListSnapshot): void;
  onDeleted(pod: Pod): void;
  /** The initial list of pods was received. */
  onListed(): void;
  /** The API server is reachable again. */
  onRecovered(): void;
  settled(): Promise<void>;
  stop(): void;
}

export interface MirrorPodsOptions extends MirrorClientOptions {
  readonly nodeName: string;
  readonly desired: () => Iterable<DesiredPod>;
  /** Whether all pod sources are ready (the kubelet's SourcesReady). */
  readonly areSourcesReady: () => boolean;
}

/** Compares the static pods with their mirrors and creates or deletes mirrors until they match. */
export function createMirrorPods(settings: MirrorPodsOptions): MirrorPods {
  const { nodeName, clock, desired, areSourcesReady } = settings;
  const mirrors = new Map<string | undefined, Pod>();
  const stopping = new AbortController();
  const calls = createMirrorClient(settings, reconcile, stopping.signal);
  let nodeUid: string | undefined;
  let isListed = false;
  const worker = createCoalescingWorker(work);
  const retryTimer = createRetryTimer(clock, reconcile);

  function reconcile(): void {
    worker.wake();
  }

  /** Never rejects. */
  async function work(): Promise<void> {
    if (stopping.signal.aborted || retryTimer.isWaiting() || !isListed) return;
    const node = nodeUid === undefined ? undefined : { name: nodeName, uid: nodeUid };
    const input = { desired: desired(), mirrors: mirrors.values(), node, areSourcesReady: areSourcesReady() };
    const outcomes = await calls.perform(planMirrors(input));
    for (const outcome of outcomes) {
      if (outcome.kind === "created") store(outcome.mirror);
      if (outcome.kind === "deleted") drop(outcome.mirror);
    }
    const failed = outcomes.find((outcome) => outcome.kind === "outage");
    if (failed !== undefined && !stopping.signal.aborted) retryTimer.wait(failed.error);
    else retryTimer.reset();
  }

  function store(mirror: Pod, snapshot?: ListSnapshot): void {
    const known = mirrors.get(mirror.metadata.uid);
    if (!replaces(mirror.metadata.resourceVersion, known?.metadata.resourceVersion, snapshot)) return;
    mirrors.set(mirror.metadata.uid, mirror);
    reconcile();
  }

  function drop(mirror: Pod): void {
    if (mirrors.delete(mirror.metadata.uid)) reconcile();
  }

  return {
    reconcile,
    setNodeUid(uid) {
      if (uid === nodeUid) return;
      nodeUid = uid;
      reconcile();
    },
    onObserved(pod, snapshot) {
      if (mirroredUid(pod) !== undefined) store(pod, snapshot);
    },
    onDeleted(pod) {
      drop(pod);
      calls.onNameFreed(pod);
      reconcile();
    },
    onListed() {
      isListed = true;
      reconcile();
    },
    onRecovered() {
      retryTimer.reset();
      reconcile();
    },
    settled: () => worker.settled(),
    stop() {
      stopping.abort();
      retryTimer.reset();
    },
  };
}

/** Delays the next attempt for all mirror pods, longer after each failure. `onRetry` makes the attempt. */
function createRetryTimer(clock: MirrorPodsOptions["clock"], onRetry: () => void) {
  let failures = 0;
  let cancel: (() => void) | undefined;
  return {
    isWaiting: () => cancel !== undefined,
    wait(error: unknown) {
      failures += 1;
      cancel = clock.wakeAt(clock.now() + retryAfterMs(failures, error), () => {
        cancel = undefined;
        onRetry();
      });
    },
    reset() {
      failures = 0;
      cancel?.();
      cancel = undefined;
    },
  };
}

/**
 * Tracks which static pods are new, have changed or must terminate since their last report; their mirror pods must be
 * reconciled.
 */
export function createStaticPodChanges() {
  const known = new Map<PodUid, string>();
  return {
    hasChanged({ uid, source, revision, termination }: DesiredPod): boolean {
      if (source.kind === "api") return false;
      const state = `${revision} ${termination === undefined}`;
      if (known.get(uid) === state) return false;
      known.set(uid, state);
      return true;
    },
    forget: (uid: PodUid) => known.delete(uid),
  };
}
