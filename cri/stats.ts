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
import type { Connection } from "./channel.ts";
import { CriError } from "./error.ts";
import { runtimeVerb } from "./rpc-method.ts";
import type { CallOptions, ContainerFilter, SandboxFilter } from "./runtime.ts";

const verbs = {
  container: runtimeVerb("ContainerStats", ContainerStatsRequest, ContainerStatsResponse),
  listContainers: runtimeVerb("ListContainerStats", ListContainerStatsRequest, ListContainerStatsResponse),
  sandbox: runtimeVerb("PodSandboxStats", PodSandboxStatsRequest, PodSandboxStatsResponse),
  listSandboxes: runtimeVerb("ListPodSandboxStats", ListPodSandboxStatsRequest, ListPodSandboxStatsResponse),
};

/** What containers and pods use, as the runtime measures it. */
export interface Stats {
  containerStats(id: ContainerId, options?: CallOptions): Promise<ContainerStats>;
  listContainerStats(filter: ContainerFilter, options?: CallOptions): Promise<readonly ContainerStats[]>;
  podSandboxStats(id: SandboxId, options?: CallOptions): Promise<PodSandboxStats>;
  listPodSandboxStats(filter: SandboxFilter, options?: CallOptions): Promise<readonly PodSandboxStats[]>;
}

/** `requestTimeoutMs` is the deadline. */
export function createStats({ call }: Connection, requestTimeoutMs: number): Stats {
  return {
    async containerStats(containerId, options) {
      const { stats } = await call(verbs.container, { containerId }, { deadlineMs: requestTimeoutMs, ...options });
      if (stats === undefined) throw new CriError("INTERNAL", verbs.container.name, `no stats for ${containerId}`);
      return stats;
    },
    async listContainerStats({ id = "", podSandboxId = "", podUid }, options) {
      const labelSelector = podUid === undefined ? {} : { [podUidLabel]: podUid };
      const request = { filter: { id, podSandboxId, labelSelector } };
      return (await call(verbs.listContainers, request, { deadlineMs: requestTimeoutMs, ...options })).stats;
    },
    async podSandboxStats(podSandboxId, options) {
      const { stats } = await call(verbs.sandbox, { podSandboxId }, { deadlineMs: requestTimeoutMs, ...options });
      if (stats === undefined) throw new CriError("INTERNAL", verbs.sandbox.name, `no stats for ${podSandboxId}`);
      return stats;
    },
    async listPodSandboxStats({ id = "", podUid }, options) {
      const labelSelector = podUid === undefined ? {} : { [podUidLabel]: podUid };
      const request = { filter: { id, labelSelector } };
      return (await call(verbs.listSandboxes, request, { deadlineMs: requestTimeoutMs, ...options })).stats;
    },
  };
}
