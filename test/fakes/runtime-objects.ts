// The sandboxes, containers and programs of the fake runtime, and how CRI's messages show them.
import { isDeepStrictEqual } from "node:util";
import { CriError } from "../../cri/error.ts";
import type { ContainerFilter, SandboxFilter } from "../../cri/runtime.ts";
import {
  type Container,
  type ContainerConfig,
  ContainerState,
  ContainerStatus,
  type ContainerUser,
  type LinuxContainerResources,
  NamespaceMode,
  type PodSandbox,
  type PodSandboxConfig,
  PodSandboxState,
  PodSandboxStatus,
  SupplementalGroupsPolicy,
  type UserNamespace,
} from "../../proto/cri/gen/api.ts";
import type { ContainerId, SandboxId } from "../../proto/ids.ts";
import { podUidLabel } from "../../proto/kubernetes/well-known-names.ts";

/** How a container's process behaves. By default it runs until SIGTERM, and then exits at once. */
export interface Program {
  readonly exitsAfterMs?: number;
  readonly exitCode?: number;
  /** The reaction to SIGTERM; with `ignores` the whole grace period passes. */
  readonly onTerm?: "exits" | "ignores";
  /** Makes StartContainer fail, as for a binary that does not exist. */
  readonly startError?: string;
  /** What it writes to its root file system, once it has started. */
  readonly writtenBytes?: number;
}

/** The result of a command that is run in a container by ExecSync. */
export interface FakeCommand {
  readonly exitCode?: number;
  readonly stdout?: string;
  readonly stderr?: string;
  readonly lastsMs?: number;
}

/** The network of sandboxes, which the runtime sets up before it lists one, and tears down when it stops one. */
export interface SandboxNetwork {
  /** Resolves with the sandbox's address. Rejects with `CriError` after it has deleted what it has made. */
  setUp(id: SandboxId, config: PodSandboxConfig): Promise<string>;
  /** Absent is success. */
  tearDown(id: SandboxId, config: PodSandboxConfig): Promise<void>;
}

export interface FakeSandbox {
  readonly id: SandboxId;
  readonly config: PodSandboxConfig;
  readonly runtimeHandler: string;
  readonly createdAt: bigint;
  readonly ip: string;
  state: PodSandboxState;
  /** Set once its process has exited, until its status shows that. */
  unshownExit: UnshownExit | undefined;
}

export interface FakeContainer {
  readonly id: ContainerId;
  readonly sandbox: FakeSandbox;
  readonly config: ContainerConfig;
  readonly imageRef: string;
  readonly createdAt: bigint;
  /** What it was created with, or was last given by UpdateContainerResources. */
  resources: LinuxContainerResources;
  /** What ContainerStats reports of it; undefined for no figure. */
  memoryUsageBytes: bigint | undefined;
  /** The used bytes of its writable layer. An empty one has a directory. */
  writableBytes: bigint;
  state: ContainerState;
  startedAt: bigint;
  finishedAt: bigint;
  exitCode: number;
  reason: string;
  message: string;
  cancelTimer: () => void;
  /** Set once its process has exited, until its status shows that. */
  unshownExit: UnshownExit | undefined;
  readonly onEnd: Set<() => void>;
}

/** An exit that the runtime knows of and that its status does not show yet. */
interface UnshownExit {
  show(): void;
  readonly shown: Promise<void>;
  /** Whether the runtime has not deleted the task yet. A stop that finds none does not wait for the status. */
  hasTask: boolean;
}

export const noop = () => {};
export const notFound = (verb: string, what: string) => new CriError("NOT_FOUND", verb, `${what}: not found`);
export const unknownError = (verb: string, message: string) => new CriError("UNKNOWN", verb, message);

export function sandboxName({ metadata }: PodSandboxConfig): string {
  return `${metadata?.namespace}/${metadata?.name} #${metadata?.attempt}`;
}

/** The runtime reserves a sandbox name that contains the pod's uid, so pods of the same name do not conflict. */
export function isSameSandbox(a: PodSandboxConfig, b: PodSandboxConfig): boolean {
  return sandboxName(a) === sandboxName(b) && a.metadata?.uid === b.metadata?.uid;
}

export function containerName(sandbox: PodSandboxConfig, { metadata }: ContainerConfig): string {
  return `${sandbox.metadata?.namespace}/${sandbox.metadata?.name}/${metadata?.name} #${metadata?.attempt}`;
}

export const haveSameUserNamespace = (a: ContainerConfig["linux"], b: PodSandboxConfig["linux"]) =>
  isDeepStrictEqual(userNamespaceOf(a), userNamespaceOf(b));

/** The pod's own user namespace; undefined if it uses the node's. */
function userNamespaceOf(linux: ContainerConfig["linux"] | PodSandboxConfig["linux"]): UserNamespace | undefined {
  const userNamespace = linux?.securityContext?.namespaceOptions?.usernsOptions;
  return userNamespace?.mode === NamespaceMode.POD && userNamespace.uids.length > 0 ? userNamespace : undefined;
}

