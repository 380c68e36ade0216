import { existsSync } from "node:fs";
import { type CriRuntime, createRuntime } from "../cri/client.ts";
import { aborted } from "../host/async/abort.ts";
import { createEventSource, type EventSource } from "../host/async/event-source.ts";
import { type Clock, createClock, sleep } from "../host/clock.ts";
import { createExec, type Exec } from "../host/exec.ts";
import { createFiles, type Files } from "../host/fs/files.ts";
import { createMounts } from "../host/fs/mounts.ts";
import { createNetworkFiles } from "../host/fs/network-files.ts";
import { createNetworkMounts } from "../host/fs/network-mounts.ts";
import { statSync } from "../host/fs/stat-sync.ts";
import { createKernelLog } from "../host/kernel-log.ts";
import type { Log, LogControl } from "../host/log/log.ts";
import { type Machine, readMachine } from "../host/machine.ts";
import { createNet, resolveName } from "../host/net.ts";
import { createProc, type Proc } from "../host/proc.ts";
import { createProcessLimits } from "../host/process-limits.ts";
import { createReleaseMemory } from "../host/release-memory.ts";
import { createSysctls } from "../host/sysctls.ts";
import type { Node, Pod } from "../proto/kubernetes/gen/types.ts";
import { dockerConfigFiles } from "./act/images/docker-config.ts";
import type { Config } from "./config/config.ts";
import { type AdmissionNode, toAdmissionNode } from "./decide/admission/admission-node.ts";
import type { RejectedManifest } from "./decide/node/local-node-report.ts";
import { nodeRules } from "./decide/node/node-rules.ts";
import type { ObservedMachine } from "./decide/node/observed-node.ts";
import type { ManifestPod } from "./decide/sources/merge-static.ts";
import { watchStaticPath } from "./desired/static/static-files.ts";
import { isUidInUse } from "./desired/static/uid-in-use.ts";
import { watchHostIPs } from "./observed/node/host-ips.ts";
import { watchSystemOoms } from "./observed/node/system-oom.ts";
import { checkControllers, readControllers } from "./preflight/cgroup-controllers.ts";
import { cgroupV1Event, checkCgroups } from "./preflight/cgroup-version.ts";
import { checkConfiguredCgroups } from "./preflight/configured-cgroups.ts";
import { checkCredentialProviders } from "./preflight/credential-providers.ts";
import { lockRootDir, lockRuntime } from "./preflight/instance-locks.ts";
import { applyKernelTunables } from "./preflight/kernel-tunables.ts";
import { warnOfOldKernel } from "./preflight/kernel-version.ts";
import { applyProcessLimits } from "./preflight/process-limits.ts";
import { checkReservations } from "./preflight/reservations.ts";
import { shareRootDir } from "./preflight/shared-root.ts";
import { ROOT_DIR_HINT, toStartError } from "./preflight/start-error.ts";
import { readIdPool } from "./preflight/subordinate-ids.ts";
import { checkSwap, swappedVolumesEvent } from "./preflight/swap.ts";
import type { AgentCommandLine } from "./serve/local/agent-command-line.ts";
import { createRuntimeCallRecorder } from "./serve/metrics/call-recorder.ts";
import { createKubeletMetrics, type KubeletMetrics } from "./serve/metrics/kubelet-metrics.ts";
import type { NodeFacts } from "./translate/node-facts.ts";
import { type Agent, type AgentOptions, createAgent, type PodSource } from "./wiring/agent.ts";
import { CGROUP_MOUNT_POINT, createCgroupsIfConfigured } from "./wiring/cgroups.ts";
import type { ClusterNode, ClusterNodeOptions } from "./wiring/cluster/cluster-node.ts";
import { loadCredentialProviderPlugins } from "./wiring/credential-provider-plugins.ts";
import { createLocalNode, type LocalNode, type LocalNodeOptions } from "./wiring/local-node.ts";
import { startNetworkAudit } from "./wiring/network-audit.ts";
import { openOwnedNetwork } from "./wiring/network-owner.ts";
import { createNodeFacts, readCapacity } from "./wiring/node-facts.ts";
import { createPodCIDRUpdates, type PodCIDRUpdates } from "./wiring/pod-cidrs.ts";
import { runtimeReaders } from "./wiring/runtime-readers.ts";
import { startServers } from "./wiring/servers.ts";
import { createTracesIfConfigured } from "./wiring/traces.ts";

