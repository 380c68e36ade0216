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
  /** Resolves to true once the condition holds, or to false after the timeout. */
  until(holds: () => boolean, timeoutMs: number): Promise<boolean>;
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
  const latestEvents = new Map<string, Event>();
  const waiting = new Set<() => void>();
  const changed = () => {
    for (const check of waiting) check();
  };
  const watchResource = async <T extends KubeObject>(
    resource: Resource<T>,
    onObject: (object: T, isGone: boolean) => void,
  ) => {
    const listed = Promise.withResolvers<void>();
    const listener = {
      onReplaced(all: readonly T[]) {
        for (const each of all) onObject(each, false);
        changed();
        listed.resolve();
      },
      onChanged(kind: "added" | "modified" | "deleted", object: T) {
        onObject(object, kind === "deleted");
        changed();
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
  });
  await watchResource(events(namespace), (event) => void latestEvents.set(event.metadata.name ?? "", event));
  return {
    pod: (name) => latest.get(name),
    isThere: (name) => present.has(name),
    events: (name) => [...latestEvents.values()].filter(({ involvedObject }) => involvedObject.name === name),
    async until(holds, timeoutMs) {
      const done = Promise.withResolvers<boolean>();
      const check = () => (holds() ? done.resolve(true) : undefined);
      const timer = setTimeout(() => done.resolve(false), timeoutMs);
      waiting.add(check);
      check();
      const result = await done.promise;
      clearTimeout(timer);
      waiting.delete(check);
      return result;
    },
  };
}
