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
import { podNameLabel } from "../../proto/kubernetes/well-known-names.ts";
import { type Agent, builtBinary, type JoinedCluster, standaloneNodeName, startAgent } from "../bed/agent.ts";
import { buildIfStale } from "../bed/build.ts";
import { bedPaths } from "../bed/cleanup/bed-record.ts";
import { type Containerd, type ContainerdVersion, startContainerd } from "../bed/containerd/containerd.ts";
import { callCri } from "../bed/containerd/cri-call.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import { importImages } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";

export interface TestNodeOptions {
  readonly version?: ContainerdVersion;
  /** The path of the OCI runtime; by default runc of Debian 12. */
  readonly runc?: string;
  /** `HOST:PORT` of the OpenTelemetry collector that containerd sends its traces to. From 2.0 on. */
  readonly traceCollector?: string;
  /** Fields of KubeletConfiguration. */
  readonly configuration?: Readonly<Record<string, unknown>>;
  /** The cluster that each agent of this node joins; none by default. */
  readonly cluster?: JoinedCluster;
  /** The program of the first agent; the one of this tree if not given. */
  readonly binary?: string;
  /** `builtin`: the agent executes the built-in network. By default the runtime executes a chain of plugins. */
  readonly network?: "builtin" | undefined;
}

/** A node for a test: a private containerd with the test images, and the compiled agent on it. */
export interface TestNode {
  /** The node name, also the suffix of its static pods' names. */
  readonly name: string;
  readonly containerd: Containerd;
  readonly folder: string;
  readonly paths: ReturnType<typeof bedPaths>;
  /** The agent that was started last. */
  readonly agent: Agent;
  /** Starts an agent and returns once it answers. The one before must have ended. */
  startAgent(
    configuration?: Readonly<Record<string, unknown>>,
    flags?: readonly string[],
    binary?: string,
  ): Promise<void>;
  /** Starts an agent and returns at once. */
  launchAgent(
    configuration?: Readonly<Record<string, unknown>>,
    flags?: readonly string[],
    binary?: string,
  ): Promise<void>;
  /** Writes `<name>.yaml` into the manifest folder, atomically. */
  putManifest(pod: Pod): Promise<void>;
  /** Writes any content under any file name into the manifest folder, atomically. */
  putFile(fileName: string, content: string | Uint8Array): Promise<void>;
  removeFile(fileName: string): Promise<void>;
  /** The agent's pods; rejects while no agent answers. */
  pods(): Promise<readonly PodSummary[]>;
  /**
   * Calls `changed` after each change of the pods, as `berth pods --watch` prints them. Returns a function that stops
   * it.
   */
  watch(changed: (pods: readonly PodSummary[]) => void): Promise<() => void>;
  /**
   * Waits until the pod of the manifest `name` meets `condition`, and returns it. `what` describes the condition in
   * errors.
   */
  waitForPod(
    name: string,
    what: string,
    condition: (waitForPod: PodSummary) => boolean,
    timeoutMs?: number,
  ): Promise<PodSummary>;
  /** Waits until all these pods are Running with all containers ready. */
  waitUntilRunning(...names: readonly string[]): Promise<readonly PodSummary[]>;
  /**
   * Waits until all these pods are Running with all containers ready, and each container has printed `up`. From then on SIGTERM
   * finds the trap of its command.
   */
  waitUntilUp(...names: readonly string[]): Promise<readonly PodSummary[]>;
  /** Waits until the agent does not list the pod of the manifest `name` any more. */
  waitUntilGone(name: string): Promise<void>;
  /** Waits until the agent lists no pod, and no container, sandbox, folder, log or checkpoint is left. */
  waitUntilEmpty(timeoutMs?: number): Promise<void>;
  /** The log of all agents of this node. */
  log(): Promise<string>;
  /** Waits for a log line that contains all these texts, and returns it. */
  waitForLogLine(...words: readonly string[]): Promise<string>;
  sandboxes(): Promise<readonly PodSandbox[]>;
  containers(): Promise<readonly Container[]>;
  /**
   * When the runtime created the instance `attempt` of a pod's container `main`, in milliseconds since the epoch; it starts it
   * later. Rejects if the runtime no longer has it.
   */
  createdAt(name: string, attempt: number): Promise<number>;
  /** Stops agent, pods and runtime, and removes all files. */
  tearDown(): Promise<void>;
}

const TIMEOUT_MS = 60_000;
/** The lists of a node with forty containers take some milliseconds of the runtime, which ends these containers meanwhile. */
const REMAINS_POLL_MS = 50;

/** Starts a node with a running agent and without pods. */
export async function startNode({ configuration, binary, ...options }: TestNodeOptions = {}): Promise<TestNode> {
  const node = await startNodeWithoutAgent(options);
  try {
    await node.startAgent(configuration, [], binary);
    return node;
  } catch (error) {
    await node.tearDown();
    throw error;
  }
}

