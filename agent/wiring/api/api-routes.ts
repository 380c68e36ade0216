import type { CriRuntime } from "../../../cri/client.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Files } from "../../../host/fs/files.ts";
import { openServed } from "../../../host/fs/served-folder.ts";
import type { Log, LogControl } from "../../../host/log/log.ts";
import type { Machine } from "../../../host/machine.ts";
import { createProfiler } from "../../../host/profiler.ts";
import { streamProgram } from "../../../host/program-output.ts";
import { kubernetesVersion } from "../../../proto/kubernetes/version.ts";
import type { ApiConfig, Config } from "../../config/config.ts";
import { createCheckpointRoutes } from "../../serve/api/endpoints/checkpoint.ts";
import { createConfigRoutes } from "../../serve/api/endpoints/configz.ts";
import { createDebugFlagRoutes } from "../../serve/api/endpoints/debug-flags.ts";
import { createDisabledRoutes } from "../../serve/api/endpoints/disabled.ts";
import { createHealthRoutes } from "../../serve/api/endpoints/health.ts";
import { createHealthChecks } from "../../serve/api/endpoints/health-checks.ts";
import { createNodeLogRoutes } from "../../serve/api/endpoints/node-logs.ts";
import { createPodRoutes, createRunningPodRoutes } from "../../serve/api/endpoints/pods.ts";
import { createProfilingRoutes } from "../../serve/api/endpoints/profiling.ts";
import { createFlagPage, createStatusPage } from "../../serve/api/endpoints/zpages.ts";
import type { Route } from "../../serve/api/route.ts";
import { createLogRoutes } from "../../serve/logs/log-routes.ts";
import { createHealthRecorder } from "../../serve/metrics/health-recorder.ts";
import type { KubeletMetrics } from "../../serve/metrics/kubelet-metrics.ts";
import { createMetricsRoutes } from "../../serve/metrics/metrics-routes.ts";
import { createStatsRoutes } from "../../serve/stats/stats-routes.ts";
import { createSessionLimit, MAX_SESSIONS } from "../../serve/streaming/session-limit.ts";
import { createStreamingRoutes } from "../../serve/streaming/streaming-routes.ts";
import type { Agent } from "../agent.ts";
import { createAgentLogs } from "../container-logs.ts";
import type { CertificatesInUse } from "../metrics-pages.ts";
import { createMetricsPages } from "../metrics-pages.ts";
import type { DatedVolumes } from "../volume-figures.ts";
import { createPodLookup, type PodLookup } from "./pod-lookup.ts";
import { createStatsPages } from "./stats-pages.ts";

/** What the endpoints of the node's API read from. */
export interface ApiRouteDeps {
  readonly api: ApiConfig;
  readonly config: Config;
  readonly agent: Agent;
  readonly runtime: CriRuntime;
  readonly metrics: KubeletMetrics;
  readonly thisMachine: Machine;
  /** The figures of the volumes of all pods, measured within the last minute. */
  readonly volumes: () => Promise<DatedVolumes>;
  /** The cgroup above all pods, below the mount point; undefined where pods have none of their own. */
  readonly podsCgroup: (() => Promise<string>) | undefined;
  /** Rooted at `/`. */
  readonly hostFiles: Files;
  /** Rooted at the root directory. */
  readonly root: Files;
  readonly clock: Clock;
  readonly log: Log;
  readonly logControl: LogControl;
  /** The certificates in PEM that are in use; each undefined if there is none. */
  readonly certificates: CertificatesInUse;
}

/**
 * All endpoints of the node's API. Those of `enableDebuggingHandlers` are off together; checkpoint, configz, statusz and flagz
 * are among them. Rule: NewServer and InstallAuthRequiredHandlers in pkg/kubelet/server/server.go.
 */
export function createApiRoutes(deps: ApiRouteDeps): readonly Route[] {
  const { api, agent, runtime } = deps;
  const pods = createPodLookup(agent);
  const always = [
    ...createHealthRoutes(createHealthChecks({ ...agent, ...deps.logControl }), createHealthRecorder(deps.metrics)),
    ...createPodRoutes(pods),
    ...createMetricsRoutes(createMetricsPages(deps)),
    ...createStatsRoutes(createStatsPages(deps)),
  ];
  if (!api.enables.debugging) return [...always, ...createDisabledRoutes(DEBUGGING, "Debug endpoints are disabled.")];
  const routes = [...always, ...createRunningPodRoutes(runtime), ...createDebuggingRoutes(deps, pods)];
  const patterns = [...routes.map(({ pattern }) => pattern), "/statusz", "/flagz"];
  const [builtWith, version] = [`bun ${Bun.version}`, kubernetesVersion.slice(1)];
  const startedAt = Date.now() - Math.round(process.uptime() * 1000);
  const statusPage = createStatusPage({ builtWith, version, startedAt, patterns, clock: deps.clock });
  return [...routes, statusPage, createFlagPage(deps.config.flagValues)];
}

function createDebuggingRoutes(deps: ApiRouteDeps, pods: PodLookup): readonly Route[] {
  const { api, config, runtime, clock, root } = deps;
  const { enables } = api;
  const streaming = createStreamingRoutes({
    ...{ runtime, findPod: pods.named, clock, idleTimeoutMs: api.streamingIdleTimeoutMs },
    sessionLimit: createSessionLimit(MAX_SESSIONS, deps.agent.releaseMemorySoon),
    translatesWebSockets: config.node.declaredFeatures.includes("ExtendWebSocketsToKubelet"),
  });
  return [
    ...createConfigRoutes(config.kubeletConfiguration),
    ...streaming,
    ...createLogRoutes({ containerLogs: createAgentLogs(deps), clock }),
    ...(enables.checkpoint ? createCheckpointRoutes({ findPod: pods.named, runtime, root, clock }) : []),
    ...(enables.systemLogs
      ? createNodeLogRoutes({ openLog, journal, allowsQuery: enables.systemLogQuery })
      : createDisabledRoutes(["/logs/{path...}"], "logs endpoint is disabled.")),
    ...(enables.profiling
      ? createProfilingRoutes(createProfiler(clock))
      : createDisabledRoutes(["/debug/pprof/{path...}"], "profiling endpoint is disabled.")),
    ...(enables.debugFlags
      ? createDebugFlagRoutes(deps.logControl)
      : createDisabledRoutes(["/debug/flags/v"], "flags endpoint is disabled.")),
  ];
}

const openLog = (path: string) => openServed("/var/log", path);

const journal: Parameters<typeof createNodeLogRoutes>[0]["journal"] = async (args, write, signal) => {
  const env = { PATH: process.env["PATH"] ?? "" };
  await streamProgram(["journalctl", ...args], write, { env, signal });
};

/** What the kubelet answers itself while its debugging handlers are off. */
const DEBUGGING = [
  "/run/{path...}",
  "/exec/{path...}",
  "/attach/{path...}",
  "/portForward/{path...}",
  "/containerLogs/{path...}",
  "/runningpods/{path...}",
  "/debug/pprof/{path...}",
  "/logs/{path...}",
];
