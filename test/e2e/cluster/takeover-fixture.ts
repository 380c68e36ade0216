import { expect } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { nodes, pods } from "../../../kube/resource.ts";
import { findLeakedResources, listMachineResources } from "../../bed/cleanup/leaked-resources.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { createAdminClient } from "../../upstream/admin-client.ts";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import { type ReferenceKubelet, startReferenceKubelet } from "../../upstream/reference-kubelet.ts";
import { startNodeWithoutAgent, type TestNode } from "../node.ts";
import { areContainersReady } from "./node.ts";

const nodeName = "node-a";

/** The agents of a node, by what it reports as `kubeletVersion`. */
export const versionOf = { kubelet: "v1.36.3", berth: "v1.36.3+berth" } as const;
export type AgentName = keyof typeof versionOf;

/** A node of a real control plane, without an agent at first, that the kubelet and Berth take over from each other. */
export interface TakeoverNode {
  readonly plane: ControlPlane;
  readonly kube: ReturnType<typeof createAdminClient>;
  readonly node: TestNode;
  /** Stops the agent that runs, if any. Its pods keep running. */
  stopAgent(): Promise<void>;
  /** Stops the agent that runs, if any, and starts this one. */
  switchTo(agent: AgentName): Promise<void>;
  apply(items: readonly object[]): Promise<string>;
  /** Waits until this agent reports the node as Ready, and these pods are ready. */
  waitForAgent(agent: AgentName, podNames: readonly string[]): Promise<void>;
  /** Stops and removes everything. Throws if a resource is left on the machine. */
  tearDown(): Promise<void>;
}

export async function startTakeoverNode(): Promise<TakeoverNode> {
  const before = await listMachineResources();
  const folder = await mkdtemp(join(tmpdir(), "berth-takeover-"));
  const plane = await startControlPlane({ stateDir: folder, print: console.log });
  const kube = createAdminClient(plane, "takeover");
  const kubeconfig = await plane.nodeKubeconfig(nodeName);
  const node = await startNodeWithoutAgent({ cluster: { kubeconfig, nodeName } });
  let kubelet: ReferenceKubelet | undefined;
  let hasBerth = false;

  const start: Readonly<Record<AgentName, () => Promise<void>>> = {
    async kubelet() {
      const { endpoint } = node.containerd;
      const own = { staticPodPath: node.paths.manifests, clusterDNS: ["10.191.0.10"], clusterDomain: "cluster.local" };
      const place = { controlPlane: plane, nodeName, endpoint, stateDir: node.folder, rootDir: node.paths.agentRoot };
      kubelet = await startReferenceKubelet({ ...place, configuration: { ...own, fileCheckFrequency: "1s" } });
    },
    async berth() {
      await node.startAgent();
      hasBerth = true;
    },
  };
  const stopAgent = async () => {
    await kubelet?.stop();
    if (hasBerth) await node.agent.stop();
    [kubelet, hasBerth] = [undefined, false];
  };
  return {
    ...{ plane, kube, node, stopAgent },
    async switchTo(agent) {
      await stopAgent();
      await start[agent]();
    },
    apply: (items) =>
      plane.kubectl(["apply", "--filename=-"], { input: JSON.stringify({ apiVersion: "v1", kind: "List", items }) }),
    waitForAgent: (agent, podNames) => waitForAgent(kube, agent, podNames),
    async tearDown() {
      await kubelet?.kill9();
      await node.tearDown();
      kube.close();
      await plane.stop();
      await rm(folder, { recursive: true });
      expect(await findLeakedResources(before)).toEqual([]);
    },
  };
}

async function waitForAgent(kube: TakeoverNode["kube"], agent: AgentName, podNames: readonly string[]): Promise<void> {
  await pollUntil(`the node to be Ready with ${agent}`, 60_000, async () => {
    // The API server may be busy; the timeout reports a failure that lasts.
    const seen = await kube.get(nodes, nodeName).catch(() => undefined);
    const isReady = seen?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True");
    return seen?.status?.nodeInfo?.kubeletVersion === versionOf[agent] && isReady === true;
  });
  for (const name of podNames)
    await pollUntil(`the pod ${name} to be ready`, 60_000, async () =>
      // The API server may be busy; the timeout reports a failure that lasts.
      areContainersReady(await kube.get(pods("default"), name).catch(() => undefined)),
    );
}
