import { onAbort } from "../../../host/async/abort.ts";
import { type BackoffOptions, backoffMs } from "../../../host/async/backoff.ts";
import type { Clock } from "../../../host/clock.ts";
import { messageOf } from "../../../host/error-message.ts";
import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { hasCode, isOutage, isServerUnavailable, type KubeErrorCode } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import { mirroredUid } from "../../decide/sources/api-pod.ts";
import type { MirrorPlan } from "../../decide/sources/mirror.ts";
import { decodePod } from "../decode-response.ts";

export interface MirrorClientOptions {
  readonly kube: Pick<KubeClient, "get" | "create" | "delete">;
  readonly clock: Clock;
  readonly log: Log;
  /** Called when a mirror pod was created, so its status can be sent at once. */
  readonly onCreated: (mirror: Pod) => void;
}

export type MirrorOutcome =
  | { readonly kind: "created" | "deleted"; readonly mirror: Pod }
  /** Another pod has the name, or the API server rejects the pod: an immediate retry would not help. */
  | { readonly kind: "backing off" }
  | { readonly kind: "outage"; readonly error: unknown };

interface MirrorFailure {
  readonly logMessage: string;
  /** The error code that is not logged the first time, because it usually passes. */
  readonly transientCode: KubeErrorCode;
}

/** The name may belong to our own mirror: its create response was lost, or a finalizer holds the previous one. */
const CREATE_FAILED: MirrorFailure = { logMessage: "cannot create a mirror pod", transientCode: "ALREADY_EXISTS" };
/** A lagging API server may report a mirror that exists as NOT_FOUND for a moment. */
const DELETE_FAILED: MirrorFailure = { logMessage: "cannot delete a mirror pod", transientCode: "NOT_FOUND" };

const REJECTION_BACKOFF: BackoffOptions = { initialMs: 1_000, maxMs: 60_000 };

/**
 * `kubectl delete` waits until the name is gone: an older kubectl would never see a mirror vanish that returns at once.
 */
const ABSENT_FOR_MS = 1_000;

/**
 * A mirror that the API server rejected: how often in a row, the last logged message, and the timer of its back-off.
 */
interface RejectedMirror {
  readonly pod: string;
  readonly times: number;
  readonly loggedMessage: string | undefined;
  cancel: (() => void) | undefined;
}

/**
 * The calls that create and delete mirror pods; none rejects. A rejected mirror backs off, then `onRetry` is called:
 * one second at first, because an API server that has just started may not have loaded the RBAC rules yet, and at most
 * one minute.
 */
