// What containers of the fake runtime use and are limited to, and how that is changed while they run.
import type { CriCallOptions } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import { ContainerStats, type LinuxContainerResources } from "../../proto/cri/gen/api.ts";
import type { SandboxResources } from "../../proto/cri/sandbox-resources.ts";
import type { ContainerId, SandboxId } from "../../proto/ids.ts";
import { updatedResources } from "./runtime-objects.ts";
import type { FakeProcesses } from "./runtime-processes.ts";
import { FakeRuntimeStreaming } from "./runtime-streaming.ts";

export class FakeRuntimeResources extends FakeRuntimeStreaming {
  /** By sandbox: what UpdatePodSandboxResources has informed the runtime of. */
  readonly sandboxUpdates = new Map<SandboxId, SandboxResources>();
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

  updatePodSandboxResources(id: SandboxId, update: SandboxResources, options?: CriCallOptions): Promise<void> {
    return this.call("updatePodSandboxResources", id, options, () => {
      this.sandboxUpdates.set(this.#processes.sandbox("updatePodSandboxResources", id).id, update);
    });
  }

  containerStats(id: ContainerId, options?: CriCallOptions): Promise<ContainerStats> {
    return this.call("containerStats", this.#processes.subjectOf(id), options, () => {
      const { memoryUsageBytes: value } = this.#processes.container("containerStats", id);
      return ContainerStats.fromPartial({
        attributes: { id },
        memory: value === undefined ? {} : { usageBytes: { value } },
      });
    });
  }
}
