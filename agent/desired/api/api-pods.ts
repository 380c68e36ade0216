import type { Log } from "../../../host/log.ts";
import type { Kube } from "../../../kube/client.ts";
import { isToldByConnection, type KubeError } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { readToldPod } from "../../../proto/kubernetes/decode/api-pod.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { describeFieldError } from "../../../proto/kubernetes/validation/field-error.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import { type AsOf, mirroredUid } from "../../decide/sources/api-pod.ts";
import type { ApiNews } from "../../decide/sources/merge-api.ts";
import { createTrouble } from "../outage-log.ts";

/** Who wants to hear of every pod of this node as the API server has it, mirror pods among them. None of these may throw. */
export interface ApiPodListener {
  /** `asOf`: the complete list that the pod was in. */
  seen(pod: Pod, asOf?: AsOf): void;
  gone(pod: Pod): void;
  /** What is said of it cannot be read; told once for each problem. Its `metadata` has a name, a namespace and a uid. */
  unreadable(pod: Pod, problem: string): void;
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

  const odd = createOddPods(log, listener);

  /** What is no pod as we know them changes nothing: one that runs stays as it was. */
  function readable(told: Pod): readonly Pod[] {
    const { object: pod, problem } = readToldPod(told);
    if (problem === undefined) {
      odd.forget(pod);
      return [pod];
    }
    odd.met(told, describeFieldError(problem));
    const before = known.get(told.metadata.uid ?? "");
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
      // Those of an earlier agent run on, too.
      const unreadable = told.flatMap(({ metadata: { uid } }) =>
        uid === undefined || uids.has(uid) ? [] : (uid as PodUid),
      );
      hear({ kind: "complete", pods: all.filter(own), ...(unreadable.length > 0 && { unreadable }) });
    },
    changed(kind: "added" | "modified" | "deleted", told: Pod) {
      if (kind === "deleted") {
        const pod = known.get(told.metadata.uid ?? "") ?? told;
        odd.forget(told);
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

/** Tells of each pod that cannot be read, once for each thing that is wrong with it. */
function createOddPods(log: Log, listener: Pick<ApiPodListener, "unreadable">) {
  const told = new Map<unknown, string>();
  return {
    met(pod: Pod, problem: string): void {
      const { uid, name, namespace } = pod.metadata;
      if (told.get(uid) === problem) return;
      told.set(uid, problem);
      const isNamed = [uid, name, namespace].every((each) => typeof each === "string" && each !== "");
      const whose = isNamed ? fullNameOf(pod) : name;
      log.warn({ pod: whose, uid }, `what the API server says of a pod cannot be read, and is left aside: ${problem}`);
      if (isNamed) listener.unreadable(pod, problem);
    },
    forget: ({ metadata }: Pod) => void told.delete(metadata.uid),
  };
}
