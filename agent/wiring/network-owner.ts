import { YOUNG_FOR_MS } from "../../cni/attachment-state.ts";
import { type ConfDirs, hasConfiguration, loadFirstNetwork } from "../../cni/conf-dir.ts";
import { createAttachmentAges } from "../../cni/delegate/attachment-ages.ts";
import {
  type BuiltinUse,
  builtinFolderOf,
  builtinUseOf,
  confDirsOf,
  standaloneRanges,
  unusedBuiltinFolders,
} from "../../cni/delegate/builtin-list.ts";
import type { DelegateConf } from "../../cni/delegate/delegate-conf.ts";
import { createDeletedAttachments } from "../../cni/delegate/deleted-attachments.ts";
import type { ExecutedNetwork } from "../../cni/delegate/execute-call.ts";
import { cureOfDelegate, type FoundNetworkOwner, findNetworkOwner } from "../../cni/delegate/installed-delegate.ts";
import type { NetworkReadiness } from "../../cni/delegate/network-readiness.ts";
import type { Executor } from "../../cni/executor.ts";
import type { Cni } from "../../cni/network.ts";
import type { NetworkDefinitions } from "../../cni/secondary/pod-networks.ts";
import { createRepeatedTimeLimit, createTimeLimit, type TimeLimit } from "../../cni/time-limit.ts";
import type { Runtime } from "../../cri/runtime.ts";
import type { RuntimeControl } from "../../cri/runtime-control.ts";
import type { Clock } from "../../host/clock.ts";
import { messageOf } from "../../host/error-message.ts";
import type { Exec } from "../../host/exec.ts";
import { createFiles, type Files } from "../../host/fs/files.ts";
import type { Mounts } from "../../host/fs/mounts.ts";
import type { StatSync } from "../../host/fs/stat-sync.ts";
import type { Log } from "../../host/log/log.ts";
import { isNamespaceMount } from "../../host/network-namespace.ts";
import { createNetworkAudit } from "../act/network/network-audit.ts";
import type { Config } from "../config/config.ts";
import { NETWORK_SOCKET } from "../config/local-socket.ts";
import { withNetworkProblem } from "../observed/node/network-condition.ts";
import { ROOT_DIR_HINT, StartError, toStartError } from "../preflight/start-error.ts";
import { createMirrorNetworkStatus, type MirrorNetworkStatusOptions } from "../report/pod/mirror-network-status.ts";
import type { KubeletMetrics } from "../serve/metrics/kubelet-metrics.ts";
import { createDelegateCallRecorder, createPluginCallRecorder } from "../serve/metrics/plugin-call-recorder.ts";
import { createExecutedNetworkLog } from "../serve/network/executed-network-log.ts";
import { type KeptList, type KeptListOptions, openKeptList } from "../serve/network/kept-list.ts";
import { createNetworkDefinitions, definitionsOfStandaloneNode } from "../serve/network/network-definitions.ts";
import { type NetworkServer, type NetworkServerOptions, serveNetwork } from "../serve/network/network-server.ts";
import type { Agent } from "./agent.ts";
import type { ClusterNode } from "./cluster/cluster-node.ts";
import { listSandboxes } from "./listed-sandboxes.ts";
import { createRuntimeFolderCheck, type RuntimeFolderCheck, withRuntimeFolder } from "./runtime-folder-check.ts";

