import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";
import type { Refusal } from "../decide/node/local-node-report.ts";
import { type DesiredNow, type DesiredPod, fullNameOf, type SourceKind } from "../decide/pod/desired.ts";
import type { ApiNews } from "../decide/sources/merge-api.ts";
import { type OfferedPod, withPredecessor } from "../decide/sources/merge-static.ts";
import { type AdmissionParts, type Admissions, createAdmissions } from "./admission-queue.ts";
import { type ApiWord, createApiWord } from "./api/api-source.ts";
import type { PodRecords } from "./pod-checkpoints.ts";
import { createPodIndex } from "./pod-index.ts";
import { createRefusals } from "./refusals.ts";
import { createStaticWord, type StaticKind } from "./static/static-source.ts";
import { createTaking } from "./taking.ts";

/** What should run here: the words of all sources, merged, and kept on the disk. */
export interface DesiredPods {
  /** Brings back what the last agent had taken. */
  restore(): Promise<void>;
  /** The complete word of one kind of manifests: what is not in it is not wanted from there any more. */
  offer(kind: StaticKind, pods: readonly OfferedPod[]): Promise<void>;
  /**
   * All that the source refuses now, for whoever asks; it is none of what is wanted. `namesakes` are its pods that do not begin because
   * another one of it has their name.
   */
  refuse(kind: StaticKind, refused: readonly Refusal[], namesakes?: readonly Pod[]): void;
  /** The word of the API server, complete or what has changed of it. */
  hear(news: ApiNews): Promise<void>;
  /** `unknown` while a source that may want it has not spoken. */
  get(uid: PodUid): DesiredNow | undefined | "unknown";
  /** All but those that are known only because the API server has not forgotten them yet. */
  all(): readonly DesiredPod[];
  /** True when every source has spoken: what nobody has asked for then, nobody wants. */
  isComplete(): boolean;
  /** What pods are judged by has changed: the node's object, or that the runtime was read. */
  judge(): void;
  /** How the pod is was looked at and is told; one that has ended gives its place back before anybody hears of that. */
  reported(desired: DesiredPod, status: PodStatus): void;
  /** Nothing is left of the pod on the node. */
  finished(uid: PodUid): Promise<void>;
  /** Records the last word on a pod, which could not be told: nothing else on the node would tell it again. */
  keepLast(uid: PodUid, status: PodStatus): Promise<void>;
}

export interface DesiredPodsSettings {
  readonly records: PodRecords;
  readonly clock: Clock;
  readonly log: Log;
  /** The sources that will speak; only when all have is a pod that nobody asks for an orphan. */
  readonly kinds: readonly SourceKind[];
  /** Some source will never speak: whatever is not known stays `unknown`. */
  readonly hasSilentSource: boolean;
  readonly admission: AdmissionParts;
  readonly wake: (uid: PodUid) => void;
  readonly interrupt: (uid: PodUid) => void;
  /** What is refused, by all sources, may have changed. */
  readonly refused: (refused: readonly Refusal[]) => void;
  /** All pods of the source that do not begin because another one of it has their name. */
  readonly doubled?: (kind: StaticKind, namesakes: readonly Pod[]) => void;
  /** All sources have spoken. */
  readonly complete: () => void;
}

export function createDesiredPods(settings: DesiredPodsSettings): DesiredPods {
  const { clock, log, kinds, hasSilentSource, wake, interrupt, complete } = settings;
  const isInCluster = kinds.includes("api");
  const admissions: Admissions = createAdmissions({
    ...settings.admission,
    clock,
    log,
    pods: () => pods,
    isInCluster,
    asked: judge,
  });
  const pods = createPodIndex(admissions);
  const silent = new Set(kinds);
  const refusals = createRefusals(log, settings.refused);
  const taking = createTaking(admissions, wake);
  const recording = { pods, clock, ...createRecording(settings), wake, interrupt };
  const statics = createStaticWord({ ...recording, begin: taking.begin, foreign: refusals.ofClaims, spoke });
  const api: ApiWord = createApiWord({ ...recording, begin: (added) => taking.begin(added, (pod) => api.save(pod)) });

  const isComplete = () => silent.size === 0 && !hasSilentSource;

  function spoke(kind: SourceKind): void {
    if (silent.delete(kind) && silent.size === 0) complete();
  }

  function judge(): void {
    void taking.judge((pod) => (pod.source.kind === "api" ? api.save(pod) : statics.save(pod)));
  }

  async function hear(news: ApiNews): Promise<void> {
    const recorded = api.hear(news);
    const isFirst = news.kind === "complete" && silent.has("api");
    if (news.kind === "complete") spoke("api");
    // Who waits for its word goes on, also while another source is silent.
    if (isFirst && silent.size > 0) for (const { uid, source } of pods.all()) if (source.kind === "api") wake(uid);
    await recorded;
  }

  return {
    async restore() {
      for (const pod of await settings.records.load()) pods.put(admissions.restore(pod));
      // A source that is configured no more wants nothing: its pods end.
      const former = new Set(pods.all().map(({ source }) => source.kind));
      for (const kind of former)
        if (!kinds.includes(kind))
          await (kind === "api" ? hear({ kind: "complete", pods: [] }) : statics.offer(kind, []));
      if (silent.size === 0) complete();
    },
    offer: statics.offer,
    refuse(kind, refused, namesakes = []) {
      refusals.ofSource(kind, refused);
      settings.doubled?.(kind, namesakes);
    },
    hear,
    get(uid) {
      const pod = pods.get(uid);
      if (pod === undefined) return isComplete() ? undefined : "unknown";
      const now = withPredecessor(pod, pods.namesakesOf(pod));
      return pod.source.kind === "api" && silent.has("api") ? { ...now, isUnheard: true } : now;
    },
    all: () => pods.all().filter(({ uid }) => !api.isOver(uid)),
    isComplete,
    judge,
    reported(desired, status) {
      if (admissions.reported(desired, status)) judge();
    },
    async finished(uid) {
      const pod = pods.get(uid);
      // Without a termination it is a pod of the same uid that was asked for again since.
      if (pod?.termination === undefined) return;
      await (pod.source.kind === "api" ? api.finished(pod) : statics.finished(pod));
    },
    keepLast: api.keepLast,
  };
}

/** A record that cannot be written does not keep a pod from running; it would only be forgotten with the agent. */
function createRecording({ records, log }: Pick<DesiredPodsSettings, "records" | "log">) {
  return {
    async save(pod: DesiredPod): Promise<void> {
      try {
        await records.save(pod);
      } catch (error) {
        log.error(
          { err: error, pod: fullNameOf(pod.pod), uid: pod.uid },
          "the pod cannot be recorded; a restart would forget it",
        );
      }
    },
    async remove(uid: PodUid): Promise<void> {
      await records.remove(uid).catch((error: unknown) => {
        log.error({ err: error, uid }, "the record of a pod that is gone cannot be removed");
      });
    },
  };
}
