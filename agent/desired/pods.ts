import { createRetriedWrites } from "../../host/async/retried-writes.ts";
import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { Pod, PodStatus } from "../../proto/kubernetes/gen/types.ts";
import type { PodEvent } from "../decide/events/pod-event.ts";
import type { RejectedManifest } from "../decide/node/local-node-report.ts";
import {
  type DesiredPod,
  type DesiredPodView,
  fullNameOf,
  type SourceKind,
  type TerminationRequest,
} from "../decide/pod/desired.ts";
import { withAllocated } from "../decide/resize/allocation.ts";
import type { ResizeProgress } from "../decide/resize/resize-progress.ts";
import type { ApiPodUpdate } from "../decide/sources/merge-api.ts";
import { type ManifestPod, withPredecessor } from "../decide/sources/merge-static.ts";
import { withTerminationRequest } from "../decide/termination/termination-request.ts";
import { type AdmissionDeps, type AdmissionQueue, createAdmissionQueue } from "./admission-queue.ts";
import { type ApiPodSource, createApiPodSource } from "./api/api-source.ts";
import type { PodCheckpoints } from "./pod-checkpoints.ts";
import { createPodIndex, type PodIndex, type PodIndexListener } from "./pod-index.ts";
import { createResizes } from "./resizes.ts";
import { createManifestErrors } from "./static/manifest-errors.ts";
import { createStaticPodSet, type StaticKind } from "./static/static-source.ts";

/** The pods that should run on this node: the updates of all sources, merged and saved as checkpoints. */
export interface DesiredPods {
  /** Restores the pods that the last agent had accepted. */
  restore(): Promise<void>;
  /** Replaces the pods of one kind of manifests; pods that are missing terminate. */
  replaceManifests(kind: StaticKind, pods: readonly ManifestPod[]): Promise<void>;
  /**
   * Replaces the errors of one kind of manifests, for `berth pods`. `duplicates` are its pods that do not start because
   * another one of them has their name.
   */
  setManifestErrors(kind: StaticKind, refused: readonly RejectedManifest[], duplicates?: readonly Pod[]): void;
  /** Applies an update from the API server: a complete list or a change. */
  applyApiUpdate(update: ApiPodUpdate): Promise<void>;
  /** The desired pod; undefined if no source lists it, `unknown` until every source is ready. */
  get(uid: PodUid): DesiredPodView | undefined | "unknown";
  /** Calls the listener with each pod that is added or changed, and each one that is removed, from now on. */
  subscribe(listener: PodIndexListener): void;
  /** All pods except the finished ones that the API server still has. */
  all(): readonly DesiredPod[];
  /** True when every source is ready (kubelet: `AllReady`): a pod that no source lists is an orphan then. */
  areAllSourcesReady(): boolean;
  /** Admits pending pods after a change of the Node object or the first list of the runtime. */
  admitPending(): void;
  /**
   * The node itself ends a pod: it fails with the reason and the message of the first request, and does not start
   * again. A later request can only shorten the grace period. Does nothing for a pod that is unknown or has ended.
   * Resolves when the request is saved; never rejects.
   */
  requestTermination(uid: PodUid, request: TerminationRequest): Promise<void>;
  /**
   * A status was decided for the pod; a terminal one frees the pod's resources before it is reported. `resize` is the new
   * record of its resources, which is saved.
   */
  onStatusDecided(desired: DesiredPod, status: PodStatus, resize?: ResizeProgress): void;
  /** Nothing is left of the pod on the node. */
  onPodFinished(uid: PodUid): Promise<void>;
  /** Saves a final status that was not sent yet: nothing else on the node could reproduce it. */
  saveFinalStatus(uid: PodUid, status: PodStatus): Promise<void>;
}

export interface DesiredPodsOptions {
  readonly checkpoints: PodCheckpoints;
  readonly clock: Clock;
  readonly log: Log;
  /** The configured sources. Only when all are ready can a pod be an orphan. */
  readonly sourceKinds: readonly SourceKind[];
  /**
   * No source is configured: the pods of the last agent's sources terminate; a pod without a checkpoint stays `unknown`
   * and is left alone.
   */
  readonly hasNoSource: boolean;
  readonly admission: AdmissionDeps;
  readonly wake: (uid: PodUid) => void;
  /** Wakes the pod and aborts its action if that no longer fits what is desired. */
  readonly cancelOutdated: (uid: PodUid) => void;
  /** The manifest errors of all sources may have changed. */
  readonly onManifestErrors: (errors: readonly RejectedManifest[]) => void;
  /** Receives all pods of a source that do not start because another one of it has their name. */
  readonly onDuplicateNames?: (kind: StaticKind, duplicates: readonly Pod[]) => void;
  /** All sources are ready. */
  readonly onAllSourcesReady: () => void;
  /** Receives the Events of a resize when it is decided or carried out. */
  readonly onResizeEvent?: (pod: Pod, event: PodEvent) => void;
}

