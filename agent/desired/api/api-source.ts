import type { Clock } from "../../../host/clock.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import { entered } from "../../decide/admission/admission.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import { type ApiNews, mergeApi } from "../../decide/sources/merge-api.ts";
import type { PodIndex } from "../pod-index.ts";

/** The part of what should run here that the API server asks for. */
export interface ApiWord {
  /** Merged before it returns; resolves when it is recorded, and whom it ends has heard of it. */
  hear(news: ApiNews): Promise<void>;
  /**
   * Nothing is left of the pod on the node. As long as the API server has it, or may have it because it has not said yet, it stays
   * known, or the next word would begin it anew; but nobody looks at it any more.
   */
  finished(pod: DesiredPod): Promise<void>;
  /** True for a pod that is known only because the API server has it. */
  isOver(uid: PodUid): boolean;
  /** Records the last word on a pod that has ended. */
  keepLast(uid: PodUid, status: PodStatus): Promise<void>;
  /** Records the pod as it is now, in its turn. */
  save(pod: DesiredPod): Promise<void>;
}

export interface ApiWordSettings {
  readonly pods: PodIndex;
  /** Answers what can be answered of new pods; begins and records them. */
  readonly begin: (added: readonly DesiredPod[]) => Promise<void>;
  readonly clock: Clock;
  /** Neither rejects: a record that cannot be written keeps no pod from running. */
  readonly save: (pod: DesiredPod) => Promise<void>;
  readonly remove: (uid: PodUid) => Promise<void>;
  readonly wake: (uid: PodUid) => void;
  readonly interrupt: (uid: PodUid) => void;
}

/**
 * Each word is merged at once: a hundred pods that come one by one do not wait for each other's records. Records of one pod are
 * written and removed in the order of decisions.
 */
export function createApiWord(settings: ApiWordSettings): ApiWord {
  const { pods, clock, begin, remove, wake, interrupt } = settings;
  const present = new Set<string | undefined>();
  const over = new Set<PodUid>();
  const writing = new Map<PodUid, Promise<void>>();
  let hasSpoken = false;

  function inTurn(uid: PodUid, work: () => Promise<void>): Promise<void> {
    const done = (writing.get(uid) ?? Promise.resolve()).then(work).finally(() => {
      if (writing.get(uid) === done) writing.delete(uid);
    });
    writing.set(uid, done);
    return done;
  }

  const save = (pod: DesiredPod) => inTurn(pod.uid, () => settings.save(pod));

  /** Those that the API server has no more. */
  function lostBy(news: ApiNews): readonly DesiredPod[] {
    if (news.kind === "changed") return [];
    const all = news.kind === "gone" ? [pods.get(news.uid) ?? []].flat() : pods.all();
    return all.filter(({ uid, source }) => source.kind === "api" && !present.has(uid));
  }

  async function drop(pod: DesiredPod): Promise<void> {
    over.delete(pod.uid);
    pods.drop(pod);
    await inTurn(pod.uid, async () => {
      if (pods.get(pod.uid) === undefined) await remove(pod.uid);
    });
  }

  /** What an end or a change goes by, such as when it was asked for, has to be known to the next agent too. */
  async function tell(pod: DesiredPod, whom: (uid: PodUid) => void): Promise<void> {
    if (over.has(pod.uid)) return;
    await save(pod);
    whom(pod.uid);
  }

  return {
    async hear(news) {
      const isFirst = !hasSpoken && news.kind === "complete";
      hasSpoken ||= isFirst;
      note(present, news);
      const { changed, ended, refreshed, woken, ...merged } = mergeApi(pods.get, pods.all, news, clock.now());
      const added = merged.added.map(entered);
      // What is only refreshed is with the API server at the next start too: it is not written down.
      for (const pod of [...added, ...changed, ...ended, ...refreshed]) pods.put(pod);
      for (const pod of lostBy(news)) pods.put({ ...pod, isPlaceFree: true });
      for (const uid of woken) if (!over.has(uid)) wake(uid);
      // Of what was over before the API server was heard it has not been told: it is looked at once more.
      if (isFirst) for (const uid of over) if (present.has(uid)) wake(uid);
      const gone = [...over].filter((uid) => !present.has(uid)).flatMap((uid) => pods.get(uid) ?? []);
      await Promise.all([
        ...gone.map(drop),
        begin(added),
        // Only an end, or a shorter grace, gives up what is under way: whatever else changes disturbs no hook of a pod that ends.
        ...ended.map((pod) => tell(pod, interrupt)),
        ...changed.map((pod) => tell(pod, wake)),
      ]);
    },
    async finished(pod) {
      if (!hasSpoken || present.has(pod.uid)) over.add(pod.uid);
      else await drop(pod);
    },
    isOver: (uid) => over.has(uid),
    async keepLast(uid, lastStatus) {
      const pod = pods.get(uid);
      if (pod === undefined || pod.source.kind !== "api" || pod.lastStatus !== undefined) return;
      // Nobody asks for the end of what was deleted by force.
      if (hasSpoken && !present.has(uid)) return;
      const kept = { ...pod, lastStatus };
      pods.put(kept);
      await save(kept);
    },
    save,
  };
}

function note(present: Set<string | undefined>, news: ApiNews): void {
  switch (news.kind) {
    case "complete":
      present.clear();
      for (const { metadata } of news.pods) present.add(metadata.uid);
      for (const uid of news.unreadable ?? []) present.add(uid);
      return;
    case "changed":
      present.add(news.pod.metadata.uid);
      return;
    case "gone":
      present.delete(news.uid);
  }
}
