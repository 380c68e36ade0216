import type { Runtime } from "../../../cri/runtime.ts";
import { ContainerState, PodSandboxState } from "../../../proto/cri/gen/api.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { ApiError } from "../api/api-error.ts";

/** The pod of this name on the node; undefined if there is none. */
export type FindPod = (namespace: string, name: string) => Pod | undefined;

/** Throws `ApiError` 404 with the kubelet's text. */
export function requirePod(findPod: FindPod, params: Readonly<Record<string, string>>): Pod {
  const pod = findPod(params["namespace"] ?? "", params["pod"] ?? "");
  if (pod === undefined) throw new ApiError(404, "pod does not exist");
  return pod;
}

/** `NAME_NAMESPACE`: what the kubelet calls a pod's full name. */
export function fullNameOf({ metadata }: Pod): string {
  return `${metadata.name}_${metadata.namespace}`;
}

/**
 * The running container of a pod, read from the runtime. Undefined if none of this name runs, or if the request names
 * another uid than the pod's. Rejects with `CriError`.
 */
export async function findRunningContainer(
  runtime: Pick<Runtime, "listContainers">,
  pod: Pod,
  { uid, container }: Readonly<Record<string, string>>,
): Promise<ContainerId | undefined> {
  if (uid !== undefined && uid !== pod.metadata.uid) return undefined;
  const containers = await runtime.listContainers({ podUid: pod.metadata.uid as PodUid });
  const found = containers.find(
    ({ metadata, state }) => metadata?.name === container && state === ContainerState.CONTAINER_RUNNING,
  );
  return found?.id as ContainerId | undefined;
}

/** The ready sandbox of a pod, the latest if there is more than one; undefined without. Rejects with `CriError`. */
export async function findReadySandbox(
  runtime: Pick<Runtime, "listPodSandbox">,
  pod: Pod,
): Promise<SandboxId | undefined> {
  const sandboxes = await runtime.listPodSandbox({ podUid: pod.metadata.uid as PodUid });
  const ready = sandboxes.filter(({ state }) => state === PodSandboxState.SANDBOX_READY);
  return ready.toSorted((a, b) => Number(b.createdAt - a.createdAt))[0]?.id as SandboxId | undefined;
}
