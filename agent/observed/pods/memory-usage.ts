import { CriError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import { withActuated } from "../../decide/resize/instances.ts";
import { containersToMeasure } from "../../decide/resize/pod-resize.ts";
import type { PodCgroupReader } from "./pod-cgroups.ts";

/** What reads the memory usage of containers, and of the pods' cgroups where pods have them. */
export interface MemoryUsageReaders {
  readonly runtime: Pick<Runtime, "containerStats">;
  readonly podCgroups: Pick<PodCgroupReader, "memoryBytes"> | undefined;
}

/**
 * The pod with the memory usage of its cgroup, and of those of its containers whose limit a resize is about to lower;
 * nothing is read for others. The runtime may have no figure of a container, or not find it: then that is undefined.
 * Rejects with `CriError` if the runtime is away, and with `CgroupError` if the cgroup cannot be read.
 */
export async function withMemoryUsage(
  { runtime, podCgroups }: MemoryUsageReaders,
  observed: ObservedPod,
  desired: DesiredPod | undefined,
): Promise<ObservedPod> {
  const { allocation } = desired ?? {};
  if (desired === undefined || allocation?.started === undefined) return observed;
  const measured =
    observed.cgroup === undefined || podCgroups === undefined
      ? observed
      : { ...observed, cgroupMemoryBytes: await podCgroups.memoryBytes(observed.uid) };
  const ids = containersToMeasure(desired.pod, withActuated(observed, allocation));
  if (ids.length === 0) return measured;
  const usages = await Promise.all(ids.map(async (id) => [id, await usageOf(runtime, id)] as const));
  return { ...measured, memoryUsage: new Map(usages) };
}

async function usageOf(
  runtime: Pick<Runtime, "containerStats">,
  id: ObservedPod["containers"][0]["id"],
): Promise<number | undefined> {
  try {
    const { memory } = await runtime.containerStats(id);
    return memory?.usageBytes === undefined ? undefined : Number(memory.usageBytes.value);
  } catch (error) {
    if (!(error instanceof CriError) || error.code === "UNAVAILABLE") throw error;
    return undefined;
  }
}
