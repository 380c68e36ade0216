import type { Files } from "../host/files.ts";
import type { Log } from "../host/log.ts";
import type { Kube } from "../kube/client.ts";
import type { Pod } from "../proto/kubernetes/gen/types.ts";
import type { ClusterSettings } from "./decide/settings.ts";
import type { DesiredPods } from "./desired/pods.ts";
import { createRuntimeClasses } from "./desired/runtime-classes.ts";
import { createServices } from "./desired/services.ts";
import type { ClusterFacts } from "./translate/node-facts.ts";

export interface ClusterFactsParts {
  readonly kube: Pick<Kube, "follow">;
  readonly log: Log;
  /** The agent's root directory. */
  readonly root: Files;
  readonly desired: Pick<DesiredPods, "all">;
  /** Every pod is looked at anew. */
  readonly wakeAll: () => void;
}

/** What pods are told of the cluster, and what has to be known of it before they may run. */
export interface FollowedFacts {
  /** How much was read, for decisions. */
  settings(): ClusterSettings;
  /** What was read, for the messages to the runtime. */
  facts(): ClusterFacts;
  /** The pod is to run here. */
  wanted(pod: Pod): void;
  /** A container is being created, which keeps for life what it is told. */
  used(): void;
  /** The API server has told of this node's pods: its Services will come too. */
  apiHeard(): void;
  /** Until the signal aborts; never rejects. */
  follow(signal: AbortSignal): Promise<void>;
  /** Resolves when nothing is being written. */
  settled(): Promise<void>;
}

export function createClusterFacts({ kube, log, root, desired, wakeAll }: ClusterFactsParts): FollowedFacts {
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
  return {
    settings: () => ({
      areServicesRead: services.areRead(),
      areRuntimeClassesRead: classes.handlers() !== undefined,
    }),
    facts: () => ({ services: services.latest(), runtimeHandlers: classes.handlers() }),
    wanted({ spec }) {
      if (spec.runtimeClassName) classes.want();
    },
    used: services.used,
    apiHeard() {
      isApiHeard = true;
    },
    async follow(signal) {
      await Promise.all([services.follow(signal), classes.follow(signal)]);
    },
    settled: services.settled,
  };
}
