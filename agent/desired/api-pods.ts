import type { Log } from "../../host/log.ts";
import type { Kube } from "../../kube/client.ts";
import { isToldByConnection, type KubeError } from "../../kube/error.ts";
import { pods } from "../../kube/resource.ts";
import type { PodUid } from "../../proto/ids.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { type AsOf, mirroredUid } from "../decide/api-pod.ts";
import type { ApiNews } from "../decide/merge-api.ts";
import { createTrouble } from "./trouble.ts";

/** Who wants to hear of every pod of this node as the API server has it, mirror pods among them. None of these may throw. */
export interface ApiPodListener {
  /** `asOf`: the complete list that the pod was in. */
  seen(pod: Pod, asOf?: AsOf): void;
  gone(pod: Pod): void;
  /** Everything there is has been seen. */
  complete(): void;
  /** The API server cannot be heard; what was seen stays as it was. */
  away(error: KubeError): void;
  back(): void;
}

export interface ApiPodsSettings {
  readonly kube: Pick<Kube, "follow">;
  readonly nodeName: string;
  readonly log: Log;
  /** Takes the word on what should run here. */
  readonly hear: (news: ApiNews) => Promise<void>;
  readonly listener: ApiPodListener;
}

/**
 * Follows the pods that are bound to this node until the signal aborts; never rejects. Nothing else is waited for. While the API
 * server is away what is wanted stays as it is.
 */
export async function followApiPods(settings: ApiPodsSettings, signal: AbortSignal): Promise<void> {
  const { kube, nodeName, log, listener } = settings;
  const known = new Map<string, Pod>();
  const trouble = createTrouble(log, {}, "pods are heard of from the API server again");

  function hear(news: ApiNews): void {
    settings.hear(news).catch((error: unknown) => {
      log.error({ err: error }, "what the API server says of pods cannot be taken");
    });
  }

  /** What is no pod as we know them changes nothing: one that runs stays as it was. */
  function readable(told: Pod): readonly Pod[] {
    if (isPod(told)) return [withoutManagedFields(told)];
    const { uid = "" } = told.metadata;
    log.warn({ uid, pod: told.metadata.name }, "what the API server says of a pod cannot be read, and is left aside");
    const before = known.get(uid);
    return before === undefined ? [] : [before];
  }

  const own = (pod: Pod) => mirroredUid(pod) === undefined;
  const see = (pod: Pod, asOf?: AsOf) => {
    known.set(pod.metadata.uid ?? "", pod);
    listener.seen(pod, asOf);
  };
  const lose = (pod: Pod) => {
    known.delete(pod.metadata.uid ?? "");
    listener.gone(pod);
  };

  // A status can only be told once it is known of whom: those who tell it hear of a pod first.
  const follow = {
    replaced(told: readonly Pod[], resourceVersion: string, hasGoneBack: boolean) {
      const all = told.flatMap(readable);
      const uids = new Set(all.map(({ metadata }) => metadata.uid));
      for (const pod of [...known.values()]) if (!uids.has(pod.metadata.uid)) lose(pod);
      for (const pod of all) see(pod, { resourceVersion, hasGoneBack });
      listener.complete();
      hear({ kind: "complete", pods: all.filter(own) });
    },
    changed(kind: "added" | "modified" | "deleted", told: Pod) {
      if (kind === "deleted") {
        const pod = known.get(told.metadata.uid ?? "") ?? told;
        lose(pod);
        if (own(pod)) hear({ kind: "gone", uid: pod.metadata.uid as PodUid });
        return;
      }
      for (const pod of readable(told)) {
        see(pod);
        if (own(pod)) hear({ kind: "changed", pod });
      }
    },
    away(error: KubeError) {
      if (!isToldByConnection(error))
        trouble.met(`pods cannot be heard of from the API server: ${error.message}; those known stay as they are`);
      listener.away(error);
    },
    back() {
      trouble.over();
      listener.back();
    },
  };
  await kube.follow(pods(), { fieldSelector: `spec.nodeName=${nodeName}` }, follow, signal);
}

/** As much of a pod as nothing can be done without. The server has checked the rest. */
function isPod(told: Pod): boolean {
  const { metadata, spec } = told;
  const isNamed = Boolean(metadata.uid && metadata.name && metadata.namespace);
  return isNamed && areContainers(spec?.containers) && areContainers(spec.initContainers ?? []);
}

function areContainers(list: unknown): boolean {
  return Array.isArray(list) && list.every((each) => typeof each?.name === "string");
}

/** Who set which field is of use to nobody here, and often larger than the pod. */
function withoutManagedFields(pod: Pod): Pod {
  const { managedFields: _, ...metadata } = pod.metadata;
  return { ...pod, metadata };
}
