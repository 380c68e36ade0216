import type {
  AuthConfig,
  Container,
  ContainerConfig,
  ContainerStatus,
  ExecSyncResponse,
  Image,
  ImageFsInfoResponse,
  PodSandbox,
  PodSandboxConfig,
  PodSandboxStatus,
  StatusResponse,
  VersionResponse,
} from "../proto/cri/gen/api.ts";
import type { ContainerId, ImageRef, PodUid, SandboxId } from "../proto/ids.ts";
import type { CriError } from "./error.ts";

export interface CallOptions {
  /** Ends the call with CANCELLED; the runtime sees it too. */
  readonly signal?: AbortSignal;
  /** Ends the call with DEADLINE_EXCEEDED after so many milliseconds, instead of the verb's own limit. */
  readonly deadlineMs?: number;
}

export interface PullOptions extends CallOptions {
  /** Those of the pod, which some runtimes go by when they choose how to fetch and unpack. */
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Conditions are ANDed; none means everything. */
export interface SandboxFilter {
  readonly podUid?: PodUid;
  readonly id?: SandboxId;
}

/** Conditions are ANDed; none means everything. */
export interface ContainerFilter {
  readonly podUid?: PodUid;
  readonly podSandboxId?: SandboxId;
  readonly id?: ContainerId;
}

/** Where container changes come from. With `none` the caller has to relist on its own. */
export type EventSource = "cri-events" | "containerd-events" | "none";

export type ContainerChange = "created" | "started" | "stopped" | "deleted" | "unknown";

/**
 * What `Runtime.events` tells. Events are hints, not facts: whoever hears one looks at the runtime, which may follow a
 * moment later.
 */
export type RuntimeEvent =
  /** Events flow from now on, and whatever happened before may have been missed: relist everything. */
  | { readonly kind: "connected"; readonly source: EventSource }
  /** Told once an outage, also when there was no connection to lose yet. */
  | { readonly kind: "disconnected"; readonly error: CriError; readonly socket: string }
  | {
      readonly kind: "container";
      readonly change: ContainerChange;
      /** A sandbox's id where `isSandbox`, and possibly where that is undefined. */
      readonly containerId: string;
      readonly podUid?: PodUid;
      readonly podSandboxId?: SandboxId;
      /** Undefined where the source does not tell. */
      readonly isSandbox: boolean | undefined;
      /** How it ended, where the source of a stop tells it: the runtime's own status may say it some ten milliseconds later. */
      readonly exit?: ToldExit;
    };

/** The end of a container in the words of its status. */
export interface ToldExit {
  readonly exitCode: number;
  /** In nanoseconds since the epoch. */
  readonly finishedAt: bigint;
}

export type RuntimeEventListener = (event: RuntimeEvent) => void;

/**
 * What the agent needs of a container runtime, in the CRI's own verbs. Every verb rejects with a `CriError` and with
 * nothing else. Stopping or removing what is absent succeeds; the status of something absent is NOT_FOUND.
 */
export interface Runtime {
  version(options?: CallOptions): Promise<VersionResponse>;
  status(options?: CallOptions): Promise<StatusResponse>;

  /** Creates and starts a sandbox with its network. `runtimeHandler` empty means the runtime's default. */
  runPodSandbox(config: PodSandboxConfig, runtimeHandler: string, options?: CallOptions): Promise<SandboxId>;
  /** Kills what runs in the sandbox at once: containers that deserve a grace period must be stopped before. */
  stopPodSandbox(id: SandboxId, options?: CallOptions): Promise<void>;
  /** Removes the sandbox and its containers. */
  removePodSandbox(id: SandboxId, options?: CallOptions): Promise<void>;
  podSandboxStatus(id: SandboxId, options?: CallOptions): Promise<PodSandboxStatus>;
  listPodSandbox(filter: SandboxFilter, options?: CallOptions): Promise<readonly PodSandbox[]>;

  /** Prepares a container; its image must be present. `sandboxConfig` is what the sandbox was made of. */
  createContainer(
    sandboxId: SandboxId,
    config: ContainerConfig,
    sandboxConfig: PodSandboxConfig,
    options?: CallOptions,
  ): Promise<ContainerId>;
  startContainer(id: ContainerId, options?: CallOptions): Promise<void>;
  /** Sends the stop signal, then SIGKILL after the time given; settles when the container has ended. */
  stopContainer(id: ContainerId, timeoutSeconds: number, options?: CallOptions): Promise<void>;
  removeContainer(id: ContainerId, options?: CallOptions): Promise<void>;
  containerStatus(id: ContainerId, options?: CallOptions): Promise<ContainerStatus>;
  listContainers(filter: ContainerFilter, options?: CallOptions): Promise<readonly Container[]>;
  /**
   * Runs a command in a container and waits for its end. `timeoutSeconds` 0 means none; a command that takes longer is killed, and the
   * call fails with DEADLINE_EXCEEDED.
   */
  execSync(
    id: ContainerId,
    cmd: readonly string[],
    timeoutSeconds: number,
    options?: CallOptions,
  ): Promise<ExecSyncResponse>;

  /** Undefined when the image is not on this node. */
  imageStatus(image: string, options?: CallOptions): Promise<Image | undefined>;
  /** No limit of time but the caller's. */
  pullImage(
    image: string,
    auth: AuthConfig | undefined,
    sandboxConfig: PodSandboxConfig | undefined,
    options?: PullOptions,
  ): Promise<ImageRef>;
  listImages(options?: CallOptions): Promise<readonly Image[]>;
  removeImage(image: string, options?: CallOptions): Promise<void>;
  /** Where images and writable layers live, and how much they use. */
  imageFsInfo(options?: CallOptions): Promise<ImageFsInfoResponse>;

  /**
   * Tells what changes, reconnecting by itself, until the signal aborts; then it resolves.
   * Never rejects: a connection that is lost, or cannot be made, is a `disconnected` event.
   */
  events(listener: RuntimeEventListener, signal: AbortSignal): Promise<void>;
}
