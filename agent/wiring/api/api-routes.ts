import type { CriRuntime } from "../../../cri/client.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Files } from "../../../host/fs/files.ts";
import type { Log } from "../../../host/log/log.ts";
import type { Machine } from "../../../host/machine.ts";
import type { ApiConfig, Config } from "../../config/config.ts";
import { createConfigRoutes } from "../../serve/api/endpoints/configz.ts";
import { createHealthRoutes } from "../../serve/api/endpoints/health.ts";
import { createPodRoutes } from "../../serve/api/endpoints/pods.ts";
import type { Route } from "../../serve/api/route.ts";
import { createLogRoutes } from "../../serve/logs/log-routes.ts";
import type { KubeletMetrics } from "../../serve/metrics/kubelet-metrics.ts";
import { createMetricsRoutes } from "../../serve/metrics/metrics-routes.ts";
import { createStatsRoutes } from "../../serve/stats/stats-routes.ts";
import { createStreamingRoutes } from "../../serve/streaming/streaming-routes.ts";
import type { Agent } from "../agent.ts";
import { createAgentLogs } from "../container-logs.ts";
import { createMetricsPages } from "../metrics-pages.ts";
import type { DatedVolumes } from "../volume-figures.ts";
import { createPodLookup } from "./pod-lookup.ts";
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
  readonly clock: Clock;
  readonly log: Log;
}

/** All endpoints of the node's API. */
export function createApiRoutes(deps: ApiRouteDeps): readonly Route[] {
  const { api, config, agent, runtime, clock } = deps;
  const pods = createPodLookup(agent);
  const streaming = createStreamingRoutes({
    ...{ runtime, findPod: pods.named, clock, idleTimeoutMs: api.streamingIdleTimeoutMs },
    translatesWebSockets: config.node.declaredFeatures.includes("ExtendWebSocketsToKubelet"),
  });
  return [
    ...createHealthRoutes(HEALTH_CHECKS),
    ...createPodRoutes(pods),
    ...createConfigRoutes(config.kubeletConfiguration),
    ...streaming,
    ...createLogRoutes({ containerLogs: createAgentLogs(deps), clock }),
    ...createMetricsRoutes(createMetricsPages(deps)),
    ...createStatsRoutes(createStatsPages(deps)),
  ];
}

/**
 * The kubelet's checks. An agent that answers them is healthy: its sync loop has no period that it could miss, it runs when
 * something changes; and no line of the log waits for longer than the log allows.
 */
const HEALTH_CHECKS = ["ping", "log", "syncloop"].map((name) => ({ name, check() {} }));
