import { expect } from "bun:test";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pods } from "../../../kube/resource.ts";
import { ContainerState, PodSandboxState } from "../../../proto/cri/gen/api.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { podUidLabel } from "../../../proto/kubernetes/well-known-names.ts";
import { findLeakedResources, listMachineResources } from "../../bed/cleanup/leaked-resources.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { createAdminClient } from "../../upstream/admin-client.ts";
import {
  type ControlPlane,
  type ControlPlaneOptions,
  type KubectlVersion,
  startControlPlane,
} from "../../upstream/control-plane.ts";
import { startNodeWithoutAgent, type TestNode } from "../node.ts";
import type { Manifest } from "./api-objects.ts";

/** A real control plane with the compiled agent as its only node. */
export interface ClusterNode {
  readonly plane: ControlPlane;
  readonly node: TestNode;
  /** Runs kubectl 1.36 as an administrator. Rejects with its error output. */
  kubectl(...args: readonly string[]): Promise<string>;
  /** Runs `kubectl apply` for all manifests. */
  apply(manifests: readonly Manifest[], version?: KubectlVersion): Promise<void>;
  /** Runs `kubectl create` for all manifests: one request each, while `apply` sends two. */
  create(manifests: readonly Manifest[]): Promise<void>;
  /** The pods of the default namespace with the label `app`, or all of them, sorted by name. */
  pods(app?: string): Promise<readonly Pod[]>;
  pod(name: string): Promise<Pod>;
  /** Waits until the pods of `app` meet `condition`. Throws with their last statuses and the end of the agent's log. */
  waitForPods(
    what: string,
    app: string,
    condition: (pods: readonly Pod[]) => boolean,
    timeoutMs?: number,
  ): Promise<readonly Pod[]>;
  /** The pod uids of all running containers, one for each container, and of all ready sandboxes. */
  runningUids(): Promise<{ readonly containers: readonly string[]; readonly sandboxes: readonly string[] }>;
  /** Waits until no pod is in the API and nothing of any pod is on the node. */
  waitUntilEmpty(timeoutMs?: number): Promise<void>;
  /** Stops and removes everything. Throws if a resource is left on the machine. */
  tearDown(): Promise<void>;
}

const TIMEOUT_MS = 30_000;
/** A list of some hundred pods takes some milliseconds of two processors. */
const POLL_MS = 50;

const nodeName = "node-a";

/** A connection to the API server through test proxies. */
export interface NetworkPath {
  readonly server: string;
  close(): Promise<void>;
}

/** Flags of a control plane that binds a claim within a second, not fifteen, after its volume has been created. */
export const bindsClaimsSoon: ControlPlaneOptions["flags"] = {
  "kube-controller-manager": ["--pvclaimbinder-sync-period=1s"],
};

/**
 * Starts a control plane and a node, and returns once the node is Ready. `openNetwork` puts proxies between agent and API
 * server. `configuration`: fields of KubeletConfiguration. `flags`: additional flags of the control plane.
 */
export async function startClusterNode<W extends NetworkPath>(
  openNetwork: (plane: ControlPlane, nodeName: string) => Promise<W>,
  configuration?: Readonly<Record<string, unknown>>,
  flags?: ControlPlaneOptions["flags"],
): Promise<ClusterNode & { readonly network: W }>;
export async function startClusterNode(
  openNetwork?: undefined,
  configuration?: Readonly<Record<string, unknown>>,
  flags?: ControlPlaneOptions["flags"],
): Promise<ClusterNode>;
export async function startClusterNode(
  openNetwork?: (plane: ControlPlane, nodeName: string) => Promise<NetworkPath>,
  configuration: Readonly<Record<string, unknown>> = {},
  flags: ControlPlaneOptions["flags"] = {},
): Promise<ClusterNode & { readonly network: NetworkPath | undefined }> {
  const before = await listMachineResources();
  const folder = await mkdtemp(join(tmpdir(), "berth-cluster-"));
  const plane = await startControlPlane({ stateDir: folder, print: console.log, flags });
  const network = await openNetwork?.(plane, nodeName);
  const node = await startNodeOfCluster(plane, network?.server).catch(async (error: unknown) => {
    await network?.close();
    await plane.stop();
    await rm(folder, { recursive: true });
    throw error;
  });
  const cluster = createClusterNode(plane, node, async () => {
    await node.tearDown();
    await network?.close();
    await plane.stop();
    const left = (await readdir(folder, { recursive: true })).filter((name) => !name.endsWith(".log"));
    await rm(folder, { recursive: true });
    expect(left).toEqual([]);
    expect(await findLeakedResources(before)).toEqual([]);
  });
  try {
    await node.startAgent(configuration);
    await cluster.kubectl("wait", "--for=create", `node/${node.name}`, "--timeout=180s");
    await cluster.kubectl("wait", "--for=condition=Ready", `node/${node.name}`, "--timeout=180s");
  } catch (cause) {
    const log = await node.log();
    await cluster.tearDown();
    throw new Error(`the node does not become Ready:\n${log.slice(-4000)}`, { cause });
  }
  return Object.assign(cluster, { network });
}

