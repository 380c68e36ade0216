import type {
  AuthConfig,
  Container,
  ContainerConfig,
  ContainerStats,
  ContainerStatus,
  ExecSyncResponse,
  Image,
  ImageFsInfoResponse,
  LinuxContainerResources,
  PodSandbox,
  PodSandboxConfig,
  PodSandboxStats,
  PodSandboxStatus,
  StatusResponse,
  VersionResponse,
} from "../proto/cri/gen/api.ts";
import type { SandboxResources } from "../proto/cri/sandbox-resources.ts";
import type { ContainerId, ImageRef, PodUid, SandboxId } from "../proto/ids.ts";
import type { CriError } from "./error.ts";

export interface CriCallOptions {
  /** Ends the call with CANCELLED, in the runtime too. */
  readonly signal?: AbortSignal;
  /** Ends the call with DEADLINE_EXCEEDED after this time, instead of the method's default. */
  readonly deadlineMs?: number;
  /** The span that the call belongs to, as the value of the W3C header `traceparent`: the runtime's own spans join its trace. */
  readonly traceparent?: string | undefined;
}

/** The pause process of a sandbox. No standard has it: a runtime that does not report it leaves both undefined. */
export interface SandboxProcess {
  /** Undefined once it has ended. */
  readonly pid: number | undefined;
  /** The name of its image. */
  readonly image: string | undefined;
}

export interface PullOptions extends CriCallOptions {
  /** The pod's annotations: some runtimes choose by them how to fetch and unpack. */
  readonly annotations?: Readonly<Record<string, string>>;
}

/** The streams of a session with a process. At least one is needed; a terminal has no separate stderr. */
export interface ProcessStreams {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
}

/** Conditions are ANDed; an empty filter matches everything. */
export interface SandboxFilter {
  readonly podUid?: PodUid;
  readonly id?: SandboxId;
}

/** Conditions are ANDed; an empty filter matches everything. */
export interface ContainerFilter {
  readonly podUid?: PodUid;
  readonly podSandboxId?: SandboxId;
  readonly id?: ContainerId;
}

/** The source of container events. With `none` the caller has to relist periodically. */
export type RuntimeEventSource = "cri-events" | "containerd-events" | "none";

export type ContainerChange = "created" | "started" | "stopped" | "deleted" | "unknown";

/**
 * An event of `Runtime.events`. Events are hints: the listener reads the runtime's state, which may change a moment
 * later than the event arrives.
 */
export type RuntimeEvent =
  /** Events arrive from now on; earlier ones may have been missed: relist everything. */
  | { readonly kind: "connected"; readonly source: RuntimeEventSource }
  /** Once per outage, also when the first connection attempt fails. */
  | { readonly kind: "disconnected"; readonly error: CriError; readonly socket: string }
  | RuntimeContainerEvent;

/** A sandbox or container has changed. */
export interface RuntimeContainerEvent {
  readonly kind: "container";
  readonly change: ContainerChange;
  /** A sandbox's id where `isSandbox`, and possibly where that is undefined. */
  readonly containerId: string;
  readonly podUid?: PodUid;
  readonly podSandboxId?: SandboxId;
  /** Undefined if the source does not report it. */
  readonly isSandbox: boolean | undefined;
  /**
   * The exit of a stopped container, if the event carries it: the CRI status may show it some 10 ms later. CRI events do
   * not carry it, those of containerd do.
   */
  readonly exit?: EventExit;
}

/** A container's exit from an event, with the fields of its CRI status. */
export interface EventExit {
  readonly exitCode: number;
  /** In nanoseconds since the epoch. */
  readonly finishedAt: bigint;
}

export type RuntimeEventListener = (event: RuntimeEvent) => void;

/**
 * The CRI methods that the agent uses. Every method rejects with `CriError` only. Stopping or removing something absent
 * succeeds; the status of something absent is NOT_FOUND.
 */
export interface Runtime {
  version(options?: CriCallOptions): Promise<VersionResponse>;
  status(options?: CriCallOptions): Promise<StatusResponse>;

