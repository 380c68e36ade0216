import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import { type AsOf, isNews, mirroredUid } from "../../decide/sources/api-pod.ts";
import { planMirrors } from "../../decide/sources/mirror.ts";
import { retryAfterMs } from "../retry.ts";
import { createMirrorCalls, type MirrorCallSettings } from "./mirror-client.ts";

/** Shows the static pods of this node in the API. Nothing waits for it, and none of it throws. */
export interface MirrorPods {
  /** A static pod has come, has to end, or is gone; or every source has spoken. */
  look(): void;
  /** This node is in the API, under this uid; undefined when it is not any more, or is about to go. */
  node(uid: string | undefined): void;
  /** A pod of this node as the API server has it; only mirror pods count. `asOf`: the complete list that it was in. */
  seen(pod: Pod, asOf?: AsOf): void;
  gone(pod: Pod): void;
  /** Everything that the API server has was seen. */
  complete(): void;
  /** The API server answers again. */
  back(): void;
  settled(): Promise<void>;
  stop(): void;
}

export interface MirrorPodsSettings extends MirrorCallSettings {
  readonly nodeName: string;
  readonly desired: () => Iterable<DesiredPod>;
  /** Every source of pods has spoken. */
  readonly isComplete: () => boolean;
}

/** Looks at what static pods there are and what the API shows of them, and does what is missing, until nothing is. */
export function createMirrorPods(settings: MirrorPodsSettings): MirrorPods {
  const { nodeName, clock, desired, isComplete } = settings;
  const mirrors = new Map<string | undefined, Pod>();
  const stopping = new AbortController();
  const calls = createMirrorCalls(settings, look, stopping.signal);
  let nodeUid: string | undefined;
  let isSeen = false;
  let isDirty = false;
  let working: Promise<void> | undefined;
  const outage = createOutage(clock, look);

  function look(): void {
    isDirty = true;
    if (stopping.signal.aborted || outage.isWaiting() || !isSeen) return;
    working ??= work().finally(() => {
      working = undefined;
      // What came after the last look found us at work, and left it to us.
      if (isDirty) look();
    });
  }

  /** Never rejects. */
  async function work(): Promise<void> {
    await Promise.resolve();
    while (isDirty && !stopping.signal.aborted) {
      isDirty = false;
      const node = nodeUid === undefined ? undefined : { name: nodeName, uid: nodeUid };
      const plan = planMirrors({ desired: desired(), mirrors: mirrors.values(), node, isComplete: isComplete() });
      const outcomes = await calls.carryOut(plan);
      for (const outcome of outcomes) {
        if (outcome.kind === "made") keep(outcome.mirror);
        if (outcome.kind === "removed") lose(outcome.mirror);
      }
      const failed = outcomes.find((outcome) => outcome.kind === "outage");
      if (failed !== undefined && !stopping.signal.aborted) {
        isDirty = false;
        outage.wait(failed.error);
      } else outage.over();
    }
  }

  function keep(mirror: Pod, asOf?: AsOf): void {
    const known = mirrors.get(mirror.metadata.uid);
    if (!isNews(mirror.metadata.resourceVersion, known?.metadata.resourceVersion, asOf)) return;
    mirrors.set(mirror.metadata.uid, mirror);
    isDirty = true;
  }

  function lose(mirror: Pod): void {
    if (mirrors.delete(mirror.metadata.uid)) isDirty = true;
  }

  return {
    look,
    node(uid) {
      if (uid === nodeUid) return;
      nodeUid = uid;
      look();
    },
    seen(pod, asOf) {
      if (mirroredUid(pod) !== undefined) keep(pod, asOf);
      if (isDirty) look();
    },
    gone(pod) {
      lose(pod);
      calls.freed(pod);
      look();
    },
    complete() {
      isSeen = true;
      look();
    },
    back() {
      outage.over();
      look();
    },
    async settled() {
      while (working !== undefined) await working;
    },
    stop() {
      stopping.abort();
      outage.over();
    },
  };
}

/** While the API server cannot be reached one timer waits for it, longer each time. */
function createOutage(clock: MirrorPodsSettings["clock"], again: () => void) {
  let failures = 0;
  let cancel: (() => void) | undefined;
  return {
    isWaiting: () => cancel !== undefined,
    wait(error: unknown) {
      failures += 1;
      cancel = clock.wakeAt(clock.now() + retryAfterMs(failures, error), () => {
        cancel = undefined;
        again();
      });
    },
    over() {
      failures = 0;
      cancel?.();
      cancel = undefined;
    },
  };
}