export function createDesiredPods(options: DesiredPodsOptions): DesiredPods {
  const { clock, log, sourceKinds, hasNoSource, wake, cancelOutdated, onAllSourcesReady } = options;
  const [pods, withAllocatedSpec] = [createPodIndex(), createAllocatedSpecs()];
  const queueOptions = { clock, log, pods, isInCluster: sourceKinds.includes("api"), onNodeRefreshed: admitPending };
  const admissionQueue: AdmissionQueue = createAdmissionQueue({ ...options.admission, ...queueOptions });
  pods.subscribe(admissionQueue);
  const unreadySources = new Set(sourceKinds);
  const manifestErrors = createManifestErrors(log, options.onManifestErrors);
  const admitter = createAdmitter(admissionQueue, wake);
  const sourceDeps = { pods, clock, ...createCheckpointing(options), wake, cancelOutdated };
  const staticPods = createStaticPodSet({
    ...sourceDeps,
    admit: admitter.admit,
    onUidConflicts: manifestErrors.setConflicts,
    onReady: markReady,
  });
  const apiPods: ApiPodSource = createApiPodSource({
    ...sourceDeps,
    admit: (added) => admitter.admit(added, (pod) => apiPods.save(pod)),
  });

  const areAllSourcesReady = () => unreadySources.size === 0 && !hasNoSource;

  function markReady(kind: SourceKind): void {
    if (unreadySources.delete(kind) && unreadySources.size === 0) onAllSourcesReady();
  }

  const save = (pod: DesiredPod) => (pod.source.kind === "api" ? apiPods.save(pod) : staticPods.save(pod));

  const resizes = createResizes({ ...options, pods, queue: admissionQueue.resizes, save, areAllSourcesReady });
  pods.subscribe(resizes);

  function admitPending(): void {
    void admitter.admitPending(save);
    resizes.decide();
  }

  async function applyApiUpdate(update: ApiPodUpdate): Promise<void> {
    const saved = apiPods.apply(update);
    const isFirst = update.kind === "complete" && unreadySources.has("api");
    if (update.kind === "complete") markReady("api");
    // Wake the pods that waited for the API server's first list, even if another source is not ready.
    if (isFirst && unreadySources.size > 0)
      for (const { uid, source } of pods.all()) if (source.kind === "api") wake(uid);
    await saved;
  }

  return {
    async restore() {
      for (const pod of await options.checkpoints.load()) pods.put(admissionQueue.restore(pod));
      for (const kind of unconfiguredKinds(pods.all(), sourceKinds))
        await (kind === "api" ? applyApiUpdate({ kind: "complete", pods: [] }) : staticPods.replace(kind, []));
      if (unreadySources.size === 0) onAllSourcesReady();
    },
    replaceManifests: staticPods.replace,
    setManifestErrors(kind, refused, duplicates = []) {
      manifestErrors.setErrors(kind, refused);
      options.onDuplicateNames?.(kind, duplicates);
    },
    applyApiUpdate,
    get(uid) {
      const pod = pods.get(uid);
      if (pod === undefined) return areAllSourcesReady() ? undefined : "unknown";
      const view = withAllocatedSpec(withPredecessor(pod, pods.withSameName(pod)));
      return pod.source.kind === "api" && unreadySources.has("api") ? { ...view, isUnconfirmed: true } : view;
    },
    subscribe: pods.subscribe,
    all: () => pods.all().filter(({ uid }) => !apiPods.isFinished(uid)),
    areAllSourcesReady,
    admitPending,
    async requestTermination(uid, request) {
      if (!apiPods.isFinished(uid)) await requestTermination(pods, uid, request, { clock, save, cancelOutdated });
    },
    onStatusDecided(desired, status, resize) {
      if (resize !== undefined) resizes.record(desired, resize);
      if (admissionQueue.onStatusDecided(desired, status)) admitPending();
    },
    onPodFinished: (uid) => finishPod(pods.get(uid), { apiPods, staticPods }),
    saveFinalStatus: apiPods.saveFinalStatus,
  };
}

