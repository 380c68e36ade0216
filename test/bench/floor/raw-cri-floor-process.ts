// The floor: the calls that no agent can do without, and nothing else. Runs as a process of its own, told over its IPC
// channel what to start and remove.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { containerHash } from "../../../agent/decide/container/container-hash.ts";
import { qosClassOf } from "../../../agent/decide/status/qos.ts";
import { readPodManifest } from "../../../agent/desired/static/manifest.ts";
import { createObservedImages } from "../../../agent/observed/images.ts";
import { containerConfig } from "../../../agent/translate/container-config.ts";
import { podLogFolder } from "../../../agent/translate/log-path.ts";
import type { NodeFacts } from "../../../agent/translate/node-facts.ts";
import { sandboxConfig } from "../../../agent/translate/sandbox-config.ts";
import { kernelOf } from "../../../agent/wiring/node-facts.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import { createClock } from "../../../host/clock.ts";
import { readMachine } from "../../../host/machine.ts";
import { createProc } from "../../../host/proc.ts";
import type { ContainerConfig, PodSandboxConfig } from "../../../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../../../proto/ids.ts";
import { bedPaths } from "../../bed/cleanup/bed-record.ts";
import { benchPod, nodeName } from "../bench-pod.ts";
import { connectRuntime } from "../measured-runtime.ts";
import type { FloorAnswer, FloorOrder } from "./raw-cri-floor.ts";

interface Messages {
  readonly name: string;
  readonly sandbox: PodSandboxConfig;
  readonly container: ContainerConfig;
}

interface Started {
  readonly name: string;
  readonly sandboxId: SandboxId;
  readonly containerId: ContainerId;
}

const GRACE_SECONDS = 30;

const [endpoint = "", stateDir = ""] = process.argv.slice(2);
const runtime = connectRuntime(endpoint);
const images = createObservedImages({ runtime, clock: createClock() });
const facts = factsOf(stateDir);
const pods: Started[] = [];

process.on("message", (order: FloorOrder) => {
  carryOut(order).then(
    (asked) => answer({ asked: [...asked] }),
    (error: unknown) => answer({ problem: String(error) }),
  );
});
process.on("disconnect", () => process.exit(0));

function answer(message: FloorAnswer): void {
  process.send?.(message);
}

async function carryOut(order: FloorOrder): Promise<ReadonlyMap<string, number>> {
  switch (order.verb) {
    case "start": {
      const messages = await Promise.all(order.names.map(messagesFor));
      return await sideBySide(order.atOnce, messages, async (message) => {
        pods.push(await start(runtime, message));
      });
    }
    case "removeAll":
      return await sideBySide(order.atOnce, pods.splice(0), (pod) => remove(runtime, pod));
  }
}

/** All are asked for now, and `atOnce` of them are worked on at any time. */
async function sideBySide<T extends { readonly name: string }>(
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

async function start(to: Runtime, { name, sandbox, container }: Messages): Promise<Started> {
  const sandboxId = await to.runPodSandbox(sandbox, "");
  const containerId = await to.createContainer(sandboxId, container, sandbox);
  await to.startContainer(containerId);
  return { name, sandboxId, containerId };
}

async function remove(from: Runtime, { sandboxId, containerId }: Started): Promise<void> {
  await from.stopContainer(containerId, GRACE_SECONDS);
  await from.stopPodSandbox(sandboxId);
  await from.removePodSandbox(sandboxId);
}

/** What the agent sends for the same manifest. Made ahead, as are the folders it names. */
async function messagesFor(name: string): Promise<Messages> {
  const path = join(bedPaths(stateDir).manifests, `${name}.json`);
  const { pod, problem } = await readPodManifest(JSON.stringify(benchPod(name)), { path, nodeName });
  const [container] = pod?.spec.containers ?? [];
  if (pod === undefined || container === undefined) throw new Error(problem);
  const image = await images.presence(container.image ?? "");
  if (image.present !== true) throw new Error(`the image ${container.image} is missing`);
  await mkdir(join(facts.podLogsDir, podLogFolder(pod)), { recursive: true });
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

function factsOf(folder: string): NodeFacts {
  const { agentRoot, podLogs } = bedPaths(folder);
  const proc = createProc();
  return {
    nodeName,
    hostIPs: [],
    memoryCapacityBytes: proc.memoryTotalBytes(),
    allocatable: new Map(),
    cpuCount: proc.cpuCount(),
    thermalThrottlePaths: proc.thermalThrottlePaths(),
    ...kernelOf(readMachine()),
    rootDir: agentRoot,
    podLogsDir: podLogs,
    clusterDNS: [],
    clusterDomain: "",
    hostResolvConf: { nameservers: [], searches: [], options: [] },
    cpuCFSQuota: true,
    cpuCFSQuotaPeriodMs: 100,
    singleProcessOOMKill: false,
    swapBehavior: "",
    podPidsLimit: -1,
    seccompDefault: false,
    containerStopSignals: false,
  };
}