async function startNodeOfCluster(plane: ControlPlane, server: string | undefined): Promise<TestNode> {
  const kubeconfig = await plane.nodeKubeconfig(nodeName, server);
  return await startNodeWithoutAgent({ cluster: { kubeconfig, nodeName } });
}

function createClusterNode(plane: ControlPlane, node: TestNode, tearDown: () => Promise<void>): ClusterNode {
  // The tests poll pods often, and a kubectl for each poll would take a processor.
  const kube = createAdminClient(plane, "cluster-node");
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
      const selector = app === undefined ? {} : { labelSelector: `app=${app}` };
      const { items } = await kube.list(pods("default"), selector);
      return items.toSorted((a, b) => ((a.metadata.name ?? "") < (b.metadata.name ?? "") ? -1 : 1));
    },
    pod: (name) => kube.get(pods("default"), name),
    waitForPods: (what, app, condition, timeoutMs = TIMEOUT_MS) =>
      pollForPods(cluster, what, app, condition, timeoutMs),
    async runningUids() {
      const [containers, sandboxes] = await Promise.all([node.containers(), node.sandboxes()]);
      const uids = (all: readonly { readonly labels: Readonly<Record<string, string>> }[]) =>
        all.map(({ labels }) => labels[podUidLabel] ?? "").toSorted();
      return {
        containers: uids(containers.filter(({ state }) => state === ContainerState.CONTAINER_RUNNING)),
        sandboxes: uids(sandboxes.filter(({ state }) => state === PodSandboxState.SANDBOX_READY)),
      };
    },
    async waitUntilEmpty(timeoutMs = TIMEOUT_MS) {
      let left: readonly Pod[] = [];
      const isEmpty = async () => {
        left = await cluster.pods();
        return left.length === 0;
      };
      await pollUntil("no pod in the API", timeoutMs, isEmpty, POLL_MS).catch(async (cause: unknown) => {
        throw new Error(`pods are left:\n${describeStatuses(left)}\n${(await node.log()).slice(-4000)}`, { cause });
      });
      await node.waitUntilEmpty(timeoutMs);
    },
    async tearDown() {
      kube.close();
      await tearDown();
    },
  };
  return cluster;
}

async function pollForPods(
  { node, pods }: Pick<ClusterNode, "node" | "pods">,
  what: string,
  app: string,
  condition: (pods: readonly Pod[]) => boolean,
  timeoutMs: number,
): Promise<readonly Pod[]> {
  let last: readonly Pod[] = [];
  try {
    const poll = async () => {
      last = await pods(app);
      return condition(last) && last;
    };
    return await pollUntil(`pods of ${app}: ${what}`, timeoutMs, poll, POLL_MS);
  } catch (cause) {
    const log = (await node.log()).slice(-4000);
    throw new Error(`pods of ${app} did not meet: ${what}; last seen:\n${describeStatuses(last)}\n${log}`, { cause });
  }
}

const describeStatuses = (pods: readonly Pod[]) =>
  pods.map(({ metadata, status }) => `${metadata.name}: ${JSON.stringify(status)}`).join("\n");

/**
 * Parses the events at the end of the output of `kubectl describe`. Drops the container field that 1.36 puts before
 * messages.
 */
export function parseDescribedEvents(text: string) {
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

/** True if the pod has containers, all of them are ready, and it is not being deleted. */
export function areContainersReady(pod: Pod | undefined): boolean {
  const all = pod?.status?.containerStatuses ?? [];
  return pod?.metadata.deletionTimestamp === undefined && all.length > 0 && all.every(({ ready }) => ready);
}
