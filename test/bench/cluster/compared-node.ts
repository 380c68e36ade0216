import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { startAgent } from "../../bed/agent.ts";
import type { ContainerdVersion } from "../../bed/containerd/containerd.ts";
import type { ControlPlane } from "../../upstream/control-plane.ts";
import { startReferenceKubelet } from "../../upstream/reference-kubelet.ts";
import { type MeasuredRuntime, startMeasuredRuntime } from "../measured-runtime.ts";

/** One of the two programs that are compared, as a node of the cluster with a container runtime of its own. */
export interface Member {
  readonly nodeName: string;
  readonly runtime: MeasuredRuntime;
  /** The agent that runs now. */
  readonly pid: number;
  /** Starts the next agent, and returns when its process was begun, in milliseconds since the epoch. None may run. */
  start(): Promise<number>;
  /** Ends the agent; its pods go on. */
  stop(): Promise<void>;
  /** Ends the agent, all pods and the runtime. */
  end(): Promise<void>;
}

interface Process {
  readonly pid: number;
  readonly startedAt: number;
  stop(): Promise<void>;
}

export interface MemberOptions {
  readonly plane: ControlPlane;
  /** Holds a folder for each member. */
  readonly folder: string;
  readonly version: ContainerdVersion;
}

/** The compiled agent. It does not run yet. */
export async function createBerthMember({ plane, folder, version }: MemberOptions, binary: string): Promise<Member> {
  const nodeName = memberName("berth", version);
  const stateDir = join(folder, nodeName);
  const kubeconfig = await plane.nodeKubeconfig(nodeName);
  // In a folder of its own: who waits for a folder to come watches the one that it is in, and the bed writes its logs into that.
  const staticPodPath = join(stateDir, "static", "manifests");
  await mkdir(staticPodPath, { recursive: true });
  const own = { ...configuration, staticPodPath };
  return await createMember(nodeName, version, stateDir, (endpoint) =>
    startAgent({ binary, stateDir, endpoint, configuration: own, cluster: { kubeconfig, nodeName } }),
  );
}

/** The reference kubelet. It does not run yet. */
export async function createKubeletMember({ plane, folder, version }: MemberOptions): Promise<Member> {
  const nodeName = memberName("kubelet", version);
  const stateDir = join(folder, nodeName);
  return await createMember(nodeName, version, stateDir, (endpoint) =>
    startReferenceKubelet({ controlPlane: plane, nodeName, endpoint, stateDir, configuration }),
  );
}

const memberName = (program: string, version: ContainerdVersion) => `${program}-${version.replace(".", "-")}`;

/** Nobody listens there, and no pod asks. Without an address both would tell an event of each pod, which costs both. */
const configuration = { clusterDNS: ["10.191.0.10"], clusterDomain: "cluster.local" };

async function createMember(
  nodeName: string,
  version: ContainerdVersion,
  stateDir: string,
  launch: (endpoint: string) => Promise<Process>,
): Promise<Member> {
  const runtime = await startMeasuredRuntime(version, stateDir);
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
      current = await launch(runtime.containerd.endpoint);
      return current.startedAt;
    },
    stop,
    async end() {
      await stop();
      await runtime.stop();
    },
  };
}
