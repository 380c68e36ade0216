import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log.ts";
import type { Kube } from "../../../kube/client.ts";
import type { KubeErrorCode } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import { mirroredUid } from "../../decide/sources/api-pod.ts";
import type { MirrorPlan } from "../../decide/sources/mirror.ts";
import { hasCode, isOfServer, isOutage } from "../retry.ts";
import { readPod } from "./decode-pod.ts";

export interface MirrorCallSettings {
  readonly kube: Pick<Kube, "get" | "create" | "delete">;
  readonly clock: Clock;
  readonly log: Log;
  /** A mirror pod was made: its status can be told at once. */
  readonly made: (mirror: Pod) => void;
}

export type MirrorOutcome =
  | { readonly kind: "made" | "removed"; readonly mirror: Pod }
  /** Another pod has the name, or the API server does not take it: nothing that another try at once would change. */
  | { readonly kind: "left" }
  | { readonly kind: "outage"; readonly error: unknown };

interface Trouble {
  readonly sentence: string;
  /** What is not worth a word the first time, since it ends by itself as a rule. */
  readonly passing: KubeErrorCode;
}

/** The name may be our own mirror's, which the watch shows any moment: an answer was lost, or a finalizer holds the one before. */
const NOT_MADE: Trouble = { sentence: "a static pod cannot be shown in the API", passing: "ALREADY_EXISTS" };
/** An API server that has a mirror and does not find it will find it in a moment. */
const NOT_REMOVED: Trouble = { sentence: "a mirror pod cannot be removed from the API", passing: "NOT_FOUND" };

const FIRST_REFUSED_MS = 1_000;
const LONGEST_REFUSED_MS = 60_000;

/** Who has a mirror deleted waits until it is gone: one that is back at once, under its name, was never gone for an older kubectl. */
const GONE_FOR_MS = 1_000;

/** A mirror that was refused: how often in a row, what was told of that, and what ends the time for which it is left alone. */
interface Refusal {
  readonly pod: string;
  readonly times: number;
  readonly told: string | undefined;
  cancel: (() => void) | undefined;
}

/**
 * The calls that make and remove mirror pods; none rejects. What was refused is left alone for a while, then `again` is called. That
 * is a second at first, since an API server that has just started may not know yet what we may do, and in the end a minute.
 */
