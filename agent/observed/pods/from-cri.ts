import {
  type Container,
  ContainerState,
  type ContainerStatus,
  NamespaceMode,
  type PodSandbox,
  PodSandboxState,
  type PodSandboxStatus,
} from "../../../proto/cri/gen/api.ts";
import { signalNameOf } from "../../../proto/cri/signal.ts";
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

/** To which pod a sandbox or container belongs; undefined for those that no kubelet has made. */
export interface Owner {
  readonly uid: PodUid;
  readonly namespace: string;
  readonly name: string;
}

/** Reads the labels by which sandboxes and containers belong to pods. */
export function ownerOf({ labels }: Pick<PodSandbox | Container, "labels">): Owner | undefined {
  const uid = labels[podUidLabel];
  const namespace = labels[podNamespaceLabel];
  const name = labels[podNameLabel];
  if (!uid || !namespace || !name) return undefined;
  return { uid: uid as PodUid, namespace, name };
}

/** A sandbox's status in the words of decisions. */
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

/** A container's status in the words of decisions. Its sandbox is told by the list alone. */
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
    // CONTAINER_UNKNOWN, and every state that a newer runtime may send.
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
  const stopSignal = signalNameOf(status.stopSignal);
  return stopSignal === undefined ? {} : { stopSignal };
}

/** CRI times are nanoseconds since the epoch; decisions count in milliseconds. */
function epochMs(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000n);
}
