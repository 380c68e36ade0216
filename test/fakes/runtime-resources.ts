// What containers of the fake runtime use and are limited to, and how that is changed while they run.
import type { ContainerFilter, CriCallOptions, SandboxFilter, SandboxProcess } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import {
  ContainerStats,
  type LinuxContainerResources,
  PodSandboxState,
  PodSandboxStats,
} from "../../proto/cri/gen/api.ts";
import type { SandboxResources } from "../../proto/cri/sandbox-resources.ts";
import type { ContainerId, SandboxId } from "../../proto/ids.ts";
import {
  type FakeContainer,
  isRunning,
  matchesContainerFilter,
  matchesSandboxFilter,
  unknownError,
  updatedResources,
} from "./runtime-objects.ts";
import type { FakeProcesses } from "./runtime-processes.ts";
import { FakeRuntimeStreaming } from "./runtime-streaming.ts";

export class FakeRuntimeResources extends FakeRuntimeStreaming {
  /** By sandbox: what UpdatePodSandboxResources has informed the runtime of. */
  readonly sandboxUpdates = new Map<SandboxId, SandboxResources>();
  /** The pause process of every sandbox. */
  sandboxProcess: SandboxProcess = { pid: 4242, image: "fake.test/pause:1" };
  readonly #processes: FakeProcesses;

  constructor(clock: Clock, requestTimeoutMs: number, processes: FakeProcesses) {
    super(clock, requestTimeoutMs, processes);
    this.#processes = processes;
  }

  updateContainerResources(
    id: ContainerId,
    resources: LinuxContainerResources,
    options?: CriCallOptions,
  ): Promise<void> {
    return this.call("updateContainerResources", this.#processes.subjectOf(id), options, () => {
      const container = this.#processes.container("updateContainerResources", id);
      container.resources = updatedResources(container.resources, resources);
    });
  }

  reopenContainerLog(id: ContainerId, options?: CriCallOptions): Promise<void> {
    return this.call("reopenContainerLog", this.#processes.subjectOf(id), options, () => {
      if (!isRunning(this.#processes.container("reopenContainerLog", id)))
        throw unknownError("reopenContainerLog", "container is not running");
    });
  }

  updatePodSandboxResources(id: SandboxId, update: SandboxResources, options?: CriCallOptions): Promise<void> {
    return this.call("updatePodSandboxResources", id, options, () => {
      this.sandboxUpdates.set(this.#processes.sandbox("updatePodSandboxResources", id).id, update);
    });
  }

  containerStats(id: ContainerId, options?: CriCallOptions): Promise<ContainerStats> {
    return this.call("containerStats", this.#processes.subjectOf(id), options, () =>
      toContainerStats(this.#processes.container("containerStats", id)),
    );
  }

  listContainerStats(filter: ContainerFilter, options?: CriCallOptions): Promise<readonly ContainerStats[]> {
    return this.call("listContainerStats", filter.podUid ?? filter.podSandboxId ?? filter.id ?? "", options, () =>
      this.#containers(filter).map(toContainerStats),
    );
  }

  listPodSandboxStats(filter: SandboxFilter, options?: CriCallOptions): Promise<readonly PodSandboxStats[]> {
    return this.call("listPodSandboxStats", filter.podUid ?? filter.id ?? "", options, () =>
      [...this.#processes.sandboxes.values()]
        .filter((each) => each.state === PodSandboxState.SANDBOX_READY && matchesSandboxFilter(each, filter))
        .map(({ id, config }) =>
          PodSandboxStats.fromPartial({
            attributes: { id, ...(config.metadata && { metadata: config.metadata }), labels: config.labels },
            linux: { containers: this.#containers({ podSandboxId: id }).map(toContainerStats) },
          }),
        ),
    );
  }

  podSandboxProcess(id: SandboxId, options?: CriCallOptions): Promise<SandboxProcess> {
    return this.call("podSandboxProcess", id, options, () => {
      const { state } = this.#processes.sandbox("podSandboxProcess", id);
      return state === PodSandboxState.SANDBOX_READY ? this.sandboxProcess : { ...this.sandboxProcess, pid: undefined };
    });
  }

  #containers(filter: ContainerFilter): readonly FakeContainer[] {
    return [...this.#processes.containers.values()].filter((each) => matchesContainerFilter(each, filter));
  }
}

function toContainerStats(container: FakeContainer): ContainerStats {
  const { id, config, memoryUsageBytes: value, writableBytes } = container;
  return ContainerStats.fromPartial({
    attributes: { id, labels: config.labels, ...(config.metadata && { metadata: config.metadata }) },
    ...(isRunning(container) && {
      cpu: { usageCoreNanoSeconds: { value: 1_000_000n } },
      memory: value === undefined ? {} : { usageBytes: { value }, workingSetBytes: { value } },
    }),
    writableLayer: { usedBytes: { value: writableBytes } },
  });
}
