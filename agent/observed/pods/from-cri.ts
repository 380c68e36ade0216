import {
  type Container,
  ContainerState,
  type ContainerStatus,
  NamespaceMode,
  type PodSandbox,
  PodSandboxState,
  type PodSandboxStatus,
} from "../../../proto/cri/gen/api.ts";
import { fromCriSignal } from "../../../proto/cri/signal.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import {
  containerHashAnnotation,
  containerNameLabel,
  crashesAnnotation,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
} from "../../../proto/kubernetes/well-known-names.ts";
import type { ContainerUser, ObservedContainer, ObservedSandbox } from "../../decide/pod/observed.ts";

/** The pod that a sandbox or container belongs to. */
export interface Owner {
  readonly uid: PodUid;
  readonly namespace: string;
  readonly name: string;
}

/** The owner by the kubelet's labels; undefined for a sandbox or container that no kubelet created. */
export function ownerOf({ labels }: Pick<PodSandbox | Container, "labels">): Owner | undefined {
  const uid = labels[podUidLabel];
  const namespace = labels[podNamespaceLabel];
  const name = labels[podNameLabel];
  if (!uid || !namespace || !name) return undefined;
  return { uid: uid as PodUid, namespace, name };
}

/** Converts a sandbox's CRI status to the input of decisions. */
export function toObservedSandbox(status: PodSandboxStatus): ObservedSandbox {
  const { ip = "", additionalIps = [] } = status.network ?? {};
  const ips = [ip, ...additionalIps.map((each) => each.ip)].filter((each) => each !== "");
  const hostNetwork = status.linux?.namespaces?.options?.network === NamespaceMode.NODE;
  return {
    id: status.id as SandboxId,
    attempt: status.metadata?.attempt ?? 0,
    createdAt: epochMs(status.createdAt),
    ready: status.state === PodSandboxState.SANDBOX_READY,
    ips: hostNetwork ? [] : ips,
    hostNetwork,
    crashes: crashesOf(status),
  };
}

function crashesOf({ annotations }: Pick<ContainerStatus, "annotations">): number {
  const crashes = Number(annotations[crashesAnnotation] ?? 0);
  return Number.isSafeInteger(crashes) && crashes >= 0 ? crashes : 0;
}

/**
 * Converts a container's CRI status to the input of decisions. The status does not contain its sandbox, only the list
 * does.
 */
export function toObservedContainer(status: ContainerStatus, sandboxId: SandboxId): ObservedContainer {
  const identity = {
    id: status.id as ContainerId,
    name: status.metadata?.name || (status.labels[containerNameLabel] ?? ""),
    sandboxId,
    attempt: status.metadata?.attempt ?? 0,
    createdAt: epochMs(status.createdAt),
    image: status.image?.userSpecifiedImage || (status.image?.image ?? ""),
    imageRef: status.imageRef,
    hash: status.annotations[containerHashAnnotation],
    crashes: crashesOf(status),
    ...userOf(status),
    ...stopSignalOf(status),
  };
  switch (status.state) {
    case ContainerState.CONTAINER_CREATED:
      return { ...identity, state: "created" };
    case ContainerState.CONTAINER_RUNNING:
      return { ...identity, state: "running", startedAt: epochMs(status.startedAt) };
    case ContainerState.CONTAINER_EXITED:
      return {
        ...identity,
        state: "exited",
        startedAt: epochMs(status.startedAt),
        finishedAt: epochMs(status.finishedAt),
        exitCode: status.exitCode,
        reason: status.reason,
        message: status.message,
      };
    // CONTAINER_UNKNOWN, and any state of a newer runtime.
    default:
      return { ...identity, state: "unknown" };
  }
}

function userOf({ user }: ContainerStatus): { readonly user?: ContainerUser } {
  if (user?.linux === undefined) return {};
  const { uid, gid, supplementalGroups } = user.linux;
  return { user: { uid: Number(uid), gid: Number(gid), supplementalGroups: supplementalGroups.map(Number) } };
}

function stopSignalOf(status: ContainerStatus): Pick<ObservedContainer, "stopSignal"> {
  const stopSignal = fromCriSignal(status.stopSignal);
  return stopSignal === undefined ? {} : { stopSignal };
}

/** Converts a CRI time, in nanoseconds since the epoch, to milliseconds. */
function epochMs(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000n);
}
