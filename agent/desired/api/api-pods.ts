import type { Log } from "../../../host/log/log.ts";
import type { KubeClient } from "../../../kube/client.ts";
import { isLoggedBySessionPool, type KubeError } from "../../../kube/error.ts";
import { pods } from "../../../kube/resource.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { decodeApiPod } from "../../../proto/kubernetes/decode/api-pod.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { describeFieldError } from "../../../proto/kubernetes/validation/field-error.ts";
import { fullNameOf } from "../../decide/pod/desired.ts";
import type { ListSnapshot } from "../../decide/sources/api-object.ts";
import { mirroredUid } from "../../decide/sources/api-pod.ts";
import type { ApiPodUpdate } from "../../decide/sources/merge-api.ts";
import { createOutageLog } from "../outage-log.ts";

/** Receives every pod of this node as the API server has it, including mirror pods. The callbacks may not throw. */
export interface ApiPodListener {
  /** `snapshot` is set if the pod came with a complete list. */
  onObserved(pod: Pod, snapshot?: ListSnapshot): void;
  onDeleted(pod: Pod): void;
  /** The pod cannot be decoded; called once per problem. Its `metadata` has a name, a namespace and a uid. */
  onUnreadable(pod: Pod, problem: string): void;
  /** A complete list was processed. */
  onListed(): void;
  onRecovered(): void;
}

export interface ApiPodsOptions {
  readonly kube: Pick<KubeClient, "listAndWatch">;
  readonly nodeName: string;
  readonly log: Log;
  /** Applies an update of the desired pods. */
  readonly applyUpdate: (update: ApiPodUpdate) => Promise<void>;
  readonly listener: ApiPodListener;
}

/**
 * Watches the pods that are bound to this node until the signal aborts; never rejects. It does not wait for updates to
 * be applied. During an outage of the API server the desired pods stay as they are.
 */
export async function watchApiPods(options: ApiPodsOptions, signal: AbortSignal): Promise<void> {
  const { kube, nodeName, log, listener } = options;
  const known = new Map<string, Pod>();
  const outageLog = createOutageLog(log, {}, "pods are received from the API server again");

  function apply(update: ApiPodUpdate): void {
    options.applyUpdate(update).catch((error: unknown) => {
      log.error({ err: error }, "cannot apply an update of pods from the API server");
    });
  }

  const unreadablePods = createUnreadablePods(log, listener);

  /** Decodes a pod. If it cannot be decoded, its last valid version stays. */
  function decode(received: Pod): readonly Pod[] {
    const { object: pod, problem } = decodeApiPod(received);
    if (problem === undefined) {
      unreadablePods.forget(pod);
      return [pod];
    }
    unreadablePods.report(received, describeFieldError(problem));
    const lastValid = known.get(received.metadata.uid ?? "");
    return lastValid === undefined ? [] : [lastValid];
  }

  const isNotMirror = (pod: Pod) => mirroredUid(pod) === undefined;
  const store = (pod: Pod, snapshot?: ListSnapshot) => {
    known.set(pod.metadata.uid ?? "", pod);
    listener.onObserved(pod, snapshot);
  };
  const remove = (pod: Pod) => {
    known.delete(pod.metadata.uid ?? "");
    listener.onDeleted(pod);
  };

  // The listener comes first: the status reporter must know a pod before the loop reports its status.
  const reflectorListener = {
    onReplaced(listed: readonly Pod[], resourceVersion: string, isRolledBack: boolean) {
      const all = listed.flatMap(decode);
      const uids = new Set(all.map(({ metadata }) => metadata.uid));
      for (const pod of [...known.values()]) if (!uids.has(pod.metadata.uid)) remove(pod);
      unreadablePods.retain(listed);
      for (const pod of all) store(pod, { resourceVersion, isRolledBack });
      listener.onListed();
      // Pods of an earlier agent that cannot be decoded keep running, too.
      const unreadable = listed.flatMap(({ metadata: { uid } }) =>
        uid === undefined || uids.has(uid) ? [] : (uid as PodUid),
      );
      apply({ kind: "complete", pods: all.filter(isNotMirror), ...(unreadable.length > 0 && { unreadable }) });
    },
    onChanged(kind: "added" | "modified" | "deleted", receivedPod: Pod) {
      if (kind === "deleted") {
        const pod = known.get(receivedPod.metadata.uid ?? "") ?? receivedPod;
        unreadablePods.forget(receivedPod);
        remove(pod);
        if (isNotMirror(pod)) apply({ kind: "gone", uid: pod.metadata.uid as PodUid });
        return;
      }
      for (const pod of decode(receivedPod)) {
        store(pod);
        if (isNotMirror(pod)) apply({ kind: "changed", pod });
      }
    },
    onOutage(error: KubeError) {
      if (!isLoggedBySessionPool(error))
        outageLog.report(`cannot receive pods from the API server: ${error.message}; the known pods stay as they are`);
    },
    onRecovered() {
      outageLog.clear();
      listener.onRecovered();
    },
  };
  await kube.listAndWatch(pods(), { fieldSelector: `spec.nodeName=${nodeName}` }, reflectorListener, signal);
}

/** Logs and reports each pod that cannot be decoded, once per problem. */
function createUnreadablePods(log: Log, listener: Pick<ApiPodListener, "onUnreadable">) {
  /** By uid. */
  const problems = new Map<unknown, string>();
  return {
    report(pod: Pod, problem: string): void {
      const { uid, name, namespace } = pod.metadata;
      if (problems.get(uid) === problem) return;
      problems.set(uid, problem);
      const isNamed = [uid, name, namespace].every((each) => typeof each === "string" && each !== "");
      const podName = isNamed ? fullNameOf(pod) : name;
      log.warn({ pod: podName, uid }, `a pod from the API server cannot be decoded and does not run: ${problem}`);
      if (isNamed) listener.onUnreadable(pod, problem);
    },
    forget: ({ metadata }: Pod) => problems.delete(metadata.uid),
    /** Forgets all other pods. */
    retain(listed: readonly Pod[]): void {
      const uids = new Set<unknown>(listed.map(({ metadata }) => metadata.uid));
      for (const uid of problems.keys()) if (!uids.has(uid)) problems.delete(uid);
    },
  };
}
