import {
  type ContainerStats,
  ContainerStatsRequest,
  ContainerStatsResponse,
  ListContainerStatsRequest,
  ListContainerStatsResponse,
  ListPodSandboxStatsRequest,
  ListPodSandboxStatsResponse,
  type PodSandboxStats,
  PodSandboxStatsRequest,
  PodSandboxStatsResponse,
} from "../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../proto/ids.ts";
import { podUidLabel } from "../proto/kubernetes/well-known-names.ts";
import type { Channel } from "./channel.ts";
import { CriError } from "./error.ts";
import { runtimeMethod } from "./rpc-method.ts";
import type { ContainerFilter, CriCallOptions, SandboxFilter } from "./runtime.ts";

const methods = {
  container: runtimeMethod("ContainerStats", ContainerStatsRequest, ContainerStatsResponse),
  listContainers: runtimeMethod("ListContainerStats", ListContainerStatsRequest, ListContainerStatsResponse),
  sandbox: runtimeMethod("PodSandboxStats", PodSandboxStatsRequest, PodSandboxStatsResponse),
  listSandboxes: runtimeMethod("ListPodSandboxStats", ListPodSandboxStatsRequest, ListPodSandboxStatsResponse),
};

/** The resource usage of containers and pods, as the runtime measures it. Not used by the agent yet, only by tests. */
export interface Stats {
  containerStats(id: ContainerId, options?: CriCallOptions): Promise<ContainerStats>;
  listContainerStats(filter: ContainerFilter, options?: CriCallOptions): Promise<readonly ContainerStats[]>;
  podSandboxStats(id: SandboxId, options?: CriCallOptions): Promise<PodSandboxStats>;
  listPodSandboxStats(filter: SandboxFilter, options?: CriCallOptions): Promise<readonly PodSandboxStats[]>;
}

/** `requestTimeoutMs` is the deadline. */
export function createStats({ call }: Channel, requestTimeoutMs: number): Stats {
  return {
    async containerStats(containerId, options) {
      const { stats } = await call(methods.container, { containerId }, { deadlineMs: requestTimeoutMs, ...options });
      if (stats === undefined) throw new CriError("INTERNAL", methods.container.name, `no stats for ${containerId}`);
      return stats;
    },
    async listContainerStats({ id = "", podSandboxId = "", podUid }, options) {
      const labelSelector = podUid === undefined ? {} : { [podUidLabel]: podUid };
      const request = { filter: { id, podSandboxId, labelSelector } };
      return (await call(methods.listContainers, request, { deadlineMs: requestTimeoutMs, ...options })).stats;
    },
    async podSandboxStats(podSandboxId, options) {
      const { stats } = await call(methods.sandbox, { podSandboxId }, { deadlineMs: requestTimeoutMs, ...options });
      if (stats === undefined) throw new CriError("INTERNAL", methods.sandbox.name, `no stats for ${podSandboxId}`);
      return stats;
    },
    async listPodSandboxStats({ id = "", podUid }, options) {
      const labelSelector = podUid === undefined ? {} : { [podUidLabel]: podUid };
      const request = { filter: { id, labelSelector } };
      return (await call(methods.listSandboxes, request, { deadlineMs: requestTimeoutMs, ...options })).stats;
    },
  };
}
