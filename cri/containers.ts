import {
  ContainerStatusRequest,
  ContainerStatusResponse,
  CreateContainerRequest,
  CreateContainerResponse,
  ExecSyncRequest,
  ExecSyncResponse,
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
import type { Connection } from "./channel.ts";
import { removeWithLeftTask } from "./containerd-leftover-task.ts";
import { absentIsFine, CriError } from "./error.ts";
import { runtimeVerb } from "./rpc-method.ts";
import type { CallOptions, Runtime } from "./runtime.ts";

const verbs = {
  create: runtimeVerb("CreateContainer", CreateContainerRequest, CreateContainerResponse),
  start: runtimeVerb("StartContainer", StartContainerRequest, StartContainerResponse),
  stop: runtimeVerb("StopContainer", StopContainerRequest, StopContainerResponse),
  remove: runtimeVerb("RemoveContainer", RemoveContainerRequest, RemoveContainerResponse),
  status: runtimeVerb("ContainerStatus", ContainerStatusRequest, ContainerStatusResponse),
  list: runtimeVerb("ListContainers", ListContainersRequest, ListContainersResponse),
  execSync: runtimeVerb("ExecSync", ExecSyncRequest, ExecSyncResponse),
  updateResources: runtimeVerb(
    "UpdateContainerResources",
    UpdateContainerResourcesRequest,
    UpdateContainerResourcesResponse,
  ),
  reopenLog: runtimeVerb("ReopenContainerLog", ReopenContainerLogRequest, ReopenContainerLogResponse),
};

type AgentVerbs =
  | "createContainer"
  | "startContainer"
  | "stopContainer"
  | "removeContainer"
  | "containerStatus"
  | "listContainers"
  | "execSync";

export interface Containers extends Pick<Runtime, AgentVerbs> {
  updateContainerResources(request: UpdateContainerResourcesRequest, options?: CallOptions): Promise<void>;
  /** To be called after the log file was renamed. */
  reopenContainerLog(id: ContainerId, options?: CallOptions): Promise<void>;
}

/** The API lets a pod ask for more time than runtimes, who count it in nanoseconds, can tell from none at all; this is 68 years. */
const LONGEST_GRACE_SECONDS = 2 ** 31 - 1;

/** The verbs of containers. `requestTimeoutMs` is the deadline; StopContainer and ExecSync add their own time to it. */
export function createContainers({ call }: Connection, requestTimeoutMs: number): Containers {
  return {
    async createContainer(podSandboxId, config, sandboxConfig, options) {
      const request = { podSandboxId, config, sandboxConfig };
      const { containerId } = await call(verbs.create, request, { deadlineMs: requestTimeoutMs, ...options });
      return containerId as ContainerId;
    },
    async startContainer(containerId, options) {
      await call(verbs.start, { containerId }, { deadlineMs: requestTimeoutMs, ...options });
    },
    async stopContainer(containerId, timeoutSeconds, options) {
      const seconds = Math.min(Math.ceil(timeoutSeconds), LONGEST_GRACE_SECONDS);
      const request = { containerId, timeout: BigInt(seconds) };
      const limits = { deadlineMs: requestTimeoutMs + seconds * 1000, ...options };
      await call(verbs.stop, request, limits).catch(absentIsFine);
    },
    async removeContainer(containerId, options) {
      const limits = { deadlineMs: requestTimeoutMs, ...options };
      const remove = () => call(verbs.remove, { containerId }, limits);
      await remove()
        .catch((refusal: unknown) => removeWithLeftTask({ call }, containerId, limits, refusal, remove))
        .catch(absentIsFine);
    },
    async containerStatus(containerId, options) {
      const request = { containerId, verbose: false };
      const { status } = await call(verbs.status, request, { deadlineMs: requestTimeoutMs, ...options });
      if (status === undefined) throw new CriError("INTERNAL", verbs.status.name, `no status for ${containerId}`);
      return status;
    },
    async listContainers({ id = "", podSandboxId = "", podUid }, options) {
      const labelSelector = podUid === undefined ? {} : { [podUidLabel]: podUid };
      const request = { filter: { id, state: undefined, podSandboxId, labelSelector } };
      return (await call(verbs.list, request, { deadlineMs: requestTimeoutMs, ...options })).containers;
    },
    async execSync(containerId, cmd, timeoutSeconds, options) {
      const request = { containerId, cmd, timeout: BigInt(Math.ceil(timeoutSeconds)) };
      const deadlineMs = requestTimeoutMs + timeoutSeconds * 1000;
      return await call(verbs.execSync, request, { deadlineMs, ...options });
    },
    async updateContainerResources(request, options) {
      await call(verbs.updateResources, request, { deadlineMs: requestTimeoutMs, ...options });
    },
    async reopenContainerLog(containerId, options) {
      await call(verbs.reopenLog, { containerId }, { deadlineMs: requestTimeoutMs, ...options });
    },
  };
}
