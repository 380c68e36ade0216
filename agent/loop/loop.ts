import type { Clock } from "../../host/clock.ts";
import type { PodUid } from "../../proto/ids.ts";
import { forgiveOutages, forgiveReference } from "../decide/pod/memory.ts";
import type { Settings } from "../decide/settings.ts";
import type { Rooms } from "../rooms.ts";
import { createStarts } from "./start-limiter.ts";
import {
  abortBackground,
  enterLoop,
  forgetFailedLooks,
  giveUpOutdated,
  type Hallway,
  type PodInLoop,
  takeTurn,
} from "./sync-pod.ts";

export interface LoopSettings {
  readonly clock: Clock;
  readonly rooms: Rooms;
  readonly settings: () => Settings;
  /** How many pods may start at once. */
  readonly startPlaces: number;
}

export interface Loop {
  /** Something about this pod: look at it. Never says what; lost and doubled wakes do no harm. */
  wake(uid: PodUid): void;
  /** As wake, for a pod that has to end, or to end sooner: what is being done for it by an earlier word is given up. */
  interrupt(uid: PodUid): void;
  /** The runtime is back: what failed because it was away waits no longer. Whoever calls this wakes the pods. */
  forgive(): void;
  /** An object that the pod refers to, known by this key, was read or is another one: what failed for want of it waits no longer. */
  tellOf(uid: PodUid, key: string): void;
  /** Resolves when no turn, and nothing beside one, is under way. */
  settled(): Promise<void>;
  /** Takes no further turn; resolves when the calls under way have ended. */
  stop(): Promise<void>;
}

/**
 * The hallway between the rooms. One turn per pod at a time: look, decide, report, act, and look again while there was
 * something to do. A turn begins with a fresh look, so nothing is ever decided upon a state that the agent's own last call
 * has made stale.
 */
export function createLoop({ clock, rooms, settings, startPlaces }: LoopSettings): Loop {
  const pods = new Map<PodUid, PodInLoop>();
  const hall: Hallway = { clock, rooms, settings, wake, starts: createStarts(startPlaces, clock, wake) };
  let isStopping = false;

  function wake(uid: PodUid): void {
    if (isStopping) return;
    const pod = pods.get(uid) ?? enterLoop(uid);
    pods.set(uid, pod);
    pod.isDirty = true;
    pod.turning ??= turnUntilClean(pod).finally(() => {
      pod.turning = undefined;
      // A wake between the last look at isDirty and this line found the pod turning, and left it to us.
      if (pod.isDirty && pods.get(uid) === pod) wake(uid);
    });
  }

  async function turnUntilClean(pod: PodInLoop): Promise<void> {
    // Only when the pod is known to be turning: a room that wakes it from within its turn must not begin another.
    await Promise.resolve();
    while (pod.isDirty && !isStopping) {
      pod.isDirty = false;
      if (await takeTurn(hall, pod)) return leave(pod);
    }
  }

  function leave(pod: PodInLoop): void {
    pod.cancelTimer?.();
    abortBackground(pod);
    pod.background.clear();
    hall.starts.release(pod.uid);
    pods.delete(pod.uid);
    rooms.finished(pod.uid);
    // A wake that came during the last turn belongs to a pod of the same uid that begins anew.
    if (pod.isDirty) wake(pod.uid);
  }

  function interrupt(uid: PodUid): void {
    const pod = pods.get(uid);
    if (pod !== undefined) giveUpOutdated(pod, rooms.desired(uid));
    wake(uid);
  }

  function forgive(): void {
    for (const pod of pods.values()) {
      pod.memory = forgiveOutages(pod.memory);
      forgetFailedLooks(pod);
    }
  }

  function tellOf(uid: PodUid, key: string): void {
    const pod = pods.get(uid);
    const wanted = rooms.desired(uid);
    if (pod === undefined || wanted === undefined || wanted === "unknown") return;
    pod.memory = forgiveReference(pod.memory, wanted.pod, key);
    wake(uid);
  }

  const underWay = () =>
    [...pods.values()].flatMap(({ turning, background }) => [
      ...(turning === undefined ? [] : [turning]),
      ...[...background.values()].map(({ done }) => done),
    ]);

  async function settled(): Promise<void> {
    for (let work = underWay(); work.length > 0; work = underWay()) await Promise.all(work);
  }

  async function stop(): Promise<void> {
    isStopping = true;
    for (const pod of pods.values()) {
      pod.cancelTimer?.();
      abortBackground(pod);
    }
    await settled();
    // So that no timer of a place outlives the loop.
    for (const uid of pods.keys()) hall.starts.release(uid);
  }

  return { wake, interrupt, forgive, tellOf, settled, stop };
}
