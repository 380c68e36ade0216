import type { Clock } from "../../../host/clock.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Beginning, Taken } from "../../decide/pod/action-call.ts";

/** A pull that a pod waits for. */
export interface PullUnderWay {
  readonly image: string;
  /** When it was asked for, in milliseconds since 1970. */
  readonly since: number;
  /** 1 for the first try. */
  readonly attempt: number;
}

export interface PullsUnderWay {
  begins(beginning: Beginning): void;
  took(taken: Taken): void;
  finished(uid: PodUid): void;
  of(uid: PodUid): readonly PullUnderWay[];
}

export interface PullsUnderWaySettings {
  readonly clock: Clock;
  /** Called when a pull has lasted so long, a few times. */
  readonly long: (beginning: Beginning, pull: PullUnderWay, lastedMs: number) => void;
}

interface Tried {
  attempts: number;
  pull: PullUnderWay | undefined;
  cancel: () => void;
}

/** An hour's pull is told of four times, and each hour after that. */
const MARKS_MS = [60_000, 300_000, 900_000, 3_600_000] as const;
const EVERY_MS = 3_600_000;

/** What is known of pulls while they last: the CRI tells nothing before the end. One timer a pull, and none while nothing is pulled. */
export function createPullsUnderWay({ clock, long }: PullsUnderWaySettings): PullsUnderWay {
  const pods = new Map<PodUid, Map<string, Tried>>();

  function triedOf(uid: PodUid, image: string): Tried {
    const ofPod = pods.get(uid) ?? new Map<string, Tried>();
    const tried = ofPod.get(image) ?? { attempts: 0, pull: undefined, cancel: () => {} };
    pods.set(uid, ofPod.set(image, tried));
    return tried;
  }

  function watch(beginning: Beginning, tried: Tried, pull: PullUnderWay, mark = 0): void {
    const lastedMs = MARKS_MS[mark] ?? EVERY_MS * (mark - MARKS_MS.length + 2);
    tried.cancel = clock.wakeAt(pull.since + lastedMs, () => {
      long(beginning, pull, lastedMs);
      watch(beginning, tried, pull, mark + 1);
    });
  }

  return {
    begins(beginning) {
      const { uid, action, startedAt } = beginning;
      if (action.kind !== "pullImage") return;
      const tried = triedOf(uid, action.image);
      tried.cancel();
      tried.attempts++;
      tried.pull = { image: action.image, since: startedAt, attempt: tried.attempts };
      watch(beginning, tried, tried.pull);
    },
    took({ uid, action, result }) {
      if (action.kind !== "pullImage") return;
      const tried = pods.get(uid)?.get(action.image);
      tried?.cancel();
      if (tried !== undefined) tried.pull = undefined;
      // What has failed is tried again, and the next try is counted on.
      if (result === "given up" || result.ok) pods.get(uid)?.delete(action.image);
    },
    finished(uid) {
      for (const { cancel } of pods.get(uid)?.values() ?? []) cancel();
      pods.delete(uid);
    },
    of: (uid) => [...(pods.get(uid)?.values() ?? [])].flatMap(({ pull }) => (pull === undefined ? [] : [pull])),
  };
}