/** What UpdateContainerResources makes of these resources: a field of 0 leaves what the container has, as in containerd. */
export function updatedResources(
  before: LinuxContainerResources,
  update: LinuxContainerResources,
): LinuxContainerResources {
  const set = Object.entries(update).filter(([, value]) => typeof value === "bigint" && value !== 0n);
  return { ...before, ...Object.fromEntries(set), unified: { ...before.unified, ...update.unified } };
}

/** Whether its process runs; its status may show that still when it does not any more. */
export const isRunning = ({ state, unshownExit }: FakeContainer) =>
  state === ContainerState.CONTAINER_RUNNING && unshownExit === undefined;

export const matchesSandboxFilter = (sandbox: FakeSandbox, { id, podUid }: SandboxFilter) =>
  (id === undefined || sandbox.id === id) && (podUid === undefined || sandbox.config.labels[podUidLabel] === podUid);

export const matchesContainerFilter = (container: FakeContainer, { id, podSandboxId, podUid }: ContainerFilter) =>
  (id === undefined || container.id === id) &&
  (podSandboxId === undefined || container.sandbox.id === podSandboxId) &&
  (podUid === undefined || container.config.labels[podUidLabel] === podUid);

export function toPodSandboxStatus(sandbox: FakeSandbox): PodSandboxStatus {
  const { id, config, createdAt, state, runtimeHandler, ip } = sandbox;
  const namespaces = { options: config.linux?.securityContext?.namespaceOptions ?? {} };
  return PodSandboxStatus.fromPartial({
    id,
    ...(config.metadata === undefined ? {} : { metadata: config.metadata }),
    state,
    createdAt,
    network: { ip: state === PodSandboxState.SANDBOX_READY ? ip : "" },
    linux: { namespaces },
    labels: config.labels,
    annotations: config.annotations,
    runtimeHandler,
  });
}

export const toPodSandbox = ({ id, config, state, createdAt, runtimeHandler }: FakeSandbox): PodSandbox => ({
  id,
  metadata: config.metadata,
  state,
  createdAt,
  labels: config.labels,
  annotations: config.annotations,
  runtimeHandler,
});

/** The status of a container whose image has the name `imageName`, undefined if the image is not on the node any more. */
export function toContainerStatus(
  { id, config, sandbox, ...container }: FakeContainer,
  imageName: string | undefined,
  user: Pick<ContainerUser, "linux"> | undefined,
): ContainerStatus {
  const { imageRef, state, createdAt, startedAt, finishedAt, exitCode, reason, message, resources } = container;
  return ContainerStatus.fromPartial({
    id,
    imageRef,
    state,
    createdAt,
    startedAt,
    finishedAt,
    exitCode,
    reason,
    message,
    ...(config.metadata === undefined ? {} : { metadata: config.metadata }),
    image: { ...config.image, image: imageName ?? config.image?.image ?? "" },
    labels: config.labels,
    annotations: config.annotations,
    mounts: config.mounts,
    ...(user && { user }),
    resources: { linux: resources },
    logPath: config.logPath === "" ? "" : `${sandbox.config.logDirectory}/${config.logPath}`,
  });
}

/**
 * The user of the first process, which newer runtimes report; as in containerd, supplementalGroups contains the primary
 * group. `imageGroups` are those of each user by the image.
 */
export function toContainerUser(
  { linux }: ContainerConfig,
  imageGroups: ReadonlyMap<bigint, readonly bigint[]>,
): Pick<ContainerUser, "linux"> {
  const { runAsUser, runAsGroup, supplementalGroups = [], supplementalGroupsPolicy } = linux?.securityContext ?? {};
  const [uid, gid] = [runAsUser?.value ?? 0n, runAsGroup?.value ?? 0n];
  const isStrict = supplementalGroupsPolicy === SupplementalGroupsPolicy.Strict;
  const ofImage = isStrict ? [] : (imageGroups.get(uid) ?? []);
  return { linux: { uid, gid, supplementalGroups: [...new Set([gid, ...supplementalGroups, ...ofImage])] } };
}

export const toListedContainer = ({ id, sandbox, config, imageRef, state, createdAt }: FakeContainer): Container => ({
  id,
  podSandboxId: sandbox.id,
  metadata: config.metadata,
  image: config.image,
  imageRef,
  state,
  createdAt,
  labels: config.labels,
  annotations: config.annotations,
  imageId: "",
});

/** The conditions of a runtime's status; a text is the message of a condition that is false. */
type FakeConditions = Record<"RuntimeReady" | "NetworkReady", boolean | string>;

/** The conditions as the Status call has them. */
export const toConditions = (conditions: FakeConditions) =>
  Object.entries(conditions).map(([type, value]) => ({
    type,
    status: value === true,
    message: typeof value === "string" ? value : "",
  }));
