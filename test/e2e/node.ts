import { chmod, mkdir, mkdtemp, readdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { PodListing, PodSummary } from "../../agent/serve/local/pod-list.ts";
import {
  type Container,
  ListContainersRequest,
  ListContainersResponse,
  ListPodSandboxRequest,
  ListPodSandboxResponse,
  type PodSandbox,
} from "../../proto/cri/gen/api.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { type Agent, aloneName, builtBinary, type JoinedCluster, startAgent } from "../bed/agent.ts";
import { buildIfStale } from "../bed/build.ts";
import { bedPaths } from "../bed/cleanup/bed-record.ts";
import { type Containerd, type ContainerdVersion, startContainerd } from "../bed/containerd/containerd.ts";
import { callCri } from "../bed/containerd/cri-call.ts";
import { importImages } from "../bed/images/images.ts";
import { until } from "../bed/poll-until.ts";

export interface NodeOptions {
  readonly version?: ContainerdVersion;
  /** The OCI runtime; Debian 12's runc if not given. */
  readonly runc?: string;
  /** Fields of KubeletConfiguration. */
  readonly configuration?: Readonly<Record<string, unknown>>;
  /** The cluster that each agent of this node joins; it stands alone if not given. */
  readonly cluster?: JoinedCluster;
}

/** One node of a test: a private containerd with the test images, and the compiled agent on it. */
export interface Node {
  /** What it is called, by its cluster and in the names of its static pods. */
  readonly name: string;
  readonly containerd: Containerd;
  readonly folder: string;
  readonly paths: ReturnType<typeof bedPaths>;
  /** The agent that was started last. */
  readonly agent: Agent;
  /** Starts an agent and returns once it answers. The one before must have ended. */
  startAgent(configuration?: Readonly<Record<string, unknown>>, flags?: readonly string[]): Promise<void>;
  /** The same without waiting for its answer. */
  launchAgent(configuration?: Readonly<Record<string, unknown>>, flags?: readonly string[]): Promise<void>;
  /** Writes `<name>.yaml` into the folder of manifests, whole at once. */
  put(pod: Pod): Promise<void>;
  /** The same for any text or bytes and any file name. */
  putFile(fileName: string, content: string | Uint8Array): Promise<void>;
  removeFile(fileName: string): Promise<void>;
  /** What the agent shows; rejects while none answers. */
  pods(): Promise<readonly PodSummary[]>;
  /** Tells of each change of the pods from now on, as `berth pods --watch` does; the function it returns ends that. */
  watch(changed: (pods: readonly PodSummary[]) => void): Promise<() => void>;
  /** Waits until the pod of the manifest `name` is shown as `condition` wants it, and returns it. */
  pod(name: string, what: string, condition: (pod: PodSummary) => boolean, timeoutMs?: number): Promise<PodSummary>;
  /** Waits until all these pods run with all containers ready. */
  running(...names: readonly string[]): Promise<readonly PodSummary[]>;
  /** Waits until no pod is shown, and nothing of any is left: no container, no sandbox, no folder, log or record. */
  empty(timeoutMs?: number): Promise<void>;
  /** Everything the agents of this node have logged. */
  log(): Promise<string>;
  /** Waits for a line of the log that has all these words, and returns it. */
  logged(...words: readonly string[]): Promise<string>;
  sandboxes(): Promise<readonly PodSandbox[]>;
  containers(): Promise<readonly Container[]>;
  /** Ends agent, pods and runtime, and removes all files. */
  end(): Promise<void>;
}

const PATIENCE_MS = 30_000;

/** Starts a node without pods. */
export async function startNode({ configuration, ...options }: NodeOptions = {}): Promise<Node> {
  const node = await startNodeWithoutAgent(options);
  try {
    await node.startAgent(configuration);
    return node;
  } catch (error) {
    await node.end();
    throw error;
  }
}

/** The same before its first agent. */
export async function startNodeWithoutAgent(options: Omit<NodeOptions, "configuration"> = {}): Promise<Node> {
  const { version, runc, cluster } = options;
  await buildIfStale();
  const folder = await mkdtemp(join(tmpdir(), "berth-e2e-"));
  // As a runtime's own folders are: users of a pod's own may pass through, and see nothing on the way.
  await chmod(folder, 0o711);
  const containerd = await startContainerd({ stateDir: folder, ...(version && { version }), ...(runc && { runc }) });
  try {
    await importImages(containerd);
    await mkdir(bedPaths(folder).manifests);
  } catch (error) {
    await containerd.stop();
    throw error;
  }
  return createNode(folder, containerd, cluster);
}

function createNode(folder: string, containerd: Containerd, cluster: JoinedCluster | undefined): Node {
  const paths = bedPaths(folder);
  const { endpoint } = containerd;
  let agent: Agent | undefined;
  const name = cluster?.nodeName ?? aloneName;
  const node: Node = {
    name,
    containerd,
    folder,
    paths,
    get agent() {
      if (agent === undefined) throw new Error("no agent was started on this node");
      return agent;
    },
    async launchAgent(own = {}, flags = []) {
      // Nobody listens there; without it the agent would warn of each pod.
      const dns = { clusterDNS: ["10.191.0.10"], clusterDomain: "cluster.local" };
      const configuration = { ...(cluster && dns), ...own };
      const options = { binary: builtBinary, stateDir: folder, endpoint, configuration, flags };
      agent = await startAgent({ ...options, ...(cluster && { cluster }) });
    },
    async startAgent(configuration, flags) {
      await node.launchAgent(configuration, flags);
      await until("the agent to answer", PATIENCE_MS, async () => {
        if (!node.agent.isRunning) throw new Error(`the agent has ended:\n${await node.log()}`);
        return await node.pods().then(
          () => true,
          () => false,
        );
      });
    },
    put: (pod) => node.putFile(`${pod.metadata.name}.yaml`, JSON.stringify(pod, null, 2)),
    async putFile(fileName, content) {
      // A name that begins with a dot is no manifest.
      const unseen = join(paths.manifests, `.${fileName}`);
      await writeFile(unseen, content);
      await rename(unseen, join(paths.manifests, fileName));
    },
    removeFile: (fileName) => rm(join(paths.manifests, fileName)),
    pods: () => listPods(paths.agentRoot),
    watch: (changed) => watchPods(paths.agentRoot, changed),
    pod: (name, what, condition, timeoutMs = PATIENCE_MS) => awaitPod(node, name, what, condition, timeoutMs),
    running: (...names) => Promise.all(names.map((name) => node.pod(name, "it runs", isReady))),
    empty: (timeoutMs = PATIENCE_MS) => awaitEmpty(node, timeoutMs),
    log: () => readFile(paths.agentLog, "utf8"),
    logged: (...words) =>
      until(`a line in the log with ${words.join(" and ")}`, PATIENCE_MS, async () =>
        linesWith(await node.log(), ...words).at(0),
      ),
    sandboxes: async () =>
      (
        await callCri(
          endpoint,
          "RuntimeService/ListPodSandbox",
          [ListPodSandboxRequest, ListPodSandboxRequest.fromPartial({})],
          ListPodSandboxResponse,
        )
      ).items,
    containers: async () =>
      (
        await callCri(
          endpoint,
          "RuntimeService/ListContainers",
          [ListContainersRequest, ListContainersRequest.fromPartial({})],
          ListContainersResponse,
        )
      ).containers,
    async end() {
      await agent?.stop();
      await containerd.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
  return node;
}

/** All containers run. */
export const isReady = ({ phase, ready }: PodSummary) =>
  phase === "Running" && ready.split("/")[0] === ready.split("/")[1];

/** Waits until the first instance of a container has printed this. */
export async function hasPrinted(node: Node, pod: PodSummary, words: string, container = "main"): Promise<void> {
  const file = join(node.paths.podLogs, `${pod.namespace}_${pod.name}_${pod.uid}`, container, "0.log");
  await until(`${pod.name} to print ${words}`, PATIENCE_MS, async () =>
    (await readFile(file, "utf8").catch(() => "")).includes(words),
  );
}

/** The id of the instance that the pod's container `name` has now. */
export function containerId({ status }: PodSummary, name = "main"): string {
  const own = status.containerStatuses?.find((each) => each.name === name);
  return own?.containerID?.replace(/^containerd:\/\//, "") ?? "";
}

/** The lines of a log that have all these words. */
export function linesWith(log: string, ...words: readonly string[]): readonly string[] {
  return log.split("\n").filter((line) => words.every((word) => line.includes(word)));
}

/** Asks over the socket that `berth pods` uses; many times a second that is cheaper than the command. */
async function listPods(agentRoot: string): Promise<readonly PodSummary[]> {
  const answer = await fetch("http://berth/pods", { unix: join(agentRoot, "berth.sock") });
  return ((await answer.json()) as PodListing).pods;
}

async function watchPods(agentRoot: string, changed: (pods: readonly PodSummary[]) => void): Promise<() => void> {
  const stop = new AbortController();
  const answer = await fetch("http://berth/pods?watch", { unix: join(agentRoot, "berth.sock"), signal: stop.signal });
  const lines = answer.body!.pipeThrough(new TextDecoderStream()).pipeThrough(lineSplitter());
  void (async () => {
    for await (const line of lines) changed((JSON.parse(line) as PodListing).pods);
  })().catch(() => undefined);
  return () => stop.abort();
}

function lineSplitter(): TransformStream<string, string> {
  let rest = "";
  return new TransformStream({
    transform(chunk, controller) {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) controller.enqueue(line);
    },
  });
}

async function awaitPod(
  node: Node,
  name: string,
  what: string,
  condition: (pod: PodSummary) => boolean,
  timeoutMs: number,
): Promise<PodSummary> {
  let last: PodSummary | undefined;
  try {
    return await until(`pod ${name}: ${what}`, timeoutMs, async () => {
      const pods = await node.pods().catch(() => []);
      last = pods.find((pod) => pod.name === `${name}-${node.name}`) ?? last;
      return pods.find((pod) => pod === last && condition(pod));
    });
  } catch (cause) {
    const seen = last === undefined ? "it was never shown" : `last seen: ${JSON.stringify(last.status, null, 1)}`;
    throw new Error(`pod ${name} was expected so: ${what}; ${seen}\n${(await node.log()).slice(-4000)}`, { cause });
  }
}

async function awaitEmpty(node: Node, timeoutMs: number): Promise<void> {
  let left: readonly string[] = [];
  try {
    await until("an empty node", timeoutMs, async () => {
      left = await whatIsLeft(node);
      return left.length === 0;
    });
  } catch (cause) {
    const ids = left.flatMap((line) => /[0-9a-f]{64}/.exec(line)?.[0] ?? []);
    const runtimeLog = await readFile(node.containerd.logFile, "utf8");
    const story = ids.flatMap((id) => linesWith(runtimeLog, id)).join("\n");
    const log = (await node.log()).slice(-4000);
    throw new Error(`left on the node: ${left.join("\n")}\ncontainerd: ${story}\n${log}`, { cause });
  }
}

/** All that a pod can leave on its node as far as CRI and the disk show it, in words. */
async function whatIsLeft(node: Node): Promise<readonly string[]> {
  const { agentRoot, podLogs } = node.paths;
  const folders = [join(agentRoot, "pods"), join(agentRoot, "berth", "pods"), podLogs];
  const [pods, sandboxes, containers, ...files] = await Promise.all([
    node.pods(),
    node.sandboxes(),
    node.containers(),
    // Before the first pod some of them are not there.
    ...folders.map(async (folder) => (await readdir(folder).catch(() => [])).map((name) => join(folder, name))),
  ]);
  return [
    ...pods.map(({ name, phase, reason }) => `pod ${name} ${phase} ${reason}`),
    ...sandboxes.map(({ id, metadata, state }) => `sandbox ${id} of ${metadata?.name} in state ${state}`),
    ...containers.map(({ id, metadata, state }) => `container ${id}, ${metadata?.name}, in state ${state}`),
    ...files.flat(),
  ];
}
