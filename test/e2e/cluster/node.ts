import { expect } from "bun:test";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ContainerState, PodSandboxState } from "../../../proto/cri/gen/api.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { podUidLabel } from "../../../proto/kubernetes/well-known-names.ts";
import { newTraces, traces } from "../../bed/cleanup/leaked-resources.ts";
import { until } from "../../bed/poll-until.ts";
import { type ControlPlane, type KubectlVersion, startControlPlane } from "../../upstream/control-plane.ts";
import { type Node, startNodeWithoutAgent } from "../node.ts";
import type { Manifest } from "./api-objects.ts";

/** An upstream control plane, and the compiled agent as its only node. */
export interface ClusterNode {
  readonly plane: ControlPlane;
  readonly node: Node;
  /** Runs kubectl 1.36 as an administrator. Rejects with its words if it fails. */
  kubectl(...args: readonly string[]): Promise<string>;
  /** `kubectl apply` for all of these. */
  apply(manifests: readonly Manifest[], version?: KubectlVersion): Promise<void>;
  /** `kubectl create` for all of these: one request each, where `apply` makes two. */
  create(manifests: readonly Manifest[]): Promise<void>;
  /** The pods of the workload `app`, or all of them, by name. */
  pods(app?: string): Promise<readonly Pod[]>;
  pod(name: string): Promise<Pod>;
  /** Waits for what the API shows of the pods of `app`; throws with what it showed last, and with the end of the agent's log. */
  see(
    what: string,
    app: string,
    condition: (pods: readonly Pod[]) => boolean,
    timeoutMs?: number,
  ): Promise<readonly Pod[]>;
  /** The uids of the pods of which a container runs, one for each container, and of those with a sandbox that is ready. */
  running(): Promise<{ readonly containers: readonly string[]; readonly sandboxes: readonly string[] }>;
  /** Waits until neither the API nor the node has anything of any pod. */
  empty(timeoutMs?: number): Promise<void>;
  /** Ends and removes everything, and throws if a trace of it is left on the machine. */
  end(): Promise<void>;
}

const PATIENCE_MS = 30_000;

const nodeName = "node-a";

/** How the agent reaches the API server, where it does not by itself. */
export interface Way {
  readonly server: string;
  close(): Promise<void>;
}

/**
 * Returns once `kubectl get node node-a` would show Ready. `openWay` leads to the API server, under the identity of that node.
 * `configuration`: fields of KubeletConfiguration.
 */
export async function startClusterNode<W extends Way>(
  openWay: (plane: ControlPlane, nodeName: string) => Promise<W>,
  configuration?: Readonly<Record<string, unknown>>,
): Promise<ClusterNode & { readonly way: W }>;
export async function startClusterNode(): Promise<ClusterNode>;
export async function startClusterNode(
  openWay?: (plane: ControlPlane, nodeName: string) => Promise<Way>,
  configuration: Readonly<Record<string, unknown>> = {},
): Promise<ClusterNode & { readonly way: Way | undefined }> {
  const before = await traces();
  const folder = await mkdtemp(join(tmpdir(), "berth-cluster-"));
  const plane = await startControlPlane({ stateDir: folder, say: console.log });
  const way = await openWay?.(plane, nodeName);
  const node = await startMember(plane, way?.server).catch(async (error: unknown) => {
    await way?.close();
    await plane.stop();
    await rm(folder, { recursive: true });
    throw error;
  });
  const cluster = createClusterNode(plane, node, async () => {
    await node.end();
    await way?.close();
    await plane.stop();
    const left = (await readdir(folder, { recursive: true })).filter((name) => !name.endsWith(".log"));
    await rm(folder, { recursive: true });
    expect(left).toEqual([]);
    expect(await newTraces(before)).toEqual([]);
  });
  try {
    await node.startAgent(configuration);
    await cluster.kubectl("wait", "--for=create", `node/${node.name}`, "--timeout=30s");
    await cluster.kubectl("wait", "--for=condition=Ready", `node/${node.name}`, "--timeout=30s");
  } catch (cause) {
    const log = await node.log();
    await cluster.end();
    throw new Error(`the node does not become Ready:\n${log.slice(-4000)}`, { cause });
  }
  return Object.assign(cluster, { way });
}