  /** Creates and starts a sandbox with its network. An empty `runtimeHandler` is the runtime's default. */
  runPodSandbox(config: PodSandboxConfig, runtimeHandler: string, options?: CriCallOptions): Promise<SandboxId>;
  /** Kills the sandbox's processes at once: containers with a grace period must be stopped before. */
  stopPodSandbox(id: SandboxId, options?: CriCallOptions): Promise<void>;
  /** Removes the sandbox and its containers. */
  removePodSandbox(id: SandboxId, options?: CriCallOptions): Promise<void>;
  /**
   * Informs the runtime of the resources of a pod's sandbox: the sum of its containers' and the overhead. UNIMPLEMENTED
   * with containerd up to 2.2.
   */
  updatePodSandboxResources(id: SandboxId, update: SandboxResources, options?: CriCallOptions): Promise<void>;
  podSandboxStatus(id: SandboxId, options?: CriCallOptions): Promise<PodSandboxStatus>;
  listPodSandbox(filter: SandboxFilter, options?: CriCallOptions): Promise<readonly PodSandbox[]>;
  /**
   * What the sandboxes that are ready use, with their containers. containerd reads the cgroup of the pod: without one it
   * refuses the whole list with UNKNOWN. UNIMPLEMENTED where the runtime has no such figures.
   */
  listPodSandboxStats(filter: SandboxFilter, options?: CriCallOptions): Promise<readonly PodSandboxStats[]>;
  /** The sandbox's pause process. */
  podSandboxProcess(id: SandboxId, options?: CriCallOptions): Promise<SandboxProcess>;

  /** Creates a container; its image must be present. `sandboxConfig` is the configuration of the running sandbox. */
  createContainer(
    sandboxId: SandboxId,
    config: ContainerConfig,
    sandboxConfig: PodSandboxConfig,
    options?: CriCallOptions,
  ): Promise<ContainerId>;
  startContainer(id: ContainerId, options?: CriCallOptions): Promise<void>;
  /** Sends the stop signal, then SIGKILL after the timeout; resolves when the container has exited. */
  stopContainer(id: ContainerId, timeoutSeconds: number, options?: CriCallOptions): Promise<void>;
  removeContainer(id: ContainerId, options?: CriCallOptions): Promise<void>;
  /** Changes the limits of a running container. For an exited one it succeeds and changes only the status. */
  updateContainerResources(
    id: ContainerId,
    resources: LinuxContainerResources,
    options?: CriCallOptions,
  ): Promise<void>;
  /** What a container uses; a field that the runtime could not measure is undefined. */
  containerStats(id: ContainerId, options?: CriCallOptions): Promise<ContainerStats>;
  /** What containers use; one that does not run has neither CPU nor memory. */
  listContainerStats(filter: ContainerFilter, options?: CriCallOptions): Promise<readonly ContainerStats[]>;
  containerStatus(id: ContainerId, options?: CriCallOptions): Promise<ContainerStatus>;
  listContainers(filter: ContainerFilter, options?: CriCallOptions): Promise<readonly Container[]>;
  /**
   * Runs a command in a container and waits for its exit. A command that takes longer than the timeout (0: none) is
   * killed, and the call fails with DEADLINE_EXCEEDED.
   */
  execSync(
    id: ContainerId,
    cmd: readonly string[],
    timeoutSeconds: number,
    options?: CriCallOptions,
  ): Promise<ExecSyncResponse>;

  /**
   * Lets the runtime create the log file of a running container again, after the file was renamed. From the answer on the
   * container writes to the new one.
   */
  reopenContainerLog(id: ContainerId, options?: CriCallOptions): Promise<void>;

  /**
   * Prepares a session with a new process in a running container. Resolves with the URL, on the runtime's streaming
   * server, at which the session starts; it can be used once, within minutes.
   */
  exec(id: ContainerId, cmd: readonly string[], streams: ProcessStreams, options?: CriCallOptions): Promise<string>;
  /** As `exec`, for the main process of a running container. */
  attach(id: ContainerId, streams: ProcessStreams, options?: CriCallOptions): Promise<string>;
  /** As `exec`, for connections to ports in the network of a ready sandbox. Only clients of WebSockets fix the ports. */
  portForward(id: SandboxId, ports: readonly number[], options?: CriCallOptions): Promise<string>;

  /** Undefined if the image is not on this node. */
  imageStatus(image: string, options?: CriCallOptions): Promise<Image | undefined>;
  /** Has no deadline but the caller's. */
  pullImage(
    image: string,
    auth: AuthConfig | undefined,
    sandboxConfig: PodSandboxConfig | undefined,
    options?: PullOptions,
  ): Promise<ImageRef>;
  listImages(options?: CriCallOptions): Promise<readonly Image[]>;
  removeImage(image: string, options?: CriCallOptions): Promise<void>;
  /** The file systems of images and writable layers, with their usage. */
  imageFsInfo(options?: CriCallOptions): Promise<ImageFsInfoResponse>;

  /**
   * Reports container events and reconnects by itself, until the signal aborts; then it resolves. Never rejects: a lost
   * or failed connection is a `disconnected` event, and so is each change of its reason.
   */
  events(listener: RuntimeEventListener, signal: AbortSignal): Promise<void>;
}
