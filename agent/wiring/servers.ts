import { messageOf } from "../../host/error-message.ts";
import type { Files } from "../../host/fs/files.ts";
import { createMounts } from "../../host/fs/mounts.ts";
import { kubeletVersion } from "../../proto/kubernetes/version.ts";
import type { Config } from "../config/config.ts";
import { LOCAL_SOCKET } from "../config/local-socket.ts";
import type { RuntimeStatusReader } from "../observed/node/runtime-status.ts";
import type { VolumeStatsOptions } from "../observed/volumes/volume-stats.ts";
import { ROOT_DIR_HINT, toStartError } from "../preflight/start-error.ts";
import { ApiError } from "../serve/api/api-error.ts";
import { createHealthChecks } from "../serve/api/endpoints/health-checks.ts";
import { createHealthServer, type HealthServer } from "../serve/api/health-server.ts";
import type { AgentCommandLine } from "../serve/local/agent-command-line.ts";
import { summarizeAgent } from "../serve/local/agent-status.ts";
import { explainPod } from "../serve/local/explain/pod-explanation.ts";
import { answerLogs } from "../serve/local/local-logs.ts";
import { type LocalServer, type LocalServerOptions, serveLocal } from "../serve/local/local-server.ts";
import { summarizePod } from "../serve/local/pod-list.ts";
import { explainUnknownPod, type KnownPods } from "../serve/local/unknown-pod.ts";
import { createHealthRecorder } from "../serve/metrics/health-recorder.ts";
import type { NodeFacts } from "../translate/node-facts.ts";
import type { Agent } from "./agent.ts";
import type { NodeApi, NodeApiOptions } from "./api/node-api.ts";
import { createPodLookup } from "./api/pod-lookup.ts";
import type { ClusterNode } from "./cluster/cluster-node.ts";
import { createAgentLogs } from "./container-logs.ts";
import { serveLocalExec } from "./local-exec.ts";
import type { OwnedNetwork } from "./network-owner.ts";
import { createVolumeFigures, keepVolumeFigures } from "./volume-figures.ts";

export type ServerAdapters = Omit<NodeApiOptions, "api" | "config" | "reviews" | "clientCertificate" | "volumes"> &
  Pick<VolumeStatsOptions, "exec" | "clock"> & {
    readonly root: Files;
    readonly runtimeStatus: Pick<RuntimeStatusReader, "now">;
  };

/**
 * Serves the commands of this machine, the node's API unless `enableServer` is false, and the network of pods if the agent owns it. Throws
 * `StartError`.
 */