export interface NetworkAdapters {
  readonly runtime: Pick<RuntimeControl, "verboseStatus">;
  readonly exec: Exec;
  /** Rooted at `/`. */
  readonly hostFiles: Files;
  readonly statSync: StatSync;
  readonly mounts: Pick<Mounts, "list">;
  /** Rooted at the root directory. */
  readonly root: Pick<Files, "path">;
  /** The environment of the plugins. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly clock: Clock;
  readonly log: Log;
  readonly metrics: Pick<KubeletMetrics, "kubelet">;
}

/** The API server with the networks that pods select, and the mirror pods; undefined on a standalone node. */
type NetworkCluster = Pick<ClusterNode, "kube" | "subscribeMirrors"> | undefined;

/** The network that this agent executes. */
export interface OwnedNetwork {
  /** As the runtime's status, with the condition NetworkReady of the network that the agent executes. */
  withCondition(status: Runtime["status"]): Runtime["status"];
  /** The runtime is asked for the first time after an outage: it may read its networks from another folder. */
  onRuntimeBack(): void;
  /** Serves the delegate of the container runtime. Rejects with `StartError`. */
  serve(cluster: NetworkCluster, agent: Pick<Agent, "onPluginCallFinished">): Promise<Pick<NetworkServer, "stop">>;
  /** Deletes what has outlived its sandbox, whenever an audit is due. */
  audit(deps: AuditDeps): Pick<NetworkServer, "stop">;
  /** Gives `--network=builtin` its addresses. */
  setPodCIDRs(podCIDRs: readonly string[]): void;
}

interface AuditDeps {
  readonly runtime: Pick<Runtime, "listPodSandbox">;
  readonly agent: Pick<Agent, "networkAuditDue">;
}

/**
 * The network of pods, if the agent owns it: with the owner `agent`, and with `auto` if the installed delegate names this agent's
 * socket. The list has the folders, so that the delegate executes the same network when the agent is away. Rejects with
 * `StartError`.
 */
export async function openOwnedNetwork(
  config: Pick<Config, "network" | "clusterConfigSource" | "runtimeRequestTimeoutMs">,
  adapters: NetworkAdapters,
): Promise<OwnedNetwork | undefined> {
  const { source, podCIDRs } = config.network;
  const { hostFiles, root, log } = adapters;
  const socket = root.path(NETWORK_SOCKET);
  const owner = await requireNetworkOwner(config.network, socket, adapters);
  if (owner.by === "runtime") {
    await removeFallback(hostFiles, socket);
    return undefined;
  }
  const { delegate } = owner;
  const isInCluster = config.clusterConfigSource !== undefined;
  const standaloneCIDRs = isInCluster ? undefined : standaloneRanges(podCIDRs);
  const use = builtinUseOf(source, isInCluster);
  const list = await openListOf(use, { files: hostFiles, socket, standaloneCIDRs, log });
  const executed = { ...delegate, confDirs: confDirsOf(delegate, use) };
  const youngForMs = Math.max(YOUNG_FOR_MS, 2 * config.runtimeRequestTimeoutMs);
  const { delegateDir } = config.network;
  const folder = createRuntimeFolderCheck({ ...adapters, files: hostFiles, delegateDir });
  const network = await openNetwork(executed, list, { youngForMs, folder }, adapters);
  const withCondition: OwnedNetwork["withCondition"] = (status) =>
    network.withCondition(withRuntimeFolder(status, folder, log));
  return { ...network, withCondition, onRuntimeBack: folder.invalidate };
}

/** Rejects with `StartError` if the configuration wants the agent, which cannot execute the network. */
async function requireNetworkOwner(
  network: Config["network"],
  socket: string,
  { hostFiles: files, log }: NetworkAdapters,
): Promise<Exclude<FoundNetworkOwner, { readonly by: "none" }>> {
  const onBroken = (file: string, { message: reason }: Error) =>
    log.warn({ file, reason }, "the agent ignores a broken file beside the list of berth-cni");
  const cure = cureOfDelegate(network, socket);
  const owner = await findNetworkOwner(network, { files, socket, onBroken }).catch(
    toStartError("cannot read the list of berth-cni", cure),
  );
  if (owner.by !== "none") return owner;
  throw new StartError(`${owner.problem}: ${owner.cure}`);
}

/** The list of the built-in network, if the agent uses it. Removes that of an earlier start with another use. */
async function openListOf(
  use: BuiltinUse,
  options: Omit<KeptListOptions, "use"> & { readonly files: Pick<Files, "remove"> },
): Promise<KeptList | undefined> {
  try {
    const list = use === "never" ? undefined : await openKeptList({ ...options, use });
    for (const folder of unusedBuiltinFolders(options.socket, use)) await options.files.remove(folder);
    return list;
  } catch (error) {
    return toStartError("cannot keep the list of the built-in network", ROOT_DIR_HINT)(error);
  }
}

/**
 * Removes the list that an earlier start as a standalone node has kept: the runtime may still call the delegate, which would give pods the
 * built-in network. Rejects with `StartError`.
 */
async function removeFallback(files: Pick<Files, "remove">, socket: string): Promise<void> {
  await files
    .remove(builtinFolderOf(socket, "asFallback"))
    .catch(toStartError("cannot remove the list of the built-in network", ROOT_DIR_HINT));
}

async function openNetwork(
  delegate: DelegateConf & { readonly confDirs: ConfDirs },
  list: KeptList | undefined,
  { youngForMs, folder }: { readonly youngForMs: number; readonly folder: RuntimeFolderCheck },
  adapters: NetworkAdapters,
): Promise<Omit<OwnedNetwork, "onRuntimeBack">> {
  const { hostFiles: files, statSync, mounts, clock, log, metrics } = adapters;
  const { confDir: chainDir, confDirs, socket } = delegate;
  // Loaded lazily: most nodes leave the network to the runtime.
  const [{ executeCall }, { collectGarbage }, { createNetworkReadiness }, { readCachedStatus }, executor] =
    await Promise.all([
      import("../../cni/delegate/execute-call.ts"),
      import("../../cni/delegate/collect-garbage.ts"),
      import("../../cni/delegate/network-readiness.ts"),
      import("../../cni/secondary/cached-status.ts"),
      createNetworkExecutor(delegate, adapters),
    ]);
  const record = createPluginCallRecorder(metrics);
  const recordDelegateCall = createDelegateCallRecorder(metrics);
  const deleted = createDeletedAttachments();
  const ages = createAttachmentAges(clock);
  const deps = {
    ...executor,
    ...{ files, confDirs, socket, ages, clock, youngForMs, isNamespace: isNamespaceMount },
  };
  const { start: logStart, onNetwork } = createExecutedNetworkLog({ socket, log });
  const readiness = createNetworkReadiness({ ...deps, statSync, mounts });
  const readProblem = async (timeoutMs: number) => {
    await list?.retry();
    const createCni = (timeLimit: TimeLimit) => executor.createCni(record, timeLimit);
    const problem = await findProblemWithin(timeoutMs, createCni, { readiness, onNetwork, clock });
    const listProblem = list?.problem();
    if (problem === undefined || listProblem === undefined) return problem;
    return (await hasConfiguration(files, confDirs)) ? problem : listProblem;
  };
  const createExecute = (definitions: NetworkDefinitions): NetworkServerOptions["execute"] => {
    return (call, onCall, signal, undoSignal) => {
      const timeLimit = createTimeLimit(call.timeLeftMs, clock, signal);
      const podCni = executor.createCni((pluginCall) => {
        for (const receive of [record, readiness.onCall, onCall]) receive(pluginCall);
      }, timeLimit);
      const execution = { ...executor, cni: podCni, timeLimit, files, confDirs, chainDir, definitions, deleted, ages };
      const execute = () => executeCall(execution, call, signal, undoSignal);
      return measureDuration(clock, execute, (durationMs) => recordDelegateCall(call.verb, durationMs));
    };
  };
  return {
    setPodCIDRs: (podCIDRs) => list?.setPodCIDRs(podCIDRs),
    withCondition: (status) => async (options) => {
      // An idle node gets here every few seconds: then this makes no call but stat(2), and no timer.
      const isStillReady = readiness.isStillReady();
      const problem = isStillReady ? undefined : readProblem(options?.deadlineMs ?? STATUS_TIMEOUT_MS);
      return withNetworkProblem(await status(options), await problem);
    },
    async serve(cluster, { onPluginCallFinished }) {
      const readStatus = (uid: string) => readCachedStatus(executor.cache, uid);
      const secondary = cluster && connectSecondaryNetworks(cluster, { readStatus, clock, log });
      const execute = createExecute(secondary?.definitions ?? definitionsOfStandaloneNode);
      const server = await startServer({ path: socket, execute, onPluginCallFinished, clock, log });
      logStart(await loadFirstNetwork(files, confDirs).catch(() => ({ confDir: confDirs[0] })));
      return {
        async stop() {
          await Promise.all([server.stop(), secondary?.stop(), list?.settled()]);
        },
      };
    },
    audit({ runtime, agent }) {
      const audit = createNetworkAudit({
        listSandboxes: () => listSandboxesOfDelegate(runtime, folder, clock),
        collectGarbage: (sandboxes, signal, timeLimit) =>
          collectGarbage({ ...deps, cni: executor.createCni(record, timeLimit) }, sandboxes, signal),
        ...{ clock, log },
      });
      const unsubscribe = agent.networkAuditDue.subscribe(audit.wake);
      return {
        async stop() {
          unsubscribe();
          await audit.stop();
        },
      };
    },
  };
}

interface NetworkProblemDeps {
  readonly readiness: Pick<NetworkReadiness, "findProblem">;
  readonly onNetwork: (network: ExecutedNetwork) => void;
  readonly clock: Clock;
}

/** Why the network cannot serve ADD, or that its plugins did not answer in time; undefined if it can. */
async function findProblemWithin(
  timeoutMs: number,
  createCni: (timeLimit: TimeLimit) => Cni,
  { readiness, onNetwork, clock }: NetworkProblemDeps,
): Promise<string | undefined> {
  const timeout = AbortSignal.timeout(timeoutMs);
  // A plugin that hangs is killed before the timeout, and is the problem then.
  const cni = createCni(createRepeatedTimeLimit(timeoutMs, clock, timeout));
  let late = "";
  try {
    return await readiness.findProblem(cni, timeout, (network) => {
      onNetwork(network);
      const { confDir, conf } = network;
      late = `the plugins of the network ${conf.name} of ${confDir} have not answered STATUS within ${timeoutMs / 1_000} s`;
    });
  } catch (error) {
    return timeout.aborted && late !== "" ? late : messageOf(error);
  }
}

/**
 * The sandboxes of a runtime that calls the delegate. Rejects with the reason if it does not: it then executes the plugins itself, and GC by
 * the agent would delete the attachments of its pods. Rejects with `CriError` and with `FilesError`, too.
 */
async function listSandboxesOfDelegate(
  runtime: AuditDeps["runtime"],
  folder: RuntimeFolderCheck,
  clock: Clock,
): ReturnType<typeof listSandboxes> {
  const problem = await folder.findProblem();
  if (problem !== undefined) throw new Error(problem);
  return await listSandboxes(runtime, clock);
}

/** Runs `work` and records its duration in milliseconds, also if it rejects. */
async function measureDuration<T>(
  clock: Clock,
  work: () => Promise<T>,
  record: (durationMs: number) => void,
): Promise<T> {
  const startedMs = clock.monotonicMs();
  try {
    return await work();
  } finally {
    record(clock.monotonicMs() - startedMs);
  }
}

/** The networks that the pods of a cluster select, and the status that their pods and mirror pods get. */
function connectSecondaryNetworks(
  { kube, subscribeMirrors }: NonNullable<NetworkCluster>,
  options: Omit<MirrorNetworkStatusOptions, "kube">,
) {
  const mirrors = createMirrorNetworkStatus({ kube, ...options });
  const unsubscribe = subscribeMirrors(mirrors.onMirror);
  return {
    definitions: createNetworkDefinitions(kube, mirrors.onAttached),
    async stop() {
      unsubscribe();
      await mirrors.stop();
    },
  };
}

async function startServer(options: NetworkServerOptions): Promise<NetworkServer> {
  try {
    return await serveNetwork(options);
  } catch (error) {
    return toStartError("cannot serve the network", ROOT_DIR_HINT)(error);
  }
}

/** How long plugins may take to answer STATUS. */
const STATUS_TIMEOUT_MS = 10_000;

async function createNetworkExecutor(
  { binDirs, cacheDir }: DelegateConf,
  { exec, hostFiles: files, clock, log, env }: NetworkAdapters,
): Promise<Executor> {
  const [{ createExecutor }, { createNetlink }] = await Promise.all([
    import("../../cni/executor.ts"),
    import("../../host/netlink/netlink.ts"),
  ]);
  return createExecutor({
    ...{ exec, files, clock, binDirs, env },
    cacheFiles: createFiles(cacheDir),
    netlink: createNetlink(),
    description: `berth run, pid ${process.pid}`,
    isDaemon: true,
    onUnreadable: ({ asideName, reason }) =>
      log.warn({ file: asideName, reason }, "a file of the network's cache is unreadable, and was set aside"),
  });
}
