import type { ListedSandboxes } from "../../cni/garbage.ts";
import type { Runtime } from "../../cri/runtime.ts";
import type { Clock } from "../../host/clock.ts";
import { PodSandboxState } from "../../proto/cri/gen/api.ts";

/** All sandboxes of the container runtime, and when it was asked for them. Rejects with `CriError`. */
export async function listSandboxes(
  runtime: Pick<Runtime, "listPodSandbox">,
  clock: Pick<Clock, "monotonicMs">,
): Promise<ListedSandboxes> {
  const listedAtMs = clock.monotonicMs();
  const sandboxes = await runtime.listPodSandbox({});
  return {
    isReady: new Map(sandboxes.map(({ id, state }) => [id, state === PodSandboxState.SANDBOX_READY])),
    listedAtMs,
  };
}