/** Starts a node without an agent. */
export async function startNodeWithoutAgent(
  options: Omit<TestNodeOptions, "configuration" | "binary"> = {},
): Promise<TestNode> {
  const { version, runc, traceCollector, cluster, network } = options;
  await buildIfStale();
  const folder = await mkdtemp(join(tmpdir(), "berth-e2e-"));
  // Like a runtime's own folders: users of a user namespace may traverse it and cannot list it.
  await chmod(folder, 0o711);
  const containerd = await startContainerd({
    ...{ stateDir: folder, ...(version && { version }), ...(runc && { runc }) },
    ...(traceCollector && { traceCollector }),
    ...(network && { network }),
  });
  try {
    await importImages(containerd);
    await mkdir(bedPaths(folder).manifests);
  } catch (error) {
    await containerd.stop();
    throw error;
  }
  return createTestNode(folder, containerd, { cluster, network });
}

function createTestNode(
  folder: string,
  containerd: Containerd,
  { cluster, network }: Pick<TestNodeOptions, "network"> & { readonly cluster: JoinedCluster | undefined },
): TestNode {
  const paths = bedPaths(folder);
  const { endpoint } = containerd;
  let agent: Agent | undefined;
  const name = cluster?.nodeName ?? standaloneNodeName;
  const node: TestNode = {
    name,
    containerd,
    folder,
    paths,
    get agent() {
      if (agent === undefined) throw new Error("no agent was started on this node");
      return agent;
    },
    async launchAgent(own = {}, flags = [], binary = builtBinary) {
      // No DNS server listens there; without this setting the agent would warn about each pod.
      const dns = { clusterDNS: ["10.191.0.10"], clusterDomain: "cluster.local" };
      const configuration = { ...(cluster && dns), ...own };
      const ofNetwork = network === undefined ? [] : ["--network-delegate-dir", paths.cniDelegateDir];
      const options = { binary, stateDir: folder, endpoint, configuration, flags: [...ofNetwork, ...flags] };
      agent = await startAgent({ ...options, ...(cluster && { cluster }) });
    },
    async startAgent(configuration, flags, binary) {
      await node.launchAgent(configuration, flags, binary);
      await pollUntil("the agent to answer", TIMEOUT_MS, async () => {
        if (!node.agent.isRunning) throw new Error(`the agent has ended:\n${await node.log()}`);
        return await node.pods().then(
          () => true,
          () => false,
        );
      });
    },
    putManifest: (pod) => node.putFile(`${pod.metadata.name}.yaml`, JSON.stringify(pod, null, 2)),
    async putFile(fileName, content) {
      // The agent ignores names that begin with a dot.
      const hiddenPath = join(paths.manifests, `.${fileName}`);
      await writeFile(hiddenPath, content);
      await rename(hiddenPath, join(paths.manifests, fileName));
    },
    removeFile: (fileName) => rm(join(paths.manifests, fileName)),
    pods: () => listPods(paths.agentRoot),
    watch: (changed) => watchPods(paths.agentRoot, changed),
    waitForPod: (name, what, condition, timeoutMs = TIMEOUT_MS) => pollForPod(node, name, what, condition, timeoutMs),
    waitUntilRunning: (...names) => Promise.all(names.map((name) => node.waitForPod(name, "it runs", isReady))),
    async waitUntilUp(...names) {
      const pods = await node.waitUntilRunning(...names);
      const containers = pods.flatMap((pod) => pod.status.containerStatuses?.map(({ name }) => ({ pod, name })) ?? []);
      await Promise.all(containers.map(({ pod, name }) => waitForOutput(node, pod, "up", name)));
      return pods;
    },
    waitUntilGone: (name) => pollUntilGone(node, name),
    waitUntilEmpty: (timeoutMs = TIMEOUT_MS) => pollUntilEmpty(node, timeoutMs),
    log: () => readFile(paths.agentLog, "utf8"),
    waitForLogLine: (...words) =>
      pollUntil(`a line in the log with ${words.join(" and ")}`, TIMEOUT_MS, async () =>
        linesContaining(await node.log(), ...words).at(0),
      ).catch(rethrowWithLog(node)),
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
    async createdAt(name, attempt) {
      const instance = (await node.containers()).find(
        ({ labels, metadata }) => labels[podNameLabel] === `${name}-berth` && metadata?.attempt === attempt,
      );
      if (instance === undefined) throw new Error(`${name}-berth has no instance ${attempt} of its container`);
      return Number(instance.createdAt / 1_000_000n);
    },
    async tearDown() {
      await agent?.stop();
      await containerd.stop();
      await rm(folder, { recursive: true, force: true });
    },
  };
  return node;
}

