import type { Runtime } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import { createFiles } from "../../host/fs/files.ts";
import type { Config } from "../config/config.ts";
import { type ContainerLogs, createContainerLogs } from "../serve/logs/container-logs.ts";
import type { Agent } from "./agent.ts";
import { createPodLookup } from "./api/pod-lookup.ts";

export interface AgentLogsOptions {
  readonly agent: Agent;
  readonly runtime: Pick<Runtime, "containerStatus">;
  readonly config: Pick<Config, "podLogsDir" | "containerLogs">;
  readonly clock: Clock;
}

/** The logs of the agent's containers, for its clients. */
export function createAgentLogs({ agent, runtime, config, clock }: AgentLogsOptions): ContainerLogs {
  return createContainerLogs({
    runtime,
    logs: createFiles(config.podLogsDir),
    clock,
    findPod: createPodLookup(agent).named,
    ends: agent.containerEnds,
    splitsStreams: config.containerLogs.splitsStreams,
  });
}
