import type { Node, NodeCondition, Pod, PodCondition } from "../../../proto/kubernetes/gen/types.ts";
import type { ApiClient, Change } from "./api-client.ts";

/** What a user of the API may wait for. */
export type Milestone = "ready" | "unready" | "gone" | "terminated";

/** When each pod and node came to something, as a watch shows it. */
export interface ApiWatch {
  /** Resolves with when it was seen, in milliseconds since the epoch. Rejects when it has not come in time. */
  pod(name: string, milestone: Milestone): Promise<number>;
  /** The next time that the node is seen Ready, after it was not there or not Ready. */
  nodeReady(name: string): Promise<number>;
}

export const podsPath = "/api/v1/namespaces/default/pods";
export const nodesPath = "/api/v1/nodes";

const PATIENCE_MS = 120_000;

export async function watchApi(api: ApiClient): Promise<ApiWatch> {
  const seen = createSightings();
  const readyNodes = new Set<string>();
  const pods = await api.list<Pod>(podsPath);
  const nodes = await api.list<Node>(nodesPath);
  await api.watch<Pod>(podsPath, pods.resourceVersion, (change) => {
    const name = change.object.metadata.name ?? "";
    for (const milestone of milestonesOf(change)) seen.tell(`${name} ${milestone}`, change.at);
  });
  await api.watch<Node>(nodesPath, nodes.resourceVersion, (change) => {
    const name = change.object.metadata.name ?? "";
    const isReady = change.type !== "DELETED" && hasTrue(change.object.status?.conditions, "Ready");
    if (isReady && !readyNodes.has(name)) seen.tell(`node ${name}`, change.at);
    if (isReady) readyNodes.add(name);
    else readyNodes.delete(name);
  });
  return {
    pod: (name, milestone) => seen.await(`${name} ${milestone}`),
    nodeReady: (name) => seen.await(`node ${name}`),
  };
}

/** What a change of a pod shows to have come about by now; each may have been seen before. */
export function milestonesOf({ type, object }: Pick<Change<Pod>, "type" | "object">): readonly Milestone[] {
  if (type === "DELETED") return ["gone"];
  const { conditions, containerStatuses = [] } = object.status ?? {};
  const hasEnded =
    containerStatuses.length > 0 && containerStatuses.every(({ state }) => state?.terminated !== undefined);
  return [hasTrue(conditions, "Ready") ? "ready" : "unready", ...(hasEnded ? ["terminated" as const] : [])];
}

type Condition = Pick<NodeCondition | PodCondition, "type" | "status">;

const hasTrue = (conditions: readonly Condition[] = [], wanted: string) =>
  conditions.some(({ type, status }) => type === wanted && status === "True");

/** First sightings for those who wait for them; whoever is not waited for is forgotten. */
function createSightings() {
  const waiting = new Map<string, (at: number) => void>();
  return {
    tell(what: string, at: number): void {
      waiting.get(what)?.(at);
    },
    await(what: string): Promise<number> {
      return new Promise((resolve, reject) => {
        const giveUp = setTimeout(() => {
          waiting.delete(what);
          reject(new Error(`the API has not shown within ${PATIENCE_MS} ms: ${what}`));
        }, PATIENCE_MS);
        waiting.set(what, (at) => {
          clearTimeout(giveUp);
          waiting.delete(what);
          resolve(at);
        });
      });
    },
  };
}
