import type { ContainerId, PodUid } from "../../../proto/ids.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";

/** Notifies the followers of a container's log when the container has ended. */
export interface ContainerEnds {
  /** A pod was observed. */
  onObserved(observed: ObservedPod): void;
  /** Nothing is left of a pod. */
  onPodFinished(uid: PodUid): void;
  /** Calls `onEnd` once, when the container is observed not to run any more. Returns the function that cancels it. */
  waitFor(uid: PodUid, id: ContainerId, onEnd: () => void): () => void;
}

interface Waiter {
  readonly id: ContainerId;
  readonly onEnd: () => void;
}

export function createContainerEnds(): ContainerEnds {
  const waiters = new Map<PodUid, Set<Waiter>>();

  function remove(uid: PodUid, waiter: Waiter): void {
    const ofPod = waiters.get(uid);
    ofPod?.delete(waiter);
    if (ofPod?.size === 0) waiters.delete(uid);
  }

  function end(uid: PodUid, ended: (waiter: Waiter) => boolean): void {
    for (const waiter of [...(waiters.get(uid) ?? [])].filter(ended)) {
      remove(uid, waiter);
      waiter.onEnd();
    }
  }

  return {
    onObserved({ uid, containers, hasUnconfirmedExit }) {
      // The runtime writes the last lines of the log before its own status shows the exit.
      if (!waiters.has(uid) || hasUnconfirmedExit === true) return;
      const running = new Set(containers.filter(({ state }) => state === "running").map(({ id }) => id));
      end(uid, ({ id }) => !running.has(id));
    },
    onPodFinished: (uid) => end(uid, () => true),
    waitFor(uid, id, onEnd) {
      const waiter = { id, onEnd };
      waiters.set(uid, (waiters.get(uid) ?? new Set()).add(waiter));
      return () => remove(uid, waiter);
    },
  };
}
