import { CriError } from "../../../cri/error.ts";
import type { Runtime } from "../../../cri/runtime.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import { withActuated } from "../../decide/resize/instances.ts";
import { containersToMeasure } from "../../decide/resize/pod-resize.ts";

/**
 * The pod with the memory usage of those of its containers whose limit a resize is about to lower; nothing is read for
 * others. The runtime may have no figure of a container, or not find it: then that is undefined. Rejects with `CriError`
 * if the runtime is away.
 */
export async function withMemoryUsage(
  runtime: Pick<Runtime, "containerStats">,
  observed: ObservedPod,
  desired: DesiredPod | undefined,
): Promise<ObservedPod> {
  const { allocation } = desired ?? {};
  if (desired === undefined || allocation?.started === undefined) return observed;
  const ids = containersToMeasure(desired.pod, withActuated(observed, allocation));
  if (ids.length === 0) return observed;
  const usages = await Promise.all(ids.map(async (id) => [id, await usageOf(runtime, id)] as const));
  return { ...observed, memoryUsage: new Map(usages) };
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