export function createMirrorClient(
  { kube, clock, log, onCreated }: MirrorClientOptions,
  onRetry: () => void,
  signal: AbortSignal,
) {
  /** By the uid of the static pod. */
  const rejectedMirrors = new Map<string | undefined, RejectedMirror>();
  const recentDeletions = createRecentDeletions(clock, onRetry);
  onAbort(signal, () => {
    for (const staticPodUid of rejectedMirrors.keys()) forget(staticPodUid);
    recentDeletions.forgetAll();
  });
  const isBackingOff = (mirror: Pod) => {
    const staticPodUid = mirroredUid(mirror);
    return recentDeletions.has(staticPodUid) || rejectedMirrors.get(staticPodUid)?.cancel !== undefined;
  };

  function backOff(mirror: Pod, loggedMessage: string | undefined): void {
    const staticPodUid = mirroredUid(mirror);
    const times = (rejectedMirrors.get(staticPodUid)?.times ?? 0) + 1;
    const cancel = clock.wakeAt(clock.now() + backoffMs(REJECTION_BACKOFF, times), () => {
      rejection.cancel = undefined;
      onRetry();
    });
    const rejection: RejectedMirror = { pod: fullNameOf(mirror), times, loggedMessage, cancel };
    rejectedMirrors.set(staticPodUid, rejection);
  }

  function outcomeOf(mirror: Pod, error: unknown, { logMessage, transientCode }: MirrorFailure): MirrorOutcome {
    if (isOutage(error) || isServerUnavailable(error)) return { kind: "outage", error };
    const staticPodUid = mirroredUid(mirror);
    const before = rejectedMirrors.get(staticPodUid);
    if (before === undefined && hasCode(error, transientCode)) {
      backOff(mirror, undefined);
      return { kind: "backing off" };
    }
    const message = messageOf(error);
    if (before?.loggedMessage !== message)
      log.warn({ pod: fullNameOf(mirror), uid: staticPodUid, err: error }, logMessage);
    backOff(mirror, message);
    return { kind: "backing off" };
  }

  function forget(staticPodUid: string | undefined): void {
    rejectedMirrors.get(staticPodUid)?.cancel?.();
    rejectedMirrors.delete(staticPodUid);
  }

  async function remove(mirror: Pod): Promise<MirrorOutcome> {
    const { name = "", namespace, uid = "" } = mirror.metadata;
    if (isBackingOff(mirror)) return { kind: "backing off" };
    try {
      await kube.delete(pods(namespace), name, { gracePeriodSeconds: 0, preconditions: { uid } }, { signal });
      forget(mirroredUid(mirror));
      if (mirror.metadata.deletionTimestamp !== undefined && !signal.aborted) recentDeletions.add(mirroredUid(mirror));
      return { kind: "deleted", mirror };
    } catch (error) {
      // Another pod has its name.
      if (hasCode(error, "CONFLICT")) return { kind: "deleted", mirror };
      const why = hasCode(error, "NOT_FOUND") ? await checkNotFound(kube, mirror, error, signal) : error;
      if (why === undefined) return { kind: "deleted", mirror };
      return outcomeOf(mirror, why, DELETE_FAILED);
    }
  }

  async function create(desired: Pod): Promise<MirrorOutcome> {
    if (isBackingOff(desired)) return { kind: "backing off" };
    try {
      const mirror = decodePod(await kube.create(pods(desired.metadata.namespace), desired, { signal }));
      forget(mirroredUid(desired));
      onCreated(mirror);
      return { kind: "created", mirror };
    } catch (error) {
      return outcomeOf(desired, error, CREATE_FAILED);
    }
  }

  return {
    /** Performs the whole plan concurrently. Mirrors that are not in it lose their back-off. */
    async perform(plan: MirrorPlan): Promise<readonly MirrorOutcome[]> {
      const staticPodUids = new Set([...plan.remove, ...plan.create].map(mirroredUid));
      for (const staticPodUid of rejectedMirrors.keys()) if (!staticPodUids.has(staticPodUid)) forget(staticPodUid);
      return await Promise.all([...plan.remove.map(remove), ...plan.create.map(create)]);
    },
    /** A pod of this node was deleted: retries mirrors of its name at once. Pods of other nodes are not watched. */
    onNameFreed(pod: Pod) {
      const name = fullNameOf(pod);
      for (const [staticPodUid, rejection] of rejectedMirrors) if (rejection.pod === name) forget(staticPodUid);
    },
  };
}

/**
 * Undefined if the mirror is really gone. The API server authorises a delete with its own cache, which may not have the
 * pod yet and then returns NOT_FOUND; treating that mirror as deleted would leave it in the API for ever. Never
 * rejects.
 */
async function checkNotFound(
  kube: MirrorClientOptions["kube"],
  { metadata }: Pod,
  rejection: unknown,
  signal: AbortSignal,
): Promise<unknown> {
  try {
    const now = decodePod(await kube.get(pods(metadata.namespace), metadata.name ?? "", { signal }));
    return now.metadata.uid === metadata.uid ? rejection : undefined;
  } catch (error) {
    return hasCode(error, "NOT_FOUND") ? undefined : error;
  }
}

/** Mirrors that a user has just deleted, by the static pod's uid. Calls `onRetry` when one may be created again. */
function createRecentDeletions(clock: Clock, onRetry: () => void) {
  const cancels = new Map<string | undefined, () => void>();
  return {
    has: (staticPodUid: string | undefined) => cancels.has(staticPodUid),
    add(staticPodUid: string | undefined): void {
      if (cancels.has(staticPodUid)) return;
      const end = () => {
        cancels.delete(staticPodUid);
        onRetry();
      };
      cancels.set(staticPodUid, clock.wakeAt(clock.now() + ABSENT_FOR_MS, end));
    },
    forgetAll(): void {
      for (const cancel of cancels.values()) cancel();
      cancels.clear();
    },
  };
}