/**
 * Returns the function that returns a pod as it is decided and translated: with what is allocated to it, whatever its spec
 * requests by now. A start asks for the same version of its pod some thirty times, and gets the same object.
 */
function createAllocatedSpecs(): (view: DesiredPodView) => DesiredPodView {
  const known = new WeakMap<DesiredPodView, DesiredPodView>();
  return (view) => {
    const { pod, allocation } = view;
    if (allocation === undefined) return view;
    const allocated = known.get(view) ?? { ...view, pod: withAllocated(pod, allocation.allocated) };
    known.set(view, allocated);
    return allocated;
  };
}

async function finishPod(
  pod: DesiredPod | undefined,
  { apiPods, staticPods }: Readonly<Record<"apiPods" | "staticPods", Pick<ApiPodSource, "onPodFinished">>>,
): Promise<void> {
  // Without a termination this is a new pod with the same uid.
  if (pod?.termination === undefined) return;
  await (pod.source.kind === "api" ? apiPods.onPodFinished(pod) : staticPods.onPodFinished(pod));
}

type SaveCheckpoint = (pod: DesiredPod) => Promise<void>;

/** Runs admission, then wakes and saves the decided pods. Never rejects, because saving a checkpoint does not. */
function createAdmitter(queue: AdmissionQueue, wake: (uid: PodUid) => void) {
  /**
   * An admitted pod starts at once. A rejection is saved before it is reported, so that no later agent can revoke it.
   */
  async function startAdmitted(pod: DesiredPod, save: SaveCheckpoint): Promise<void> {
    if (pod.admission === undefined) wake(pod.uid);
    await save(pod);
    if (pod.admission !== undefined) wake(pod.uid);
  }

  return {
    /** Admits new pods that are in the index already. A pod that stays pending has not started, so it is not saved. */
    async admit(added: readonly DesiredPod[], save: SaveCheckpoint): Promise<void> {
      const admitted = new Map(queue.admitPending(added.map(({ uid }) => uid)).map((pod) => [pod.uid, pod]));
      await Promise.all(
        added.map(async (pod) => {
          if (queue.isWaiting(pod.uid)) wake(pod.uid);
          else await startAdmitted(admitted.get(pod.uid) ?? pod, save);
        }),
      );
    },
    /** Something has changed that may decide pending pods. */
    async admitPending(save: SaveCheckpoint): Promise<void> {
      await Promise.all(queue.admitPending().map((pod) => startAdmitted(pod, save)));
    },
  };
}

async function requestTermination(
  pods: PodIndex,
  uid: PodUid,
  request: TerminationRequest,
  { clock, save, cancelOutdated }: Pick<DesiredPodsOptions, "clock" | "cancelOutdated"> & Pick<ApiPodSource, "save">,
): Promise<void> {
  const pod = pods.get(uid);
  const requested = pod && withTerminationRequest(pod, request, clock.now());
  if (requested === undefined) return;
  pods.put(requested);
  // The loop may act on the request already; the checkpoint is for the next agent.
  await save(requested);
  cancelOutdated(uid);
}

/** The kinds of sources that are not configured any more; their pods terminate. */
function unconfiguredKinds(
  restored: readonly DesiredPod[],
  configured: readonly SourceKind[],
): ReadonlySet<SourceKind> {
  return new Set(restored.map(({ source }) => source.kind).filter((kind) => !configured.includes(kind)));
}

/**
 * A pod runs even if its checkpoint cannot be written. If the agent restarts before the checkpoint is written, the new
 * agent does not know the pod.
 */
function createCheckpointing({ checkpoints, clock, log }: Pick<DesiredPodsOptions, "checkpoints" | "clock" | "log">) {
  const writes = createRetriedWrites<PodUid>({
    clock,
    onRecovered: () => log.info({}, "the pods' checkpoints are saved again"),
  });
  return {
    save: (pod: DesiredPod) =>
      writes.write(
        pod.uid,
        () => checkpoints.save(pod),
        (error) =>
          log.error(
            { err: error, pod: fullNameOf(pod.pod), uid: pod.uid },
            "cannot save the pod's checkpoint yet; until it is saved, a restart of the agent would forget the pod",
          ),
      ),
    remove: (uid: PodUid) =>
      writes.write(
        uid,
        () => checkpoints.remove(uid),
        (error) => log.error({ err: error, uid }, "cannot remove the checkpoint of a removed pod yet"),
      ),
  };
}
