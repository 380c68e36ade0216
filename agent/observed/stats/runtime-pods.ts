import type { UsageDetail } from "../../../cgroups/usage.ts";
import { CriError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Log } from "../../../host/log/log.ts";
import type { ProcStats } from "../../../host/proc-stats.ts";
import type { ContainerStats } from "../../../proto/cri/gen/api.ts";
import type { ContainerReading, PodReading, UsageReading } from "../../decide/stats/readings.ts";
import { sumOfUsages } from "../../decide/stats/usage-sum.ts";
import { type ContainerIndex, type IndexedContainer, RUNTIME_DEADLINE_MS } from "./container-index.ts";
import type { CpuRatePass } from "./cpu-rates.ts";
import { usageOfRuntime } from "./from-runtime.ts";
import { includesNetwork } from "./network-detail.ts";
import type { SandboxProcesses } from "./sandbox-processes.ts";

export interface RuntimePodsDeps {
  readonly runtime: Pick<Runtime, "listContainerStats" | "listPodSandboxStats">;
  readonly processes: SandboxProcesses;
  readonly index: ContainerIndex;
  readonly proc: Pick<ProcStats, "interfaces">;
  readonly clock: Clock;
  readonly log: Log;
}

/** Reads the pods that have no cgroups of their own, as the runtime sees them. */
export interface RuntimePods {
  /** All but those with these uids. Rejects with `CriError` if the runtime cannot list its containers and their stats. */
  read(detail: UsageDetail, rates: CpuRatePass, without?: ReadonlySet<string>): Promise<readonly PodReading[]>;
}

export function createRuntimePods({ runtime, processes, index, proc, clock, log }: RuntimePodsDeps): RuntimePods {
  const options = { deadlineMs: RUNTIME_DEADLINE_MS };
  /** containerd has no figures of sandboxes without a pod's cgroup: it is asked once. */
  let hasSandboxStats = true;

  async function sandboxStats(): Promise<ReadonlyMap<string, UsageReading>> {
    if (!hasSandboxStats) return new Map();
    try {
      const stats = await runtime.listPodSandboxStats({}, options);
      const found = stats.flatMap(({ attributes, linux }) =>
        attributes === undefined || linux?.cpu === undefined
          ? []
          : [[attributes.id, usageOfRuntime(linux, clock.now())] as const],
      );
      return new Map(found);
    } catch (error) {
      if (!(error instanceof CriError)) throw error;
      hasSandboxStats = error.code === "UNAVAILABLE" || error.code === "DEADLINE_EXCEEDED";
      log.debug({ err: error }, "the runtime has no stats of sandboxes; the sums of their containers stand for them");
      return new Map();
    }
  }

  return {
    async read(detail, rates, without = new Set()) {
      const [{ sandboxes: all, containers }, stats, ofSandboxes] = await Promise.all([
        index.list(),
        runtime.listContainerStats({}, options),
        sandboxStats(),
      ]);
      const sandboxes = all.filter(({ pod }) => pod.name !== "" && !without.has(pod.uid));
      const running = includesNetwork(detail) ? await processes.of(sandboxes.map(({ id }) => id)) : undefined;
      const statsById = new Map(stats.map((each) => [each.attributes?.id ?? "", each]));
      const nowMs = clock.now();
      return sandboxes.map(({ id, pod, createdAtMs }): PodReading => {
        const own = containers.filter(({ sandboxId }) => sandboxId === id);
        const readings = own.flatMap((container) => containerReading(container, statsById.get(container.id)));
        const usage = ofSandboxes.get(id) ?? sumOfUsages(readings.flatMap((each) => each.usage ?? []));
        const { pid, image = "" } = running?.get(id) ?? {};
        return {
          ...pod,
          startedAtMs: createdAtMs,
          usage: usage && rates.withRate(id, { ...usage, startedAtMs: createdAtMs }),
          sandbox: { id, image, createdAtMs },
          containers: readings,
          interfaces: pid === undefined ? undefined : proc.interfaces(pid),
        };
      });

      function containerReading(
        { id, name, image, createdAtMs }: IndexedContainer,
        found: ContainerStats | undefined,
      ): readonly ContainerReading[] {
        // It has ended since it was listed.
        if (found?.cpu === undefined) return [];
        const usage = usageOfRuntime(found, nowMs);
        return [{ id, name, image, createdAtMs, usage: rates.withRate(id, { ...usage, startedAtMs: createdAtMs }) }];
      }
    },
  };
}