const STOP_TIMEOUT_MS = 5_000;
const NO_SOURCE =
  "no source of pods is configured (--kubeconfig, staticPodPath, staticPodURL): nothing will be started";

/**
 * Runs the agent until the signal aborts; its pods keep running without it. Throws `StartError` if it cannot start:
 * another agent uses the same root directory or container runtime, or the machine lacks what the configuration
 * requires.
 */
export async function runAgent(config: Config, program: AgentProgram, log: Log, signal: AbortSignal): Promise<void> {
  const hostFiles = createFiles("/");
  const root = await lockRootDir(config, hostFiles);
  const thisMachine = readMachine(hostFiles.root);
  checkCgroups(config, thisMachine, log);
  if (config.cgroupsPerQOS) checkControllers(readControllers(CGROUP_MOUNT_POINT));
  checkConfiguredCgroups(config, CGROUP_MOUNT_POINT, existsSync);
  warnOfOldKernel(thisMachine, config.node, log);
  checkSwap(config, thisMachine);
  await applyKernelTunables(config, createSysctls(), log);
  await checkCredentialProviders(config, hostFiles);
  const releaseRuntimeLock = await lockRuntime(config, hostFiles, log);
  if (hasNoSource(config)) log.warn({}, NO_SOURCE);
  try {
    applyProcessLimits(config, createProcessLimits(), log);
    await shareRootDir(createMounts(), config.rootDir, log);
    await runWithLocks(config, { hostFiles, thisMachine, root, ...program }, log, signal);
  } finally {
    releaseRuntimeLock();
  }
}

/** What the program that runs the agent knows of itself. */
interface AgentProgram {
  /** How it was started, for `berth doctor`. */
  readonly commandLine: AgentCommandLine;
  readonly logControl: LogControl;
}

interface StartedOn extends AgentProgram {
  readonly hostFiles: Files;
  readonly thisMachine: Machine;
  /** Rooted at the root directory. */
  readonly root: Files;
}