/** True if the pod is Running and all its containers are ready. */
export const isReady = ({ phase, ready }: PodSummary) =>
  phase === "Running" && ready.split("/")[0] === ready.split("/")[1];

/** Waits until the first instance of a container has printed `words`. */
export async function waitForOutput(node: TestNode, pod: PodSummary, words: string, container = "main"): Promise<void> {
  const file = join(node.paths.podLogs, `${pod.namespace}_${pod.name}_${pod.uid}`, container, "0.log");
  await pollUntil(`${pod.name} to print ${words}`, TIMEOUT_MS, async () =>
    (await readFile(file, "utf8").catch(ifAbsent(""))).includes(words),
  );
}

/** The id of the current instance of the pod's container `name`. */
export function containerId({ status }: PodSummary, name = "main"): string {
  const own = status.containerStatuses?.find((each) => each.name === name);
  return own?.containerID?.replace(/^containerd:\/\//, "") ?? "";
}

/** The lines of a log that contain all these texts. */
export function linesContaining(log: string, ...words: readonly string[]): readonly string[] {
  return log.split("\n").filter((line) => words.every((word) => line.includes(word)));
}

/** Requests the pods over the socket of `berth pods`, which is cheaper than the command when polling. */
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
    // The stream breaks when its agent ends; the caller watches the next agent.
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

async function pollForPod(
  node: TestNode,
  name: string,
  what: string,
  condition: (pod: PodSummary) => boolean,
  timeoutMs: number,
): Promise<PodSummary> {
  let last: PodSummary | undefined;
  try {
    return await pollUntil(`pod ${name}: ${what}`, timeoutMs, async () => {
      // The agent may be restarting; the timeout reports a failure that lasts.
      const pods = await node.pods().catch(() => []);
      last = pods.find((pod) => pod.name === `${name}-${node.name}`) ?? last;
      return pods.find((pod) => pod === last && condition(pod));
    });
  } catch (cause) {
    const seen =
      last === undefined ? "the agent never listed it" : `last seen: ${JSON.stringify(last.status, null, 1)}`;
    throw new Error(`pod ${name} did not meet: ${what}; ${seen}\n${(await node.log()).slice(-4000)}`, { cause });
  }
}

async function pollUntilGone(node: TestNode, name: string): Promise<void> {
  await pollUntil(
    `pod ${name} to be gone`,
    TIMEOUT_MS,
    async () => !(await node.pods()).some((pod) => pod.name === `${name}-${node.name}`),
  ).catch(rethrowWithLog(node));
}

/** Adds the last lines of the agent's log, and of the runtime's. */
function rethrowWithLog(node: TestNode): (cause: Error) => Promise<never> {
  return async (cause) => {
    const runtimeLog = await readFile(node.containerd.logFile, "utf8");
    const end = (log: string) => log.slice(-4000);
    throw new Error(
      `${cause.message}
${end(await node.log())}
containerd: ${end(runtimeLog)}`,
      { cause },
    );
  };
}

async function pollUntilEmpty(node: TestNode, timeoutMs: number): Promise<void> {
  let left: readonly string[] = [];
  try {
    const isEmpty = async () => {
      left = await describeRemains(node);
      return left.length === 0;
    };
    await pollUntil("an empty node", timeoutMs, isEmpty, REMAINS_POLL_MS);
  } catch (cause) {
    const ids = left.flatMap((line) => /[0-9a-f]{64}/.exec(line)?.[0] ?? []);
    const runtimeLog = await readFile(node.containerd.logFile, "utf8");
    const runtimeLines = ids.flatMap((id) => linesContaining(runtimeLog, id)).join("\n");
    const log = (await node.log()).slice(-4000);
    throw new Error(`left on the node: ${left.join("\n")}\ncontainerd: ${runtimeLines}\n${log}`, { cause });
  }
}

/** Describes everything that pods have left in the runtime and on the disk. */
async function describeRemains(node: TestNode): Promise<readonly string[]> {
  const { agentRoot, podLogs } = node.paths;
  const folders = [join(agentRoot, "pods"), join(agentRoot, "berth", "pods"), podLogs];
  const [pods, sandboxes, containers, ...files] = await Promise.all([
    node.pods(),
    node.sandboxes(),
    node.containers(),
    // Some of the folders do not exist before the first pod.
    ...folders.map(async (folder) => (await readdir(folder).catch(ifAbsent([]))).map((name) => join(folder, name))),
  ]);
  return [
    ...pods.map(({ name, phase, reason }) => `pod ${name} ${phase} ${reason}`),
    ...sandboxes.map(({ id, metadata, state }) => `sandbox ${id} of ${metadata?.name} in state ${state}`),
    ...containers.map(({ id, metadata, state }) => `container ${id}, ${metadata?.name}, in state ${state}`),
    ...files.flat(),
  ];
}
