import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { Agent } from "../agent.ts";

/** The pods of the node as its API knows them. */
export interface PodLookup {
  /** All pods that the sources list, with the status that the agent has decided. Finished ones are among them. */
  all(): readonly Pod[];
  /** The pod of this name. If two have it, the one that is to run: its predecessor still ends. */
  named(namespace: string, name: string): Pod | undefined;
}

/** Rule: GetPods and GetPodByName of the kubelet, whose pods of manifests also have the status that it has decided. */
export function createPodLookup({ desired, podReports }: Pick<Agent, "desired" | "podReports">): PodLookup {
  function all(): readonly Pod[] {
    const reported = podReports.all().map(({ pod, status }): Pod => ({ ...pod, status }));
    const uids = new Set(reported.map(({ metadata }) => metadata.uid));
    const added = desired.all().filter(({ uid }) => !uids.has(uid));
    return [...reported, ...added.map(({ pod }) => pod)];
  }

  return {
    all,
    named(namespace, name) {
      const named = all().filter(({ metadata }) => metadata.namespace === namespace && metadata.name === name);
      if (named.length <= 1) return named[0];
      const toRun = new Set(desired.all().flatMap(({ uid, termination }) => (termination ? [] : [String(uid)])));
      return named.find(({ metadata }) => toRun.has(metadata.uid ?? "")) ?? named[0];
    },
  };
}
