import {
  CheckpointContainerRequest,
  CheckpointContainerResponse,
  ContainerStatsRequest,
  ContainerStatsResponse,
  ContainerStatusRequest,
  ContainerStatusResponse,
  CreateContainerRequest,
  CreateContainerResponse,
  ExecSyncRequest,
  ExecSyncResponse,
  ListContainerStatsRequest,
  ListContainerStatsResponse,
  ListContainersRequest,
  ListContainersResponse,
  RemoveContainerRequest,
  RemoveContainerResponse,
  ReopenContainerLogRequest,
  ReopenContainerLogResponse,
  StartContainerRequest,
  StartContainerResponse,
  StopContainerRequest,
  StopContainerResponse,
  UpdateContainerResourcesRequest,
  UpdateContainerResourcesResponse,
} from "../proto/cri/gen/api.ts";
import type { ContainerId } from "../proto/ids.ts";
import { podUidLabel } from "../proto/kubernetes/well-known-names.ts";
import type { Channel } from "./channel.ts";
import { removeWithLeftoverTask } from "./containerd-leftover-task.ts";
import { CriError, ignoreNotFound } from "./error.ts";
import { runtimeMethod } from "./rpc-method.ts";
import type { Runtime } from "./runtime.ts";

const methods = {
  create: runtimeMethod("CreateContainer", CreateContainerRequest, CreateContainerResponse),
  start: runtimeMethod("StartContainer", StartContainerRequest, StartContainerResponse),
  stop: runtimeMethod("StopContainer", StopContainerRequest, StopContainerResponse),
  remove: runtimeMethod("RemoveContainer", RemoveContainerRequest, RemoveContainerResponse),
  stats: runtimeMethod("ContainerStats", ContainerStatsRequest, ContainerStatsResponse),
  listStats: runtimeMethod("ListContainerStats", ListContainerStatsRequest, ListContainerStatsResponse),
  status: runtimeMethod("ContainerStatus", ContainerStatusRequest, ContainerStatusResponse),
  list: runtimeMethod("ListContainers", ListContainersRequest, ListContainersResponse),
  execSync: runtimeMethod("ExecSync", ExecSyncRequest, ExecSyncResponse),
  updateResources: runtimeMethod(
    "UpdateContainerResources",
    UpdateContainerResourcesRequest,
    UpdateContainerResourcesResponse,
  ),
  checkpoint: runtimeMethod("CheckpointContainer", CheckpointContainerRequest, CheckpointContainerResponse),
  reopenLog: runtimeMethod("ReopenContainerLog", ReopenContainerLogRequest, ReopenContainerLogResponse),
};

type AgentMethods =
  | "createContainer"
  | "startContainer"
  | "stopContainer"
  | "removeContainer"
  | "updateContainerResources"
  | "containerStats"
  | "listContainerStats"
  | "containerStatus"
  | "listContainers"
  | "execSync"
  | "reopenContainerLog";

export interface Containers extends Pick<Runtime, AgentMethods> {
  /**
   * Writes the state of a running container into a file (CRIU). A timeout below the request timeout has no effect.
   * UNIMPLEMENTED in containerd before 2.0.
   */
  checkpointContainer(id: ContainerId, location: string, timeoutSeconds: number): Promise<void>;
}

/** 68 years. The API allows longer grace periods, which overflow in runtimes, since these count nanoseconds. */
const MAX_GRACE_SECONDS = 2 ** 31 - 1;

/**
 * The container methods. `requestTimeoutMs` is the deadline; StopContainer and ExecSync add their own timeout to it.
 */
export function createContainers({ call }: Channel, requestTimeoutMs: number): Containers {
  return {
    async createContainer(podSandboxId, config, sandboxConfig, options) {
      const request = { podSandboxId, config, sandboxConfig };
      const { containerId } = await call(methods.create, request, { deadlineMs: requestTimeoutMs, ...options });
      return containerId as ContainerId;
    },
    async startContainer(containerId, options) {
      await call(methods.start, { containerId }, { deadlineMs: requestTimeoutMs, ...options });
    },
    async stopContainer(containerId, timeoutSeconds, options) {
      const seconds = Math.min(Math.ceil(timeoutSeconds), MAX_GRACE_SECONDS);
      const request = { containerId, timeout: BigInt(seconds) };
      const limits = { deadlineMs: requestTimeoutMs + seconds * 1000, ...options };
      await call(methods.stop, request, limits).catch(ignoreNotFound);
    },
    async removeContainer(containerId, options) {
      const limits = { deadlineMs: requestTimeoutMs, ...options };
      const remove = () => call(methods.remove, { containerId }, limits);
      await remove()
        .catch((error: unknown) => removeWithLeftoverTask({ call }, containerId, limits, error, remove))
        .catch(ignoreNotFound);
    },
    async containerStatus(containerId, options) {
      const request = { containerId, verbose: false };
      const { status } = await call(methods.status, request, { deadlineMs: requestTimeoutMs, ...options });
      if (status === undefined) throw new CriError("INTERNAL", methods.status.name, `no status for ${containerId}`);
      return status;
    },
    async listContainers({ id = "", podSandboxId = "", podUid }, options) {
      const labelSelector = podUid === undefined ? {} : { [podUidLabel]: podUid };
      const request = { filter: { id, state: undefined, podSandboxId, labelSelector } };
      return (await call(methods.list, request, { deadlineMs: requestTimeoutMs, ...options })).containers;
    },
    async execSync(containerId, cmd, timeoutSeconds, options) {
      const request = { containerId, cmd, timeout: BigInt(Math.ceil(timeoutSeconds)) };
      const deadlineMs = requestTimeoutMs + timeoutSeconds * 1000;
      return await call(methods.execSync, request, { deadlineMs, ...options });
    },
    async updateContainerResources(containerId, linux, options) {
      const request = { containerId, linux, windows: undefined, annotations: {} };
      await call(methods.updateResources, request, { deadlineMs: requestTimeoutMs, ...options });
    },
    async containerStats(containerId, options) {
      const { stats } = await call(methods.stats, { containerId }, { deadlineMs: requestTimeoutMs, ...options });
      if (stats === undefined) throw new CriError("INTERNAL", methods.stats.name, `no stats for ${containerId}`);
      return stats;
    },
    async listContainerStats({ id = "", podSandboxId = "", podUid }, options) {
      const labelSelector = podUid === undefined ? {} : { [podUidLabel]: podUid };
      const request = { filter: { id, podSandboxId, labelSelector } };
      return (await call(methods.listStats, request, { deadlineMs: requestTimeoutMs, ...options })).stats;
    },
    async checkpointContainer(containerId, location, timeoutSeconds) {
      const deadlineMs = Math.max(requestTimeoutMs, timeoutSeconds * 1000);
      const timeout = BigInt(Math.ceil(deadlineMs / 1000));
      await call(methods.checkpoint, { containerId, location, timeout }, { deadlineMs });
    },
    async reopenContainerLog(containerId, options) {
      await call(methods.reopenLog, { containerId }, { deadlineMs: requestTimeoutMs, ...options });
    },
  };
}
