import type { KubeClient } from "../../kube/client.ts";
import { events, type KubeObject, pods, type Resource } from "../../kube/resource.ts";
import type { Event, Pod } from "../../proto/kubernetes/gen/types.ts";
import type { Side } from "./differential-bed.ts";

/** The pods and events of one namespace, as the API server reports them. */
export interface PodWatch {
  /** The latest version of a pod, also after its deletion. */
  pod(name: string): Pod | undefined;
  isThere(name: string): boolean;
  /** The latest version of each event of the pod. */
  events(name: string): readonly Event[];
  /** Resolves to true once the condition holds, or to false after the timeout. The condition is about this pod and its events alone. */
  until(name: string, holds: () => boolean, timeoutMs: number): Promise<boolean>;
}

/**
 * Keeps the deadline of the first deletion: the node's own final delete has a grace period of 0 and would overwrite it.
 */
function withFirstDeadline(pod: Pod, before: Pod | undefined): Pod {
  const { deletionTimestamp, deletionGracePeriodSeconds, uid } = before?.metadata ?? {};
  if (deletionTimestamp === undefined || uid !== pod.metadata.uid) return pod;
  const granted = deletionGracePeriodSeconds === undefined ? {} : { deletionGracePeriodSeconds };
  return { ...pod, metadata: { ...pod.metadata, deletionTimestamp, ...granted } };
}

/** Watches until the signal aborts. Returns after the first list of pods and events. */
export async function watchPods(kube: KubeClient, { namespace }: Side, signal: AbortSignal): Promise<PodWatch> {
  const latest = new Map<string, Pod>();
  const present = new Set<string>();
  /** By the name of the pod, and the event's own. A namespace has thousands. */
  const latestEvents = new Map<string, Map<string, Event>>();
  /** By the name of the pod. */
  const waiting = new Map<string, Set<() => void>>();
  const changed = (podName: string) => {
    for (const check of waiting.get(podName) ?? []) check();
  };
  const watchResource = async <T extends KubeObject>(
    resource: Resource<T>,
    /** Returns the name of the pod that the object is about. */
    onObject: (object: T, isGone: boolean) => string,
  ) => {
    const listed = Promise.withResolvers<void>();
    const listener = {
      onReplaced(all: readonly T[]) {
        for (const name of new Set(all.map((each) => onObject(each, false)))) changed(name);
        listed.resolve();
      },
      onChanged(kind: "added" | "modified" | "deleted", object: T) {
        changed(onObject(object, kind === "deleted"));
      },
      onOutage: () => undefined,
      onRecovered: () => undefined,
    };
    void kube.listAndWatch(resource, {}, listener, signal);
    await listed.promise;
  };
  await watchResource(pods(namespace), (pod, isGone) => {
    const { name = "" } = pod.metadata;
    latest.set(name, withFirstDeadline(pod, latest.get(name)));
    if (isGone) present.delete(name);
    else present.add(name);
    return name;
  });
  await watchResource(events(namespace), (event) => {
    const { name = "" } = event.involvedObject;
    const ofPod = latestEvents.get(name) ?? new Map<string, Event>();
    latestEvents.set(name, ofPod.set(event.metadata.name ?? "", event));
    return name;
  });
  return {
    pod: (name) => latest.get(name),
    isThere: (name) => present.has(name),
    events: (name) => [...(latestEvents.get(name)?.values() ?? [])],
    async until(name, holds, timeoutMs) {
      const done = Promise.withResolvers<boolean>();
      const check = () => (holds() ? done.resolve(true) : undefined);
      const timer = setTimeout(() => done.resolve(false), timeoutMs);
      const checks = waiting.get(name) ?? new Set();
      waiting.set(name, checks.add(check));
      check();
      const result = await done.promise;
      clearTimeout(timer);
      checks.delete(check);
      return result;
    },
  };
}