async function runWithLocks(
  config: Config,
  { hostFiles, thisMachine, root, commandLine, logControl }: StartedOn,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  const clock = createClock();
  const proc = createProc();
  const capacity = await readCapacity(proc, root, thisMachine);
  const machine = observeMachine(thisMachine, capacity, proc);
  checkReservations(machine, config.node);
  const exec = createExec();
  const idPool = await readIdPool(config, { machine: hostFiles, exec, path: process.env["PATH"] ?? "" });
  const metrics = createKubeletMetrics();
  const runtime = createCriRuntime(config, clock, log, metrics);
  const cgroups = createCgroupsIfConfigured(config, { runtime, clock, log, ...capacity }, signal);
  const { nodeIPs: configured, nodeName, earlyProbes, keepsReferencedObjects, changeDetection } = config;
  // Addresses may change before the cluster node and the agent exist; each reads the current ones when it starts.
  const [addressChanges, podWakes] = [createEventSource(), createEventSource()];
  const ipOptions = { configured, nodeName, net: createNet(), clock, log, onArrival: podWakes.emit };
  const clusterIPOptions = config.clusterConfigSource && { onChange: addressChanges.emit, resolve: resolveName };
  const machineIPs = watchHostIPs({ ...ipOptions, ...clusterIPOptions }, signal);
  const networkDeps = { ...networkAdapters(), runtime, exec, hostFiles, root, clock, log, metrics };
  const network = await openOwnedNetwork(config, networkDeps);
  const nodeDeps = { addresses: machineIPs, files: hostFiles, clock, log };
  const nodeAdapters = { ...nodeDeps, ...runtimeReaders(runtime, network, nodeDeps), proc, machine };
  const node = createNode(config, cgroups?.node, nodeAdapters);
  const clusterNode = await createClusterNodeIfConfigured(config, {
    ...nodeDeps,
    ...{ hostFiles, node, metrics },
    wakeAllPods: podWakes.emit,
  });
  const receivers = [createPodCIDRUpdates({ runtime, clock, log, ...config.network }, signal), network];
  if (clusterNode !== undefined) connectClusterNode(clusterNode, addressChanges, receivers);
  const hostIPs = clusterNode?.hostIPs ?? machineIPs;
  const nodeForAdmission = createAdmissionNodeCache(config, machine);
  const { allocatable } = nodeForAdmission("unknown");
  const agent = createAgent({
    runtime,
    runtimeStatus: node.runtimeStatus,
    ...{ clock, log },
    disk: { root, logs: createFiles(config.podLogsDir), machine: hostFiles },
    ...createMountAdapters(exec, clock),
    cgroups: cgroups?.pods,
    facts: createNodeFacts(config, { ...capacity, allocatable }, hostIPs, clock),
    idPool,
    settings: createPodSettings(config, capacity, hostIPs),
    admissionNode: nodeForAdmission,
    hasNoSource: hasNoSource(config),
    sources: sourcesOf(config, clock, log),
    ...(clusterNode && ({ clusterAccess: clusterNode.access } satisfies Partial<AgentOptions>)),
    ...(await loadConfigured(config, exec, clock, log)),
    ...imageOptions(config),
    startSlots: Math.max(2, 2 * proc.availableParallelism()),
    ...{ earlyProbes, keepsReferencedObjects, changeDetection, metrics, logRotation: config.containerLogs.rotation },
    onIdle: createReleaseMemory(),
  });
  podWakes.subscribe(agent.wakeAll);
  const sources = { agent, runtime, metrics, thisMachine, podsCgroup: cgroups?.podsPath, logControl };
  const adapters = { root, exec, hostFiles, ...sources, clock, log, runtimeStatus: node.runtimeStatus };
  const servers = await startServers({ config, clusterNode, allocatable, commandLine, network }, adapters);
  const networkAudit = startNetworkAudit(network, adapters);
  try {
    if (clusterNode !== undefined) recordMachineEvents(thisMachine, clusterNode);
    await runParts({ agent, node, clusterNode }, config, clock, log, signal);
  } finally {
    await Promise.all([networkAudit.stop(), servers.stop()]);
    clusterNode?.close();
    runtime.close();
  }
  log.info({}, "berth has stopped; its pods keep running");
}

function connectClusterNode(
  clusterNode: ClusterNode,
  addressChanges: Pick<EventSource, "subscribe">,
  receivers: readonly (PodCIDRUpdates | undefined)[],
): void {
  addressChanges.subscribe(clusterNode.invalidateAddresses);
  clusterNode.subscribeNode((changed) => {
    for (const receiver of receivers) receiver?.setPodCIDRs(podCIDRsOf(changed));
  });
}

/** Empty until a controller of the cluster has chosen them. */
const podCIDRsOf = (node: Node | undefined) => node?.spec?.podCIDRs ?? [];

/** What most nodes do not use: it is loaded only if it is configured. */
async function loadConfigured(
  config: Config,
  exec: Exec,
  clock: Clock,
  log: Log,
): Promise<Pick<AgentOptions, "createCredentialProviders" | "traces">> {
  const pluginDeps = { exec, environment: process.env, clock, log };
  const createCredentialProviders = await loadCredentialProviderPlugins(config, pluginDeps);
  return { createCredentialProviders, traces: await createTracesIfConfigured(config, { clock, log }) };
}

