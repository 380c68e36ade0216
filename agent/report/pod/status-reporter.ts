import type { Clock } from "../../../host/clock.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { StageKind } from "../../decide/pod/stage.ts";
import { type AsOf, isNews, mirroredUid } from "../../decide/sources/api-pod.ts";
import { isUnseen } from "../../decide/status/status.ts";
import {
  createSlotWork,
  emptySlot,
  emptyWord,
  type PodStatusSettings,
  type Slot,
  untoldEnd,
} from "./pending-status.ts";

const KEEP_AFTER_MS = 1_000;

/** Tells the API server how the pods of this node are. Nothing here waits for it, and none of it throws. */
export interface PodStatusReport {
  /** The latest word on a pod; the one before it that was not sent yet is never sent. */
  report(desired: DesiredPod, status: PodStatus, stage: StageKind): void;
  /** A pod of this node as the API server has it; a mirror pod stands for its static pod. `asOf`: the complete list that it was in. */
  seen(pod: Pod, asOf?: AsOf): void;
  gone(pod: Pod): void;
  /** Resolves when nothing on the node is needed to tell how a deleted pod has ended: that was told, or is kept. Never rejects. */
  secured(uid: PodUid): Promise<void>;
  /** Nothing is left of the pod on the node. */
  finished(uid: PodUid): void;
  /** The API server answers again: what waits for it waits no longer. */
  back(): void;
  /** Resolves when nothing is under way. */
  settled(): Promise<void>;
  /** Sends nothing more, and gives up what is under way. */
  stop(): void;
}

/**
 * One slot a pod, which holds the latest word on it. Of one pod one call is under way at a time, of all pods as many as there are.
 * What to send is the difference to what the API server last showed, so that nothing has to be asked for; the uid goes with
 * each call, so that a pod of the same name which took its place is never told of.
 */
export function createPodStatusReport(settings: PodStatusSettings): PodStatusReport {
  const slots = new Map<PodUid, Slot>();
  const stopping = new AbortController();
  const wake = createSlotWork(settings, stopping.signal);

  function slotOf(uid: PodUid): Slot {
    const known = slots.get(uid);
    if (known !== undefined) return known;
    const slot = emptySlot(uid);
    slots.set(uid, slot);
    return slot;
  }

  function quiet(slot: Slot): void {
    slot.cancelRetry?.();
    slot.cancelLook?.();
    Object.assign(slot, { cancelRetry: undefined, cancelLook: undefined });
  }

  function drop(slot: Slot): void {
    quiet(slot);
    slot.wanted = undefined;
    slots.delete(slot.uid);
  }

  return {
    report(desired, status, stage) {
      const slot = slotOf(desired.uid);
      // What is said of a pod of which nothing is left was said when something was.
      if (isUnseen(status) || slot.stage === "finished") return;
      Object.assign(slot, { wanted: status, stage });
      wake(slot);
    },
    seen(pod, asOf) {
      const slot = slotOf(slotUid(pod));
      if (!isNews(pod.metadata.resourceVersion, slot.api?.metadata.resourceVersion, asOf)) return;
      slot.api = pod;
      slot.idle = undefined;
      if (asOf?.hasGoneBack) slot.removedUid = undefined;
      wake(slot);
    },
    gone(pod) {
      const slot = slots.get(slotUid(pod));
      if (slot === undefined) return;
      if (slot.api?.metadata.uid === pod.metadata.uid) slot.api = undefined;
      // An answer may have said before that it is gone.
      if (slot.api !== undefined) return;
      if (slot.wanted === undefined || slot.stage === "finished") drop(slot);
    },
    async secured(uid) {
      const slot = slots.get(uid);
      if (slot?.work !== undefined && untoldEnd(slot) !== undefined) await answered(slot.work, settings.clock);
      const end = slot && untoldEnd(slot);
      if (end !== undefined) await settings.keepLast(uid, end);
    },
    finished(uid) {
      const slot = slots.get(uid);
      if (slot === undefined) return;
      if (slot.api === undefined) return drop(slot);
      // A pod of the API is kept until it is gone there too.
      if (mirroredUid(slot.api) === undefined) return;
      // So is a mirror: its manifest may be back before it is removed, and nobody would tell of it again.
      quiet(slot);
      Object.assign(slot, emptyWord());
    },
    back() {
      for (const slot of slots.values()) {
        slot.cancelRetry?.();
        slot.cancelRetry = undefined;
        wake(slot);
      }
    },
    async settled() {
      const underWay = () => [...slots.values()].flatMap(({ work: each }) => (each === undefined ? [] : [each]));
      for (let all = underWay(); all.length > 0; all = underWay()) await Promise.all(all);
    },
    stop() {
      stopping.abort();
      for (const slot of slots.values()) quiet(slot);
    },
  };
}

/** Resolves with the end of this work, or after a moment: most answers come sooner, and save the disk a write. */
async function answered(work: Promise<void>, clock: Clock): Promise<void> {
  const moment = Promise.withResolvers<void>();
  const cancel = clock.wakeAt(clock.now() + KEEP_AFTER_MS, moment.resolve);
  await Promise.race([work, moment.promise]);
  cancel();
}

/** A static pod is told of by its mirror. */
function slotUid(pod: Pod): PodUid {
  return (mirroredUid(pod) ?? pod.metadata.uid ?? "") as PodUid;
}
