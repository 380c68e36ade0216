import type { Clock } from "../../host/clock.ts";
import type { Files } from "../../host/fs/files.ts";
import type { Log } from "../../host/log.ts";
import type { Kube } from "../../kube/client.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { DesiredPod } from "../decide/pod/desired.ts";
import type { StageKind } from "../decide/pod/stage.ts";
import type { ClusterSettings } from "../decide/settings.ts";
import { createRuntimeClasses } from "../desired/objects/runtime-classes.ts";
import { createReferences } from "../desired/objects/secrets-and-configmaps.ts";
import { createServices } from "../desired/objects/services.ts";
import type { DesiredPods } from "../desired/pods.ts";
import type { ClusterFacts } from "../translate/node-facts.ts";

export interface ClusterFactsParts {
  readonly kube: Pick<Kube, "follow">;
  readonly clock: Clock;
  readonly log: Log;
  /** The agent's root directory. */
  readonly root: Files;
  readonly desired: Pick<DesiredPods, "all">;
  /** Every pod is looked at anew. */
  readonly wakeAll: () => void;
  /** An object that the pod refers to, known by this key, was read or is another one. */
  readonly tellOf: (uid: PodUid, key: string) => void;
  /** Why the runtime can give no pod a network; who learns that it can wakes the pods. */
  readonly networkProblem: () => string | undefined;
}

/** What pods are told of the cluster, and what has to be known of it before they may run. */
export interface FollowedFacts {
  /** How much was read, for decisions. */
  settings(): ClusterSettings;
  /** What was read, for the messages to the runtime. */
  facts(): ClusterFacts;
  /** The pod is to run here, or has to end. */
  wanted(desired: DesiredPod, stage: StageKind): void;
  /** Nothing is left of the pod. */
  finished(uid: PodUid): void;
  /** A container is being created, which keeps for life what it is told. */
  used(): void;
  /** The API server has told of this node's pods: its Services will come too. */
  apiHeard(): void;
  /** Until the signal aborts; never rejects. */
  follow(signal: AbortSignal): Promise<void>;
  /** Resolves when nothing is being written. */
  settled(): Promise<void>;
}

export function createClusterFacts(parts: ClusterFactsParts): FollowedFacts {
  const { kube, clock, log, root, desired, wakeAll, tellOf, networkProblem } = parts;
  let isApiHeard = false;
  const services = createServices({
    kube,
    log,
    root,
    namespaces: () => new Set(desired.all().map(({ pod }) => pod.metadata.namespace ?? "default")),
    isApiHeard: () => isApiHeard,
    read: wakeAll,
  });
  const classes = createRuntimeClasses({ kube, log, read: wakeAll });
  const references = createReferences({ kube, clock, log, news: tellOf });
  return {
    settings: () => ({
      areServicesRead: services.areRead(),
      areRuntimeClassesRead: classes.handlers() !== undefined,
      answeredReferences: references.answered(),
      networkProblem: networkProblem(),
    }),
    facts: () => ({
      services: services.latest(),
      runtimeHandlers: classes.handlers(),
      referents: references.latest(),
    }),
    wanted({ uid, pod, source }, stage) {
      if (pod.spec.runtimeClassName) classes.want();
      // A static pod refers to nothing; one that ends starts nothing any more.
      if (source.kind === "api" && stage === "syncing") references.wanted(uid, pod);
      else references.released(uid);
    },
    finished: references.released,
    used: services.used,
    apiHeard() {
      isApiHeard = true;
    },
    async follow(signal) {
      await Promise.all([services.follow(signal), classes.follow(signal), references.follow(signal)]);
    },
    settled: services.settled,
  };
}