export async function startServers(served: ServedNode, adapters: ServerAdapters): Promise<{ stop(): Promise<void> }> {
  const { config, clusterNode, network } = served;
  const { root, exec, clock, agent } = adapters;
  const statOptions = { root, mounts: createMounts(), exec, path: process.env["PATH"] ?? "", clock };
  const volumes = createVolumeFigures(statOptions, agent, { ...config, ...served });
  const started: { stop(): Promise<void> }[] = [];
  const stop = async () => {
    await Promise.all(started.map((server) => server.stop()));
  };
  try {
    const knownPods = () => ({
      pods: createPodLookup(agent).all(),
      refused: agent.nodeSummary.report().refused,
      nodeName: config.nodeName,
    });
    const logDeps = { containerLogs: createAgentLogs({ ...adapters, config }), knownPods, clock };
    const logs: LocalServerOptions["logs"] = (request) => answerLogs(logDeps, request);
    const health = await serveHealthIfConfigured(config, adapters);
    if (health !== undefined) started.push(health);
    const shown = keepVolumeFigures(volumes, config.volumeStatsAggPeriodMs, clock);
    const cluster = { reviews: clusterNode?.reviews, clientCertificate: () => clusterNode?.clientCertificate() };
    const api = await serveApiIfConfigured({ ...adapters, config, volumes: shown, ...cluster });
    if (api !== undefined) started.push(api);
    started.push(
      serveLocalCommands({ ...adapters, volumes, logs, knownPods, apiAddress: api?.address }, agent, served),
    );
    started.push(await serveLocalExec({ ...adapters, knownPods }, agent));
    if (network !== undefined) started.push(await network.serve(clusterNode, agent));
    return { stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Only warns if the port is in use: another agent may serve it on this machine. */
async function serveHealthIfConfigured(
  { healthz }: Config,
  {
    agent,
    logControl,
    metrics,
    clock,
    log,
  }: Pick<ServerAdapters, "agent" | "logControl" | "metrics" | "clock" | "log">,
): Promise<HealthServer | undefined> {
  if (healthz === undefined) return undefined;
  const { address, port } = healthz;
  const checks = createHealthChecks({ ...agent, ...logControl });
  const server = createHealthServer({ checks, recordResult: createHealthRecorder(metrics), clock, log });
  try {
    await server.listen(port, address);
    return server;
  } catch (error) {
    log.warn({ address, port }, `health checks are not served: ${messageOf(error)}: set healthzPort`);
    return undefined;
  }
}

async function serveApiIfConfigured(options: Omit<NodeApiOptions, "api">): Promise<NodeApi | undefined> {
  const { api } = options.config;
  if (api === undefined) return undefined;
  // Loaded lazily: a node may serve none.
  const { serveNodeApi } = await import("./api/node-api.ts");
  return await serveNodeApi({ ...options, api });
}

export interface ServedNode extends Pick<NodeFacts, "allocatable"> {
  readonly config: Config;
  readonly clusterNode: ClusterNode | undefined;
  readonly commandLine: AgentCommandLine;
  /** Undefined if the runtime executes the network. */
  readonly network: OwnedNetwork | undefined;
}

interface LocalServerAdapters
  extends Pick<LocalServerOptions, "clock" | "volumes" | "logs">,
    Pick<ServerAdapters, "runtimeStatus"> {
  readonly root: Files;
  readonly knownPods: () => KnownPods;
  /** Where the node's API is served; undefined if it is not. */
  readonly apiAddress: string | undefined;
}

/** Starts the local server that answers `berth pods`, `explain`, `logs`, `status` and `doctor`. Throws `StartError`. */
function serveLocalCommands(
  { root, clock, volumes, logs, knownPods, apiAddress, runtimeStatus }: LocalServerAdapters,
  agent: Agent,
  { config: { nodeName, containerRuntimeEndpoint: endpoint }, clusterNode, commandLine }: ServedNode,
): LocalServer {
  const { podReports, nodeSummary, clusterSync } = agent;
  const path = root.path(LOCAL_SOCKET);
  const pods = () => ({ pods: podReports.all().map(summarizePod), ...nodeSummary.report() });
  const status = () =>
    summarizeAgent({
      node: { name: nodeName, version: kubeletVersion },
      report: nodeSummary.report(),
      cluster: clusterNode?.state(),
      api: apiAddress,
      pods: podReports.all().map(summarizePod),
      keptReferences: clusterSync?.objects.keptReferences() ?? 0,
      pulls: podReports.all().flatMap((report) => report.pulls),
    });
  const explain = (namespace: string, name: string) => {
    // A pod and its successor may have one name for a while.
    const reports = podReports.all().filter(({ pod: { metadata } }) => metadata.name === name);
    const found = reports.filter(({ pod: { metadata } }) => (metadata.namespace ?? "default") === namespace);
    const latest = found.toSorted((a, b) => a.acceptedAt - b.acceptedAt).at(-1);
    if (latest === undefined) throw new ApiError(404, explainUnknownPod(knownPods(), namespace, name));
    const runtime = { name: runtimeStatus.now().name, endpoint };
    return explainPod(latest, { refused: nodeSummary.report().refused, reports: podReports.all(), runtime });
  };
  const subscribe = (changed: () => void) => {
    const unsubscribes = [podReports.subscribe(changed), nodeSummary.subscribe(changed)];
    return () => {
      for (const unsubscribe of unsubscribes) unsubscribe();
    };
  };
  try {
    return serveLocal({ path, clock, pods, status, commandLine, volumes, explain, logs, subscribe });
  } catch (error) {
    return toStartError("cannot serve berth pods", ROOT_DIR_HINT)(error);
  }
}
