import type { Kube } from "../../kube/client.ts";
import { events, type KubeObject, pods, type Resource } from "../../kube/resource.ts";
import type { Event, Pod } from "../../proto/kubernetes/gen/types.ts";
import type { Side } from "./three-node-bed.ts";

/** What the API server shows of the pods of one namespace, from the first moment to the last. */
export interface Watched {
  /** The last that was seen of a pod, also after it has gone. */
  pod(name: string): Pod | undefined;
  isThere(name: string): boolean;
  /** The events about it, each as it stands now. */
  events(name: string): readonly Event[];
  /** Resolves to true once the condition holds, and to false if it did not within the time. */
  until(holds: () => boolean, timeoutMs: number): Promise<boolean>;
}

/** The last request for a deletion, which the node itself makes when nothing is left, grants no time: what was granted is the first one's. */
function withFirstDeadline(pod: Pod, before: Pod | undefined): Pod {
  const { deletionTimestamp, deletionGracePeriodSeconds, uid } = before?.metadata ?? {};
  if (deletionTimestamp === undefined || uid !== pod.metadata.uid) return pod;
  const granted = deletionGracePeriodSeconds === undefined ? {} : { deletionGracePeriodSeconds };
  return { ...pod, metadata: { ...pod.metadata, deletionTimestamp, ...granted } };
}

/** Watches until the signal aborts. Returns once everything that is there has been read. */
export async function watch(kube: Kube, { namespace }: Side, signal: AbortSignal): Promise<Watched> {
  const latest = new Map<string, Pod>();
  const present = new Set<string>();
  const told = new Map<string, Event>();
  const waiting = new Set<() => void>();
  const changed = () => {
    for (const look of waiting) look();
  };
  const follow = async <T extends KubeObject>(resource: Resource<T>, see: (object: T, isGone: boolean) => void) => {
    const listed = Promise.withResolvers<void>();
    const listener = {
      replaced(all: readonly T[]) {
        for (const each of all) see(each, false);
        changed();
        listed.resolve();
      },
      changed(kind: "added" | "modified" | "deleted", object: T) {
        see(object, kind === "deleted");
        changed();
      },
      away: () => undefined,
      back: () => undefined,
    };
    void kube.follow(resource, {}, listener, signal);
    await listed.promise;
  };
  await follow(pods(namespace), (pod, isGone) => {
    const { name = "" } = pod.metadata;
    latest.set(name, withFirstDeadline(pod, latest.get(name)));
    if (isGone) present.delete(name);
    else present.add(name);
  });
  await follow(events(namespace), (event) => void told.set(event.metadata.name ?? "", event));
  return {
    pod: (name) => latest.get(name),
    isThere: (name) => present.has(name),
    events: (name) => [...told.values()].filter(({ involvedObject }) => involvedObject.name === name),
    async until(holds, timeoutMs) {
      const done = Promise.withResolvers<boolean>();
      const look = () => (holds() ? done.resolve(true) : undefined);
      const giveUp = setTimeout(() => done.resolve(false), timeoutMs);
      waiting.add(look);
      look();
      const result = await done.promise;
      clearTimeout(giveUp);
      waiting.delete(look);
      return result;
    },
  };
}
