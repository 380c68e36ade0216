import type { EventExit } from "../../../cri/runtime.ts";
import { quotaToMilliCpu, sharesToMilliCpu } from "../../../proto/cgroup/cpu-units.ts";
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
import { parseAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import {
  amountsAnnotation,
  containerHashAnnotation,
  containerNameLabel,
  crashesAnnotation,
  podNameLabel,
  podNamespaceLabel,
  podUidLabel,
} from "../../../proto/kubernetes/well-known-names.ts";
import { SIGKILL_EXIT_CODE } from "../../decide/container/oom-reason.ts";
import type { ContainerUser, ObservedContainer, ObservedSandbox, RuntimeResources } from "../../decide/pod/observed.ts";

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

/** Converts the list entry of a sandbox whose status cannot be read; `known` is what the last status has shown. */
export function listedSandbox(sandbox: PodSandbox, known: ObservedSandbox | undefined): ObservedSandbox {
  return {
    ips: [],
    hostNetwork: false,
    crashes: crashesOf(sandbox),
    ...known,
    id: sandbox.id as SandboxId,
    attempt: sandbox.metadata?.attempt ?? 0,
    createdAt: epochMs(sandbox.createdAt),
    ready: sandbox.state === PodSandboxState.SANDBOX_READY,
  };
}

/**
 * The crashes of a container, by which its restart waits. The kubelet keeps its own count in its memory, so one of its
 * containers has the restarts before it instead: no container of a crash loop starts early after a change of agents.
 */
function containerCrashesOf({ annotations, metadata }: Pick<ContainerStatus, "annotations" | "metadata">): number {
  return annotations[crashesAnnotation] === undefined ? (metadata?.attempt ?? 0) : crashesOf({ annotations });
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
    ...identityOf(status, sandboxId),
    ...userOf(status),
    ...stopSignalOf(status),
    ...resourcesOf(status),
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
        startedAt: startOf(epochMs(status.startedAt), epochMs(status.finishedAt)),
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

/**
 * When an exited container started, in milliseconds since the epoch, and never after its end; 0 if it never started.
 * containerd notes the time when its start returns: on a busy machine, a container that ran for an instant has ended by
 * then.
 */
const startOf = (startedAt: number, finishedAt: number) =>
  finishedAt === 0 ? startedAt : Math.min(startedAt, finishedAt);

/**
 * Converts the list entry of a container whose status cannot be read. `known` is what the last status has shown, and
 * `eventExit` the exit that an event has reported.
 */
export function listedContainer(
  container: Container,
  known: ObservedContainer | undefined,
  eventExit: EventExit | undefined,
): ObservedContainer {
  const identity = { ...known, ...identityOf(container, container.podSandboxId as SandboxId) };
  const startedAt = known !== undefined && "startedAt" in known ? known.startedAt : identity.createdAt;
  switch (container.state) {
    case ContainerState.CONTAINER_CREATED:
      return { ...identity, state: "created" };
    case ContainerState.CONTAINER_RUNNING:
      return { ...identity, state: "running", startedAt };
    case ContainerState.CONTAINER_EXITED:
      return known?.state === "exited"
        ? known
        : { ...identity, ...unreadableExit, startedAt, ...(eventExit && toExit(eventExit)), state: "exited" };
    default:
      return { ...identity, state: "unknown" };
  }
}

/** As of a container that has disappeared. */
const unreadableExit = {
  finishedAt: 0,
  exitCode: SIGKILL_EXIT_CODE,
  reason: "ContainerStatusUnknown",
  message: "The container runtime lists the container as exited and cannot tell its status",
};

const toExit = ({ exitCode, finishedAt }: EventExit) => ({
  exitCode,
  finishedAt: epochMs(finishedAt),
  reason: reasonOfExit(exitCode),
  message: "",
});

/** The runtime's reason of an exit, as far as its code tells. */
export const reasonOfExit = (exitCode: number): string => (exitCode === 0 ? "Completed" : "Error");

function identityOf(container: Omit<Container, "state" | "podSandboxId" | "imageId">, sandboxId: SandboxId) {
  const amounts = parseAmounts(container.annotations[amountsAnnotation]);
  return {
    ...(amounts && { amounts }),
    id: container.id as ContainerId,
    name: container.metadata?.name || (container.labels[containerNameLabel] ?? ""),
    sandboxId,
    attempt: container.metadata?.attempt ?? 0,
    createdAt: epochMs(container.createdAt),
    image: container.image?.image ?? "",
    imageRef: container.imageRef,
    hash: container.annotations[containerHashAnnotation],
    crashes: containerCrashesOf(container),
  };
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

/** A runtime that reports no resources at all is older than CRI's field. Rule: the kubelet's toKubeContainerResources. */
function resourcesOf({ resources }: ContainerStatus): { readonly resources?: RuntimeResources } {
  if (resources?.linux === undefined) return {};
  const { cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes } = resources.linux;
  const cpuRequest = sharesToMilliCpu(Number(cpuShares));
  const cpuLimit = quotaToMilliCpu(Number(cpuQuota), Number(cpuPeriod));
  const memoryLimit = Number(memoryLimitInBytes);
  if (cpuRequest === 0 && cpuLimit === 0 && memoryLimit <= 0) return {};
  return {
    resources: {
      ...(cpuRequest > 0 && { cpuRequest }),
      ...(cpuLimit > 0 && { cpuLimit }),
      ...(memoryLimit > 0 && { memoryLimit }),
    },
  };
}

/** Converts a CRI time, in nanoseconds since the epoch, to milliseconds. */
function epochMs(nanoseconds: bigint): number {
  return Number(nanoseconds / 1_000_000n);
}
