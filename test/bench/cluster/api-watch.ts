import type { Node, NodeCondition, Pod, PodCondition } from "../../../proto/kubernetes/gen/types.ts";
import type { ApiClient, Change } from "./api-client.ts";

/** A pod state that a user of the API may wait for. */
export type Milestone = "ready" | "unready" | "gone" | "terminated";

/** The times at which a watch shows that pods and nodes reach a state. */
export interface ApiWatch {
  /** Resolves with the arrival time of the change, in milliseconds since the epoch. Rejects after a timeout. */
  pod(name: string, milestone: Milestone): Promise<number>;
  /** Resolves with the next time that the node becomes Ready, after it was absent or not Ready. */
  nodeReady(name: string): Promise<number>;
  /** Resolves when the Job has the condition Complete, as `pod` does. */
  jobComplete(name: string): Promise<number>;
}

/** What a watch of Jobs reads of them. */
interface Job {
  readonly metadata: { readonly name?: string; readonly resourceVersion?: string };
  readonly status?: { readonly conditions?: readonly Condition[] };
}

export const podsPath = "/api/v1/namespaces/default/pods";
export const nodesPath = "/api/v1/nodes";
export const jobsPath = "/apis/batch/v1/namespaces/default/jobs";

const TIMEOUT_MS = 120_000;

export async function watchApi(api: ApiClient): Promise<ApiWatch> {
  const waiters = createWaiters();
  const readyNodes = new Set<string>();
  const pods = await api.list<Pod>(podsPath);
  const nodes = await api.list<Node>(nodesPath);
  await api.watch<Pod>(podsPath, pods.resourceVersion, (change) => {
    const name = change.object.metadata.name ?? "";
    for (const milestone of milestonesOf(change)) waiters.notify(`${name} ${milestone}`, change.at);
  });
  await api.watch<Node>(nodesPath, nodes.resourceVersion, (change) => {
    const name = change.object.metadata.name ?? "";
    const isReady = change.type !== "DELETED" && hasTrue(change.object.status?.conditions, "Ready");
    if (isReady && !readyNodes.has(name)) waiters.notify(`node ${name}`, change.at);
    if (isReady) readyNodes.add(name);
    else readyNodes.delete(name);
  });
  const jobs = await api.list<Job>(jobsPath);
  await api.watch<Job>(jobsPath, jobs.resourceVersion, ({ object: { metadata, status }, at }) => {
    if (hasTrue(status?.conditions, "Complete")) waiters.notify(`job ${metadata.name}`, at);
  });
  return {
    pod: (name, milestone) => waiters.await(`${name} ${milestone}`),
    nodeReady: (name) => waiters.await(`node ${name}`),
    jobComplete: (name) => waiters.await(`job ${name}`),
  };
}

/** The states that the pod of this change is in, including those that an earlier change has shown. */
export function milestonesOf({ type, object }: Pick<Change<Pod>, "type" | "object">): readonly Milestone[] {
  if (type === "DELETED") return ["gone"];
  const { conditions, containerStatuses = [] } = object.status ?? {};
  const hasEnded =
    containerStatuses.length > 0 && containerStatuses.every(({ state }) => state?.terminated !== undefined);
  return [hasTrue(conditions, "Ready") ? "ready" : "unready", ...(hasEnded ? ["terminated" as const] : [])];
}

type Condition = { readonly type: string; readonly status: (NodeCondition | PodCondition)["status"] };

const hasTrue = (conditions: readonly Condition[] = [], conditionType: string) =>
  conditions.some(({ type, status }) => type === conditionType && status === "True");

/** Passes events to their waiters. An event without a waiter is dropped. */
function createWaiters() {
  const waiting = new Map<string, (at: number) => void>();
  return {
    notify(what: string, at: number): void {
      waiting.get(what)?.(at);
    },
    await(what: string): Promise<number> {
      return new Promise((resolve, reject) => {
        const timer = setTimeout(() => {
          waiting.delete(what);
          reject(new Error(`the API did not show within ${TIMEOUT_MS} ms: ${what}`));
        }, TIMEOUT_MS);
        waiting.set(what, (at) => {
          clearTimeout(timer);
          waiting.delete(what);
          resolve(at);
        });
      });
    },
  };
}
