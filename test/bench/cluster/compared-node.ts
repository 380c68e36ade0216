import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { startAgent } from "../../bed/agent.ts";
import type { ContainerdVersion } from "../../bed/containerd/containerd.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";
import { startReferenceKubelet } from "../../upstream/reference-kubelet.ts";
import { type MeasuredRuntime, startMeasuredRuntime } from "../measured-runtime.ts";

/** One of the two compared programs, as a node of the cluster with a container runtime of its own. */
export interface ComparedNode {
  readonly nodeName: string;
  readonly runtime: MeasuredRuntime;
  /** The process id of the current agent. Throws if none runs. */
  readonly pid: number;
  /** Starts an agent and returns its start time in milliseconds since the epoch. No other agent may run. */
  start(): Promise<number>;
  /** Stops the agent; its pods keep running. */
  stop(): Promise<void>;
  /** Stops the agent, all pods and the runtime. */
  end(): Promise<void>;
}

interface Process {
  readonly pid: number;
  readonly startedAt: number;
  stop(): Promise<void>;
}

export interface ComparedNodeOptions {
  readonly plane: ControlPlane;
  /** Has a folder for each node. */
  readonly folder: string;
  readonly version: ContainerdVersion;
  /** Fields of KubeletConfiguration for both agents. */
  readonly configuration?: Readonly<Record<string, unknown>>;
  /** The address of a proxy in front of the API server, if Berth's agent should use one. */
  readonly server?: string;
  /** Returns the endpoint that the agent of this node connects to instead of the runtime's. */
  readonly connect?: (nodeName: string, endpoint: string) => Promise<string>;
}

/** How a node of the compiled agent differs from the usual one. */
export interface BerthNodeOptions {
  /** The node's name without the runtime's release. */
  readonly program?: string;
  readonly flags?: readonly string[];
  /** The folder of the runtime's CNI plugins. */
  readonly cniBinDir?: string;
}

/** Creates the node of the compiled agent, without starting it. */
export async function createBerthNode(
  { plane, folder, version, server, connect, configuration = {} }: ComparedNodeOptions,
  binary: string,
  { program = "berth", flags = [], ...more }: BerthNodeOptions = {},
): Promise<ComparedNode> {
  const nodeName = nodeNameFor(program, version);
  const stateDir = join(folder, nodeName);
  const kubeconfig = await plane.nodeKubeconfig(nodeName, server);
  // A parent folder of its own: an agent without a manifest folder watches its parent, and the bed writes logs into the
  // state folder.
  const staticPodPath = join(stateDir, "static", "manifests");
  await mkdir(staticPodPath, { recursive: true });
  const berthConfiguration = { ...bothHave, ...configuration, staticPodPath };
  const cluster = { kubeconfig, nodeName };
  const launch = (endpoint: string) =>
    startAgent({ binary, stateDir, endpoint, configuration: berthConfiguration, cluster, flags });
  return await createComparedNode({ nodeName, version, stateDir, connect }, launch, more);
}

/** Creates the node of the reference kubelet, without starting it. */
export async function createKubeletNode({
  plane,
  folder,
  version,
  connect,
  configuration: more = {},
}: ComparedNodeOptions): Promise<ComparedNode> {
  const nodeName = nodeNameFor("kubelet", version);
  const stateDir = join(folder, nodeName);
  const configuration = { ...bothHave, ...more };
  return await createComparedNode({ nodeName, version, stateDir, connect }, (endpoint) =>
    startReferenceKubelet({ controlPlane: plane, nodeName, endpoint, stateDir, configuration }),
  );
}

/** The node's name; each has a folder of this name. */
export const nodeNameFor = (program: string, version: ContainerdVersion) => `${program}-${version.replace(".", "-")}`;

/**
 * No server listens at the address and no pod uses it. Without an address both programs would send an event for each
 * pod.
 */
const bothHave = { clusterDNS: ["10.191.0.10"], clusterDomain: "cluster.local" };

interface NodeOptions extends Pick<ComparedNodeOptions, "version"> {
  readonly nodeName: string;
  readonly stateDir: string;
  readonly connect: ComparedNodeOptions["connect"];
}

async function createComparedNode(
  { nodeName, version, stateDir, connect = async (_, endpoint) => endpoint }: NodeOptions,
  launch: (endpoint: string) => Promise<Process>,
  more: Parameters<typeof startMeasuredRuntime>[2] = {},
): Promise<ComparedNode> {
  const runtime = await startMeasuredRuntime(version, stateDir, more);
  const endpoint = await connect(nodeName, runtime.containerd.endpoint);
  let current: Process | undefined;
  const stop = async () => {
    await current?.stop();
    current = undefined;
  };
  return {
    nodeName,
    runtime,
    get pid() {
      if (current === undefined) throw new Error(`${nodeName} does not run`);
      return current.pid;
    },
    async start() {
      current = await launch(endpoint);
      return current.startedAt;
    },
    stop,
    async end() {
      await stop();
      await runtime.stop();
    },
  };
}