export function createMirrorCalls(
  { kube, clock, log, made }: MirrorCallSettings,
  again: () => void,
  signal: AbortSignal,
) {
  /** By the uid of the static pod. */
  const refusals = new Map<string | undefined, Refusal>();
  const gone = createGone(clock, again);
  const forgetAll = () => {
    for (const hash of refusals.keys()) forget(hash);
    gone.forgetAll();
  };
  signal.addEventListener("abort", forgetAll, { once: true });
  const isLeft = (mirror: Pod) => {
    const hash = mirroredUid(mirror);
    return gone.has(hash) || refusals.get(hash)?.cancel !== undefined;
  };

  function refuse(mirror: Pod, told: string | undefined): void {
    const hash = mirroredUid(mirror);
    const times = (refusals.get(hash)?.times ?? 0) + 1;
    const delayMs = Math.min(LONGEST_REFUSED_MS, FIRST_REFUSED_MS * 2 ** Math.min(times - 1, 16));
    const cancel = clock.wakeAt(clock.now() + delayMs, () => {
      refusal.cancel = undefined;
      again();
    });
    const refusal: Refusal = { pod: fullNameOf(mirror), times, told, cancel };
    refusals.set(hash, refusal);
  }

  function outcomeOf(mirror: Pod, error: unknown, { sentence, passing }: Trouble): MirrorOutcome {
    if (isOutage(error) || isOfServer(error)) return { kind: "outage", error };
    const hash = mirroredUid(mirror);
    const before = refusals.get(hash);
    if (before === undefined && hasCode(error, passing)) {
      refuse(mirror, undefined);
      return { kind: "left" };
    }
    const message = error instanceof Error ? error.message : String(error);
    if (before?.told !== message) log.warn({ pod: fullNameOf(mirror), uid: hash, err: error }, sentence);
    refuse(mirror, message);
    return { kind: "left" };
  }

  function forget(hash: string | undefined): void {
    refusals.get(hash)?.cancel?.();
    refusals.delete(hash);
  }

  async function remove(mirror: Pod): Promise<MirrorOutcome> {
    const { name = "", namespace, uid = "" } = mirror.metadata;
    if (isLeft(mirror)) return { kind: "left" };
    try {
      await kube.delete(pods(namespace), name, { gracePeriodSeconds: 0, preconditions: { uid } }, { signal });
      forget(mirroredUid(mirror));
      if (mirror.metadata.deletionTimestamp !== undefined && !signal.aborted) gone.note(mirroredUid(mirror));
      return { kind: "removed", mirror };
    } catch (error) {
      // Another pod has its name.
      if (hasCode(error, "CONFLICT")) return { kind: "removed", mirror };
      const why = hasCode(error, "NOT_FOUND") ? await whyNotFound(kube, mirror, error, signal) : error;
      if (why === undefined) return { kind: "removed", mirror };
      return outcomeOf(mirror, why, NOT_REMOVED);
    }
  }

  async function create(wanted: Pod): Promise<MirrorOutcome> {
    if (isLeft(wanted)) return { kind: "left" };
    try {
      const mirror = readPod(await kube.create(pods(wanted.metadata.namespace), wanted, { signal }));
      forget(mirroredUid(wanted));
      made(mirror);
      return { kind: "made", mirror };
    } catch (error) {
      return outcomeOf(wanted, error, NOT_MADE);
    }
  }

  return {
    /** Tries all of the plan at once. It holds all that is to be done, so nothing is remembered of any other mirror. */
    async carryOut(plan: MirrorPlan): Promise<readonly MirrorOutcome[]> {
      const hashes = new Set([...plan.remove, ...plan.create].map(mirroredUid));
      for (const hash of refusals.keys()) if (!hashes.has(hash)) forget(hash);
      return await Promise.all([...plan.remove.map(remove), ...plan.create.map(create)]);
    },
    /** A pod of this node is gone: its name need not be waited for. Of pods of other nodes nobody tells. */
    freed(pod: Pod) {
      const name = fullNameOf(pod);
      for (const [hash, refusal] of refusals) if (refusal.pod === name) forget(hash);
    },
  };
}

/**
 * Undefined where the mirror is gone. The API server looks up who may delete a pod in a memory of its own, which may not have the pod yet:
 * a mirror that was believed to be gone then would keep its name for ever. Never rejects.
 */
async function whyNotFound(
  kube: MirrorCallSettings["kube"],
  { metadata }: Pod,
  refusal: unknown,
  signal: AbortSignal,
): Promise<unknown> {
  try {
    const now = readPod(await kube.get(pods(metadata.namespace), metadata.name ?? "", { signal }));
    return now.metadata.uid === metadata.uid ? refusal : undefined;
  } catch (error) {
    return hasCode(error, "NOT_FOUND") ? undefined : error;
  }
}

/** Mirrors that somebody has deleted a moment ago, by the uid of the static pod; `again` is called when the moment is over. */
function createGone(clock: Clock, again: () => void) {
  const cancels = new Map<string | undefined, () => void>();
  return {
    has: (hash: string | undefined) => cancels.has(hash),
    note(hash: string | undefined): void {
      if (cancels.has(hash)) return;
      const end = () => {
        cancels.delete(hash);
        again();
      };
      cancels.set(hash, clock.wakeAt(clock.now() + GONE_FOR_MS, end));
    },
    forgetAll(): void {
      for (const cancel of cancels.values()) cancel();
      cancels.clear();
    },
  };
}
