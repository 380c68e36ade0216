// The floor of the benchmark: only the CRI calls that every agent needs to start and remove a pod. Runs as a process of
// its own and receives its orders over the IPC channel.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { containerHash } from "../../../agent/decide/container/container-hash.ts";
import { qosClassOf } from "../../../agent/decide/status/qos.ts";
import { readPodManifest } from "../../../agent/desired/static/manifest.ts";
import { createObservedImages } from "../../../agent/observed/image-presence.ts";
import { containerConfig } from "../../../agent/translate/container-config.ts";
import { podLogDir } from "../../../agent/translate/log-path.ts";
import type { NodeFacts } from "../../../agent/translate/node-facts.ts";
import { sandboxConfig } from "../../../agent/translate/sandbox-config.ts";
import { kernelFeaturesOf } from "../../../agent/wiring/node-facts.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import { createClock } from "../../../host/clock.ts";
import { readMachine } from "../../../host/machine.ts";
import { readPageBytes } from "../../../host/page-size.ts";
import { createProc } from "../../../host/proc.ts";
import type { ContainerConfig, PodSandboxConfig } from "../../../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { benchPod, nodeName } from "../bench-pod.ts";
import { connectRuntime } from "../measured-runtime.ts";
import type { FloorOrder, FloorResponse } from "./raw-cri-floor.ts";

interface Messages {
  readonly name: string;
  readonly sandbox: PodSandboxConfig;
  readonly container: ContainerConfig;
}

interface StartedPod {
  readonly name: string;
  readonly sandboxId: SandboxId;
  readonly containerId: ContainerId;
}

const GRACE_SECONDS = 30;

const [endpoint = "", stateDir = ""] = process.argv.slice(2);
const runtime = await connectRuntime(endpoint);
const images = createObservedImages({ runtime, clock: createClock() });
const facts = createNodeFacts(stateDir);
const pods: StartedPod[] = [];

process.on("message", (order: FloorOrder) => {
  execute(order).then(
    (asked) => respond({ asked: [...asked] }),
    (error: unknown) => respond({ problem: String(error) }),
  );
});
process.on("disconnect", () => process.exit(0));

function respond(message: FloorResponse): void {
  process.send?.(message);
}

async function execute(order: FloorOrder): Promise<ReadonlyMap<string, number>> {
  switch (order.verb) {
    case "start": {
      const messages = await Promise.all(order.names.map((name) => messagesFor(name, order.hostNetwork)));
      return await runConcurrently(order.atOnce, messages, async (message) => {
        pods.push(await start(runtime, message));
      });
    }
    case "removeAll":
      return await runConcurrently(order.atOnce, pods.splice(0), (pod) => remove(runtime, pod, order.isForced));
  }
}

/** Runs `work` for all items, `atOnce` of them in parallel. Returns the common request time of each name. */
async function runConcurrently<T extends { readonly name: string }>(
  atOnce: number,
  items: readonly T[],
  work: (item: T) => Promise<void>,
): Promise<ReadonlyMap<string, number>> {
  const askedAt = Date.now();
  const rest = items.values();
  const worker = async () => {
    for (const item of rest) await work(item);
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return new Map(items.map(({ name }) => [name, askedAt]));
}

async function start(to: Runtime, { name, sandbox, container }: Messages): Promise<StartedPod> {
  const sandboxId = await to.runPodSandbox(sandbox, "");
  const containerId = await to.createContainer(sandboxId, container, sandbox);
  await to.startContainer(containerId);
  return { name, sandboxId, containerId };
}

async function remove(from: Runtime, { sandboxId, containerId }: StartedPod, isForced: boolean): Promise<void> {
  if (!isForced) await from.stopContainer(containerId, GRACE_SECONDS);
  await from.stopPodSandbox(sandboxId);
  await from.removePodSandbox(sandboxId);
}

/** The messages that the agent sends for the same manifest. They and their folders are made in advance. */
async function messagesFor(name: string, hostNetwork: boolean): Promise<Messages> {
  const path = join(bedPaths(stateDir).manifests, `${name}.json`);
  const { spec, ...rest } = benchPod(name);
  const manifest = JSON.stringify({ ...rest, spec: { ...spec, ...(hostNetwork && { hostNetwork }) } });
  const { pod, problem } = await readPodManifest(manifest, { path, nodeName });
  const [container] = pod?.spec.containers ?? [];
  if (pod === undefined || container === undefined) throw new Error(problem);
  const image = await images.presence(container.image ?? "");
  if (image.present !== true) throw new Error(`the image ${container.image} is missing`);
  await mkdir(join(facts.podLogsDir, podLogDir(pod)), { recursive: true });
  return {
    name: pod.metadata.name ?? "",
    sandbox: sandboxConfig(pod, { attempt: 0, crashes: 0 }, facts),
    container: containerConfig({
      pod,
      container,
      attempt: 0,
      crashes: 0,
      hash: containerHash(container),
      qosClass: qosClassOf(pod),
      podIPs: [],
      imageRef: image.ref,
      imageUser: image.user,
      files: new Map(),
      facts,
    }),
  };
}

function createNodeFacts(folder: string): NodeFacts {
  const { agentRoot, podLogs } = bedPaths(folder);
  const proc = createProc();
  const machine = readMachine();
  return {
    nodeName,
    hostIPs: [],
    memoryCapacityBytes: machine.memoryBytes,
    allocatable: new Map(),
    thermalThrottlePaths: proc.thermalThrottlePaths(),
    ...kernelFeaturesOf(machine),
    pageBytes: readPageBytes(),
    rootDir: agentRoot,
    podLogsDir: podLogs,
    clusterDNS: [],
    clusterDomain: "",
    hostResolvConf: { nameservers: [], searches: [], options: [] },
    cgroupsPerQOS: false,
    cpuCFSQuota: true,
    cpuCFSQuotaPeriodMs: 100,
    singleProcessOOMKill: false,
    swapBehavior: "",
    podPidsLimit: -1,
    seccompDefault: false,
    containerStopSignals: false,
  };
}
