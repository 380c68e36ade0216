import { fork } from "node:child_process";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";
import { benchPod } from "../bench-pod.ts";
import type { ApiClient } from "../cluster/api-client.ts";
import { nodesPath, podsPath } from "../cluster/api-watch.ts";
import { oldestUnreportedAges, type ReportedChange, type StatusChange, sampleTimes } from "./status-latency.ts";

/** The number of status changes per second, and of pods. */
export const FLOOD = { perSecond: 500, pods: 100 } as const;

export interface FloodOrder {
  readonly kubeconfig: string;
  readonly nodeName: string;
  readonly pods: number;
  /** The agent's request rate limit; undefined means none. */
  readonly rate: { readonly qps: number; readonly burst: number } | undefined;
  readonly perSecond: number;
  readonly lastMs: number;
}

/** The result of one flood of status changes. */
export interface Flood {
  readonly lastedMs: number;
  /** The age of the oldest change that the API has not shown, every 50 ms from the first change on. */
  readonly ages: readonly number[];
  /** The number of changes that the API has shown: of several waiting changes of one pod only the last is sent. */
  readonly shown: number;
}

const SAMPLE_INTERVAL_MS = 50;
/** Requests that are under way at the end arrive within this time. */
const FINAL_WAIT_MS = 1_000;

/**
 * Reports more status changes than any real node to one API server, by the agent's own client in a process of its own.
 */
export async function measureFlood(
  plane: ControlPlane,
  api: ApiClient,
  nodeName: string,
  { rate, lastMs }: Pick<FloodOrder, "rate" | "lastMs">,
): Promise<Flood> {
  await api.create(nodesPath, { apiVersion: "v1", kind: "Node", metadata: { name: nodeName } });
  const names = Array.from({ length: FLOOD.pods }, (_, at) => `${nodeName}-${at}`);
  await Promise.all(names.map((name) => api.create(podsPath, floodPod(name, nodeName))));
  const reported: ReportedChange[] = [];
  const { resourceVersion } = await api.list<Pod>(podsPath);
  await api.watch<Pod>(podsPath, resourceVersion, ({ object, at }) => {
    const { name = "" } = object.metadata;
    const number = object.status?.containerStatuses?.[0]?.restartCount;
    if (number !== undefined && name.startsWith(`${nodeName}-`)) reported.push({ pod: name, number, at });
  });
  const kubeconfig = await plane.nodeKubeconfig(nodeName);
  const changes = await runFlood({ kubeconfig, nodeName, ...FLOOD, rate, lastMs });
  await pause(FINAL_WAIT_MS);
  const ages = oldestUnreportedAges(changes, reported, sampleTimes(changes, SAMPLE_INTERVAL_MS));
  const end = changes.at(-1)?.at ?? 0;
  return { lastedMs: lastMs, ages, shown: reported.filter(({ at }) => at <= end).length };
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

/** A pod that is bound to the node, so that the node may report its status. No agent runs it. */
function floodPod(name: string, nodeName: string): Pod {
  const pod = benchPod(name);
  return { ...pod, spec: { ...pod.spec, nodeName, automountServiceAccountToken: false } };
}