/** What the kubelet says of a machine when it starts. */
function recordMachineEvents(machine: Machine, { recordEvent }: Pick<ClusterNode, "recordEvent">): void {
  if (!machine.hasCgroupV2) recordEvent(cgroupV1Event);
  const swappedVolumes = swappedVolumesEvent(machine);
  if (swappedVolumes !== undefined) recordEvent(swappedVolumes);
}

/** The machine as decisions see it. */
function observeMachine(
  machine: Machine,
  { storageCapacityBytes: storageBytes }: { readonly storageCapacityBytes: number },
  proc: Proc,
): ObservedMachine {
  const maxTasks = proc.taskAvailability()?.capacity;
  return { ...machine, maxTasks, storageBytes };
}

interface RunningParts {
  readonly agent: Agent;
  readonly node: LocalNode;
  readonly clusterNode: ClusterNode | undefined;
}

/** Throws `StartError` if the checkpoints cannot be read. */
async function runParts(
  { agent, node, clusterNode }: RunningParts,
  { nodeName, rootDir }: Config,
  clock: Clock,
  log: Log,
  signal: AbortSignal,
): Promise<void> {
  const logRunning = () => log.info({ node: nodeName, rootDir, pid: process.pid }, "berth is running");
  const recordEvent: ClusterNode["recordEvent"] = (event) => clusterNode?.recordEvent(event);
  const ended = Promise.all([node.run({ ...agent, recordEvent }, signal), clusterNode?.run(signal)]);
  void watchSystemOoms({ kernelLog: createKernelLog(clock), log, recordEvent }, signal);
  const stopped = runToEnd(agent.run(signal, logRunning), clock, signal);
  await stopped.catch(toStartError("cannot read the pod checkpoints", ROOT_DIR_HINT));
  await ended;
}

/** How images are pulled. */
function imageOptions({
  maxParallelImagePulls: parallel,
  registryPullQPS: qps,
  registryBurst: burst,
  rootDir,
  imageVerification,
}: Config): Pick<AgentOptions, "pulls" | "dockerConfigs" | "imageVerification"> {
  const dockerConfigs = dockerConfigFiles(rootDir, workingDir(), process.env["HOME"]);
  return { pulls: { parallel, qps, burst }, dockerConfigs, imageVerification };
}

/** The adapters that only the agent's own network needs. */
const networkAdapters = () => ({ statSync, mounts: createMounts(), env: process.env });

/** The mounts of this machine, and calls that may hang; mount(8) is found as by a shell. */
function createMountAdapters(
  exec: Exec,
  clock: Clock,
): Pick<AgentOptions, "mounts" | "networkMounts" | "networkFiles"> {
  const isCompiled = Bun.main.startsWith("/$bunfs/");
  const berth = isCompiled ? (["/proc/self/exe"] as const) : ([process.execPath, Bun.main] as const);
  const options = { exec, path: process.env["PATH"] ?? "", clock };
  const networkMounts = createNetworkMounts(options);
  return { mounts: createMounts(), networkMounts, networkFiles: createNetworkFiles({ ...options, berth }) };
}

function createNode(
  config: Config,
  cgroups: LocalNodeOptions["cgroups"],
  adapters: Omit<LocalNodeOptions, "rootDir" | "isInCluster" | "settings" | "rules" | "cgroups">,
): LocalNode {
  const { rootDir, node: settings, clusterConfigSource } = config;
  const isInCluster = clusterConfigSource !== undefined;
  return createLocalNode({ ...adapters, cgroups, rootDir, isInCluster, settings, rules: nodeRules });
}

/** Returns a function that returns the current settings of decisions about pods. */
function createPodSettings(
  config: Config,
  { hugePageSizes }: Pick<NodeFacts, "hugePageSizes">,
  hostIPs: () => readonly string[],
): AgentOptions["settings"] {
  const fixed = { ...config, ...(config.cgroupsPerQOS && { podCgroups: { ...config, hugePageSizes } }) };
  return () => ({ ...fixed, hostIPs: hostIPs() });
}

