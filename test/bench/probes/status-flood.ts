import { fork } from "node:child_process";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";
import { benchPod } from "../bench-pod.ts";
import type { ApiClient } from "../cluster/api-client.ts";
import { nodesPath, podsPath } from "../cluster/api-watch.ts";
import { oldestUntold, type StatusChange, type StatusSighting, timesOf } from "./status-latency.ts";

/** How many words a second, on how many pods. */
export const FLOOD = { perSecond: 500, pods: 100 } as const;

export interface FloodOrder {
  readonly kubeconfig: string;
  readonly nodeName: string;
  readonly pods: number;
  /** The agent's own limit; none if undefined. */
  readonly rate: { readonly qps: number; readonly burst: number } | undefined;
  readonly perSecond: number;
  readonly lastMs: number;
}

/** What came of one flood. */
export interface Flood {
  readonly lastedMs: number;
  /** How old the oldest word was that the API did not show yet, every 50 ms from the first one on. */
  readonly ages: readonly number[];
  /** How many words the API has shown meanwhile: of several on one pod that wait, the last alone is sent. */
  readonly shown: number;
}

const STEP_MS = 50;
/** What is under way in the end comes in meanwhile. */
const AFTER_MS = 1_000;

/** Reports more changes than any node has to one API server, over the agent's own connection, in a process of its own. */
export async function measureFlood(
  plane: ControlPlane,
  api: ApiClient,
  nodeName: string,
  { rate, lastMs }: Pick<FloodOrder, "rate" | "lastMs">,
): Promise<Flood> {
  await api.create(nodesPath, { apiVersion: "v1", kind: "Node", metadata: { name: nodeName } });
  const names = Array.from({ length: FLOOD.pods }, (_, at) => `${nodeName}-${at}`);
  await Promise.all(names.map((name) => api.create(podsPath, floodPod(name, nodeName))));
  const sightings: StatusSighting[] = [];
  const { resourceVersion } = await api.list<Pod>(podsPath);
  await api.watch<Pod>(podsPath, resourceVersion, ({ object, at }) => {
    const { name = "" } = object.metadata;
    const number = object.status?.containerStatuses?.[0]?.restartCount;
    if (number !== undefined && name.startsWith(`${nodeName}-`)) sightings.push({ pod: name, number, at });
  });
  const kubeconfig = await plane.nodeKubeconfig(nodeName);
  const changes = await runFlood({ kubeconfig, nodeName, ...FLOOD, rate, lastMs });
  await pause(AFTER_MS);
  const ages = oldestUntold(changes, sightings, timesOf(changes, STEP_MS));
  const end = changes.at(-1)?.at ?? 0;
  return { lastedMs: lastMs, ages, shown: sightings.filter(({ at }) => at <= end).length };
}

async function runFlood(order: FloodOrder): Promise<readonly StatusChange[]> {
  const child = fork(join(import.meta.dirname, "status-flood-process.ts"));
  try {
    const answer = await new Promise<{ readonly changes?: readonly StatusChange[]; readonly problem?: string }>(
      (resolve, reject) => {
        child.once("exit", () => reject(new Error("the process that reports statuses has ended")));
        child.once("message", (message) => resolve(message as { changes?: readonly StatusChange[] }));
        child.send(order);
      },
    );
    if (answer.changes === undefined) throw new Error(answer.problem);
    return answer.changes;
  } finally {
    child.removeAllListeners("exit");
    child.kill("SIGKILL");
  }
}

/** Bound, so that the node may tell of it; no agent has it. */
function floodPod(name: string, nodeName: string): Pod {
  const pod = benchPod(name);
  return { ...pod, spec: { ...pod.spec, nodeName, automountServiceAccountToken: false } };
}