async function startMember(plane: ControlPlane, way: string | undefined): Promise<Node> {
  const kubeconfig = await plane.nodeKubeconfig(nodeName, way);
  return await startNodeWithoutAgent({ cluster: { kubeconfig, nodeName } });
}

function createClusterNode(plane: ControlPlane, node: Node, end: () => Promise<void>): ClusterNode {
  const cluster: ClusterNode = {
    plane,
    node,
    kubectl: (...args) => plane.kubectl(args),
    async apply(items, version = "1.36") {
      const input = JSON.stringify({ apiVersion: "v1", kind: "List", items });
      await plane.kubectl(["apply", "--filename=-"], { version, input });
    },
    async create(items) {
      const input = JSON.stringify({ apiVersion: "v1", kind: "List", items });
      await plane.kubectl(["create", "--filename=-"], { input });
    },
    async pods(app) {
      const selector = app === undefined ? [] : [`--selector=app=${app}`];
      return (JSON.parse(await cluster.kubectl("get", "pods", "--output=json", ...selector)) as { items: Pod[] }).items;
    },
    pod: async (name) => JSON.parse(await cluster.kubectl("get", "pod", name, "--output=json")) as Pod,
    see: (what, app, condition, timeoutMs = PATIENCE_MS) => seePods(cluster, what, app, condition, timeoutMs),
    async running() {
      const [containers, sandboxes] = await Promise.all([node.containers(), node.sandboxes()]);
      const uids = (all: readonly { readonly labels: Readonly<Record<string, string>> }[]) =>
        all.map(({ labels }) => labels[podUidLabel] ?? "").toSorted();
      return {
        containers: uids(containers.filter(({ state }) => state === ContainerState.CONTAINER_RUNNING)),
        sandboxes: uids(sandboxes.filter(({ state }) => state === PodSandboxState.SANDBOX_READY)),
      };
    },
    async empty(timeoutMs = PATIENCE_MS) {
      let left: readonly Pod[] = [];
      const isEmpty = async () => {
        left = await cluster.pods();
        return left.length === 0;
      };
      await until("no pod in the API", timeoutMs, isEmpty).catch(async (cause: unknown) => {
        throw new Error(`pods are left:\n${wordsOf(left)}\n${(await node.log()).slice(-4000)}`, { cause });
      });
      await node.empty(timeoutMs);
    },
    end,
  };
  return cluster;
}

async function seePods(
  { node, pods }: Pick<ClusterNode, "node" | "pods">,
  what: string,
  app: string,
  condition: (pods: readonly Pod[]) => boolean,
  timeoutMs: number,
): Promise<readonly Pod[]> {
  let last: readonly Pod[] = [];
  try {
    return await until(`pods of ${app}: ${what}`, timeoutMs, async () => {
      last = await pods(app);
      return condition(last) && last;
    });
  } catch (cause) {
    const log = (await node.log()).slice(-4000);
    throw new Error(`pods of ${app} were expected so: ${what}; last seen:\n${wordsOf(last)}\n${log}`, { cause });
  }
}

const wordsOf = (pods: readonly Pod[]) =>
  pods.map(({ metadata, status }) => `${metadata.name}: ${JSON.stringify(status)}`).join("\n");

/** The events that `kubectl describe` shows at its end, in its order; without the container that 1.36 names in front of its words. */
export function describedEvents(text: string) {
  const [, table = ""] = text.split(/^Events:\n.*\n +-+ .*\n/m);
  return table
    .split("\n")
    .filter((line) => line.trim() !== "")
    .map((line) => {
      const [type = "", reason = "", , from = "", ...message] = line.trim().split(/ {2,}/);
      return { type, reason, from, message: message.join("  ").replace(/^spec\.\w+\{[^}]*\}: /, "") };
    });
}

export const uidsOf = (pods: readonly Pod[]) => pods.map(({ metadata }) => metadata.uid ?? "").toSorted();

/** All containers run and are ready, and nobody wants it to end. A pod that nobody has heard of is not up. */
export function isUp(pod: Pod | undefined): boolean {
  const all = pod?.status?.containerStatuses ?? [];
  return pod?.metadata.deletionTimestamp === undefined && all.length > 0 && all.every(({ ready }) => ready);
}