function createCriRuntime(config: Config, clock: Clock, log: Log, metrics: KubeletMetrics): CriRuntime {
  return createRuntime({
    onCall: createRuntimeCallRecorder(metrics),
    endpoint: config.containerRuntimeEndpoint,
    imageEndpoint: config.imageServiceEndpoint,
    requestTimeoutMs: config.runtimeRequestTimeoutMs,
    clock,
    log,
    random: Math.random,
  });
}

function workingDir(): string | undefined {
  try {
    return process.cwd();
  } catch {
    // The directory was removed, which does not prevent a start.
    return undefined;
  }
}

type ClusterNodeAdapters = Pick<
  ClusterNodeOptions,
  "hostFiles" | "node" | "addresses" | "clock" | "log" | "metrics" | "wakeAllPods"
>;

/** Rebuilds the admission node only when the Node object changes: a hundred new pods are admitted against one. */
function createAdmissionNodeCache({ nodeName, node }: Config, machine: ObservedMachine): AgentOptions["admissionNode"] {
  let last: { readonly nodeObject: Node | undefined | "unknown"; readonly node: AdmissionNode } | undefined;
  return (nodeObject) => {
    if (last === undefined || last.nodeObject !== nodeObject)
      last = { nodeObject, node: toAdmissionNode(nodeObject, machine, { ...node, nodeName }) };
    return last.node;
  };
}

/**
 * Creates the cluster node; undefined on a standalone node. Throws `StartError` if the cluster's configuration cannot
 * be used.
 */
async function createClusterNodeIfConfigured(
  config: Config,
  parts: ClusterNodeAdapters,
): Promise<ClusterNode | undefined> {
  const { clusterConfigSource } = config;
  if (clusterConfigSource === undefined) return undefined;
  // Loaded lazily to save memory on standalone nodes.
  const { createClusterNode } = await import("./wiring/cluster/cluster-node.ts");
  return await createClusterNode({ ...parts, config, clusterConfigSource, random: Math.random });
}

/** Resolves when the agent has ended, at the latest five seconds after the signal. */
async function runToEnd(ended: Promise<void>, clock: Clock, signal: AbortSignal): Promise<void> {
  const timeout = new AbortController();
  const timedOut = aborted(signal).then(() => sleep(clock, STOP_TIMEOUT_MS, timeout.signal));
  await Promise.race([ended, timedOut]);
  timeout.abort();
  await timedOut.catch(() => {
    // The agent ended before the timeout.
  });
}

function hasNoSource({ clusterConfigSource, staticPodPath, staticPodURL }: Config): boolean {
  return [clusterConfigSource, staticPodPath, staticPodURL].every((source) => source === undefined);
}

function sourcesOf(config: Config, clock: Clock, log: Log): readonly PodSource[] {
  const { staticPodPath: path, staticPodURL: url, staticPodURLHeader: headers, nodeName } = config;
  const sources: PodSource[] = [];
  if (path !== undefined)
    sources.push({
      kind: "file",
      follow: (desired, signal) =>
        watchStaticPath(
          { path, nodeName, checkEveryMs: config.fileCheckFrequencyMs, filesAt: createFiles, clock, log, desired },
          signal,
        ),
    });
  if (url !== undefined)
    sources.push({
      kind: "http",
      async follow(desired, signal) {
        // Loaded lazily: most nodes have no such URL.
        const { pollStaticUrl } = await import("./desired/static/static-url.ts");
        const effects = {
          isUidInUse: (uid: string) => isUidInUse(desired.all(), uid),
          apply: (pods: readonly ManifestPod[]) => desired.replaceManifests("http", pods),
          reportErrors: (refused: readonly RejectedManifest[], duplicates: readonly Pod[]) =>
            desired.setManifestErrors("http", refused, duplicates),
        };
        const checkEveryMs = config.httpCheckFrequencyMs;
        await pollStaticUrl({ url, headers, nodeName, checkEveryMs, fetch, clock, log, ...effects }, signal);
      },
    });
  return sources;
}
