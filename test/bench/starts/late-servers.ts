import { setTimeout as pause } from "node:timers/promises";
import type { Container, Probe } from "../../../proto/kubernetes/gen/types.ts";
import { busyboxImage, webImage } from "../../bed/images/images.ts";
import { type ClusterSubjects, deletePods, startPods } from "../cluster/cluster-rounds.ts";
import type { ComparedNode } from "../cluster/compared-node.ts";

/** A pod whose container becomes ready some time after its start. */
export interface LateServer {
  /** From the start of its container until it can answer its readiness probe. */
  readonly listensAfterMs: number;
  /** From the create request to the pod's Ready condition in the API. */
  readonly readyMs: number;
  /** From the moment when it can answer to the Ready condition. */
  readonly waitMs: number;
}

/** What kind of container a pod has: a web server that is probed, or a file that a command looks for. */
export type LateKind = "http" | "tcp" | "exec";

export interface LateServersPlan {
  readonly kinds: readonly LateKind[];
  /** When each server listens after the start of its container. */
  readonly listenAfterMs: readonly number[];
  /** The pods are created within this time. */
  readonly windowMs: number;
  readonly probe?: Probe;
}

/** Numbers in [0, 1) that look random, and are the same for both agents and in each run. */
export const spreadOver = (count: number, step = 0.618) => Array.from({ length: count }, (_, at) => (at * step) % 1);

/** Runs the pods on one node, created at different moments, and deletes them when all are Ready. */
export async function measureLateServers(
  subjects: Pick<ClusterSubjects, "api" | "watch" | "names">,
  member: ComparedNode,
  { kinds, listenAfterMs, windowMs, probe = {} }: LateServersPlan,
): Promise<readonly LateServer[]> {
  const names = subjects.names(listenAfterMs.length);
  const moments = spreadOver(names.length, 0.414);
  const ready = await Promise.all(
    names.map(async (name, at) => {
      await pause((moments[at] ?? 0) * windowMs);
      const createdAt = Date.now();
      const kind = kinds[at % kinds.length] ?? "http";
      const container = lateContainer(kind, listenAfterMs[at] ?? 0, probe);
      const { wall } = await startPods(subjects, member, [name], { containers: [container] });
      return { name, readyMs: wall, readyAt: createdAt + wall };
    }),
  );
  const startedAt = new Map((await member.runtime.pods()).map(({ name, runningAt }) => [name, runningAt]));
  await deletePods(subjects, names);
  return ready.map(({ name, readyMs, readyAt }, at) => {
    const listensAfterMs = listenAfterMs[at] ?? Number.NaN;
    return { listensAfterMs, readyMs, waitMs: readyAt - (startedAt.get(name) ?? Number.NaN) - listensAfterMs };
  });
}

function lateContainer(kind: LateKind, listensAfterMs: number, probe: Probe): Container {
  const sleep = `sleep ${(listensAfterMs / 1000).toFixed(3)}`;
  const run = (text: string) => ["catatonit", "--", "sh", "-c", text];
  if (kind === "exec") {
    const readinessProbe = { exec: { command: ["test", "-e", "/tmp/up"] }, ...probe };
    const command = run(`${sleep}; touch /tmp/up; exec sleep 1000000`);
    return { name: "main", image: busyboxImage, command: [...command], readinessProbe };
  }
  const way = kind === "http" ? { httpGet: { port: 8080 } } : { tcpSocket: { port: 8080 } };
  const command = run(`${sleep}; exec httpd -f -p 8080 -h /www`);
  return { name: "main", image: webImage, command: [...command], readinessProbe: { ...way, ...probe } };
}
