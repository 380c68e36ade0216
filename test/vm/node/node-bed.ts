import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { KubeClient } from "../../../kube/client.ts";
import { nodes, pods, runtimeClasses } from "../../../kube/resource.ts";
import type { Node, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { builtBinary } from "../../bed/agent.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { heavyClass } from "../../differential/cgroups/cgroup-cases.ts";
import { type CgroupTree, nameCgroups, parseCgroups, printCgroups } from "../../differential/cgroups/cgroup-tree.ts";
import { resizePatch } from "../../differential/cgroups/resize-cases.ts";
import { createApiClient } from "../../fakes/api-client.ts";
import { createAdminClient } from "../../upstream/admin-client.ts";
import { type ControlPlane, startControlPlane } from "../../upstream/control-plane.ts";
import { ensurePrograms } from "../../upstream/programs.ts";
import { bootNode, type GuestNode } from "./guest-node.ts";
import type { NodeOptions } from "./node-image.ts";
import { createRunFolder } from "./run-folder.ts";
import { type CgroupDriver, guestAddress, hostAddress, type NodeContainerd } from "./system-files.ts";

const minuteMs = 60_000;
/**
 * An emulated processor is about twenty times slower than the host's, which may be busy too, and some containers of the
 * tests may use a hundredth of it while they start.
 */
const STEP_TIMEOUT_MS = 20 * minuteMs;
/** Looking into the guest costs time on the emulated processor, looking at the API server does not. */
const POLL_MS = 500;
/**
 * With more pods that start or end at once, containerd's calls to its own shims run into their time limits of two seconds
 * on an emulated processor.
 */
const MAX_AT_ONCE = 3;

export const nodeName = "vm-node";
/** The namespace of the pods of the tests. */
export const namespace = "default";
/** The service account that reads the agents' pages. */
const administrator = "administrator";
const agentFiles = { configuration: "/etc/kubernetes/kubelet.yaml", kubeconfig: "/etc/kubernetes/kubelet.conf" };

/** The kubelet, and Berth in its place. */
export type NodeAgentName = "kubelet" | "berth";

export interface NodeBedOptions {
  readonly containerd: NodeContainerd;
  readonly driver: CgroupDriver;
  readonly agents: readonly NodeAgentName[];
  /** Files for tests that run in the guest, as `NodeOptions` has them. */
  readonly tests?: NodeOptions["tests"];
  readonly print: (line: string) => void;
}

/** A guest with systemd and containerd, and a control plane on the host that it can join. */
export interface NodeBed {
  readonly guest: GuestNode;
  readonly kube: KubeClient;
  /**
   * Starts an agent with the stock configuration of a node and the given fields, and returns the Node once it is Ready.
   */
  startAgent(agent: NodeAgentName, configuration?: Readonly<Record<string, unknown>>): Promise<Node>;
  /** The same, but returns once the agent's process runs. */
  launchAgent(agent: NodeAgentName, configuration?: Readonly<Record<string, unknown>>): Promise<void>;
  /** Ends an agent with a signal and returns once it has ended. Its pods keep running. */
  stopAgent(agent: NodeAgentName, signal?: "SIGTERM" | "SIGKILL"): Promise<void>;
  /**
   * Creates pods on the node, three at a time, and returns them as the API server has them once all are as `until` says, which it looks at
   * every `everyMs`. Throws with the status of those that are not after twenty minutes.
   */
  createPods(created: readonly Pod[], until: (pod: Pod) => boolean, everyMs?: number): Promise<readonly Pod[]>;
  /** Patches the subresource `resize` of a pod. */
  resizePod(name: string, patch: Readonly<Record<string, unknown>>): Promise<void>;
  /**
   * Creates pods, resizes those that have a resize once all are Ready, and returns all as the API server has them once
   * no resize is under way.
   */
  runPods(created: readonly Pod[]): Promise<readonly Pod[]>;
  /** The pods of the API server, by name. */
  listPods(): Promise<ReadonlyMap<string, Pod>>;
  /** Deletes all pods, three at a time, and returns once the API server has none. */
  deletePods(): Promise<void>;
  /** The settings of all cgroups below kubepods, by the names of pods and containers. */
  readCgroups(): Promise<CgroupTree>;
  /** A page of the API of the agent that runs, as an administrator gets it. Throws with any status but 200. */
  readPage(path: string): Promise<string>;
  /** The end of the log of an agent. */
  agentLog(agent: NodeAgentName): Promise<string>;
  /** Stops everything and removes all files. */
  end(): Promise<void>;
}

/** Whether the pod is Ready, which a pod without probes is when all of its containers run. */
export const isReady = ({ status }: Pod) =>
  status?.conditions?.some(({ type, status: is }) => type === "Ready" && is === "True") ?? false;

/** Whether the agent has carried out the last change of the pod, and its containers run. */
const isResized = (pod: Pod) =>
  isReady(pod) &&
  pod.status?.observedGeneration === pod.metadata.generation &&
  !pod.status?.conditions?.some(({ type }) => type.startsWith("PodResize"));

/** Starts a control plane and a guest. No agent runs yet. */
export async function startNodeBed({
  containerd,
  driver,
  agents,
  tests = {},
  print,
}: NodeBedOptions): Promise<NodeBed> {
  const programs = await ensurePrograms(undefined, print);
  const folder = await createRunFolder("berth-vm-plane-");
  const plane = await startControlPlane({ stateDir: folder.path, print, components: ["kube-controller-manager"] });
  const kube = createAdminClient(plane, "vm");
  const endPlane = async () => {
    kube.close();
    await plane.stop();
    await folder.remove();
  };
  try {
    await kube.create(runtimeClasses, heavyClass);
    await plane.kubectl(["create", "serviceaccount", administrator]);
    const account = `--serviceaccount=${namespace}:${administrator}`;
    await plane.kubectl(["create", "clusterrolebinding", administrator, "--clusterrole=cluster-admin", account]);
    const paths = { kubelet: join(programs, "kubelet"), berth: builtBinary };
    const services = agents.map((agent) => [agent, { program: paths[agent], args: agentArgs(agent) }] as const);
    const node = { hostName: nodeName, containerd, driver, agents: Object.fromEntries(services), tests };
    const guest = await bootNode(node, print);
    const kubeconfig = await plane.nodeKubeconfig(nodeName, plane.server.replace("127.0.0.1", hostAddress));
    await writeGuestFile(guest, agentFiles.kubeconfig, await readFile(kubeconfig, "utf8"));
    return createBed({ guest, kube, kubectl: plane.kubectl, containerd, driver, print, endPlane });
  } catch (error) {
    await endPlane();
    throw error;
  }
}

const agentArgs = (agent: NodeAgentName): readonly string[] => [
  ...(agent === "berth" ? ["run"] : []),
  `--config=${agentFiles.configuration}`,
  `--kubeconfig=${agentFiles.kubeconfig}`,
  `--hostname-override=${nodeName}`,
  `--node-ip=${guestAddress}`,
];

const PROGRESS_MS = 30_000;

/** Prints how many pods are as they should be, at most every half minute. */
function createProgress(print: (line: string) => void): (done: number, all: number) => void {
  let printed = performance.now();
  return (done, all) => {
    if (performance.now() - printed < PROGRESS_MS) return;
    printed = performance.now();
    print(`${done} of ${all} pods`);
  };
}

interface BedParts {
  readonly guest: GuestNode;
  readonly kube: KubeClient;
  readonly kubectl: ControlPlane["kubectl"];
  readonly containerd: NodeContainerd;
  readonly driver: CgroupDriver;
  readonly print: (line: string) => void;
  endPlane(): Promise<void>;
}

function createBed({ guest, kube, kubectl, containerd, driver, print, endPlane }: BedParts): NodeBed {
  const listPods = async () => {
    const { items } = await kube.list(pods(namespace), {});
    return new Map(items.map((pod) => [pod.metadata.name ?? "", pod]));
  };
  const awaitPods = createPodWait(listPods, print);
  const createPods: NodeBed["createPods"] = async (created, until, everyMs = POLL_MS) => {
    for (const [index, pod] of created.entries()) {
      await kube.create(pods(namespace), { ...pod, spec: { ...pod.spec, nodeName } });
      await awaitPods(created.slice(0, index + 1), until, { everyMs, missing: MAX_AT_ONCE - 1 });
    }
    return await awaitPods(created, until, { everyMs, missing: 0 });
  };
  const resizePod: NodeBed["resizePod"] = async (name, patch) => {
    await kubectl(["patch", "pod", name, "--subresource=resize", `--patch=${JSON.stringify(patch)}`]);
  };
  const launchAgent: NodeBed["launchAgent"] = async (agent, configuration = {}) => {
    // What is not a default: the driver, which kubeadm sets, where containerd does not tell it, and the time that a start
    // may take.
    const stock = {
      apiVersion: "kubelet.config.k8s.io/v1beta1",
      kind: "KubeletConfiguration",
      ...(containerd === "1.7" && { cgroupDriver: driver }),
      runtimeRequestTimeout: "15m",
    };
    await writeGuestFile(guest, agentFiles.configuration, JSON.stringify({ ...stock, ...configuration }));
    await guest.run(`systemctl reset-failed ${agent} 2> /dev/null || true; systemctl start ${agent}`);
  };
  return {
    guest,
    kube,
    listPods,
    createPods,
    resizePod,
    async runPods(created) {
      await createPods(created, isReady);
      for (const { metadata } of created) {
        const patch = resizePatch(metadata.name ?? "");
        if (patch !== undefined) await resizePod(metadata.name ?? "", patch);
      }
      return await awaitPods(created, isResized, { everyMs: POLL_MS, missing: 0 });
    },
    launchAgent,
    async startAgent(agent, configuration) {
      await launchAgent(agent, configuration);
      return await pollUntil("the node to be Ready", STEP_TIMEOUT_MS, () => readyNode(kube), POLL_MS).catch(
        async (cause: Error) => {
          throw new Error(`${cause.message}; the end of its log:\n${await logOf(guest, agent)}`, { cause });
        },
      );
    },
    async stopAgent(agent, signal = "SIGTERM") {
      await guest.run(`systemctl kill --signal=${signal} ${agent}
until test "$(systemctl show --property=MainPID --value ${agent})" = 0; do sleep 0.2; done`);
    },
    async deletePods() {
      const names = [...(await listPods()).keys()];
      const untilLeft = (count: number) =>
        pollUntil("deleted pods to be gone", STEP_TIMEOUT_MS, async () => (await listPods()).size <= count, POLL_MS);
      for (const [index, name] of names.entries()) {
        await kube.delete(pods(namespace), name);
        await untilLeft(names.length - (index + 1) + MAX_AT_ONCE - 1);
      }
      await untilLeft(0);
    },
    async readCgroups() {
      const known = [...(await listPods()).values()];
      return nameCgroups(parseCgroups(await guest.run(printCgroups)), known);
    },
    async readPage(path) {
      const token = (await kubectl(["create", "token", administrator])).trim();
      const client = createApiClient({ port: guest.agentPort, ca: undefined, token });
      const { status, text } = await client.request("GET", path);
      if (status !== 200) throw new Error(`${path} has the status ${status}: ${text.slice(0, 500)}`);
      return text;
    },
    agentLog: (agent) => logOf(guest, agent),
    async end() {
      await guest.end();
      await endPlane();
    },
  };
}

/**
 * A function that returns these pods once all but `missing` are as `until` says. Its error has the status of those that
 * are not.
 */
function createPodWait(listPods: NodeBed["listPods"], print: (line: string) => void) {
  return async (
    awaited: readonly Pod[],
    until: (pod: Pod) => boolean,
    { everyMs, missing: allowed }: { readonly everyMs: number; readonly missing: number },
  ): Promise<readonly Pod[]> => {
    const names = awaited.map(({ metadata }) => metadata.name ?? "");
    let missing: readonly string[] = names;
    const reportProgress = createProgress(print);
    return await pollUntil(
      "the pods to run",
      STEP_TIMEOUT_MS,
      async () => {
        const found = await listPods();
        const isMissing = (name: string) => {
          const pod = found.get(name);
          return pod === undefined || !until(pod);
        };
        missing = names.filter(isMissing);
        reportProgress(names.length - missing.length, names.length);
        return missing.length <= allowed && names.flatMap((name) => found.get(name) ?? []);
      },
      everyMs,
    ).catch(async (cause: Error) => {
      const found = await listPods();
      const states = missing.map((name) => `${name}: ${JSON.stringify(found.get(name)?.status)}`);
      throw new Error(`${cause.message}: ${states.join("\n")}`, { cause });
    });
  };
}

async function readyNode(kube: KubeClient): Promise<Node | undefined> {
  // The node does not exist at first; the time limit reports any other failure.
  const node = await kube.get(nodes, nodeName).catch(() => undefined);
  const isTrue = node?.status?.conditions?.some(({ type, status }) => type === "Ready" && status === "True");
  return isTrue === true ? node : undefined;
}

/** Writes a file of the guest and makes its folder. No text may contain the line that ends it. */
async function writeGuestFile(guest: GuestNode, path: string, text: string): Promise<void> {
  await guest.run(`mkdir -p "$(dirname ${path})"\ncat > ${path} <<'END_OF_FILE'\n${text}\nEND_OF_FILE\n`);
}

const logOf = (guest: GuestNode, agent: NodeAgentName) =>
  guest.run(`journalctl --no-pager --output=cat --lines=60 --unit=${agent}`);
