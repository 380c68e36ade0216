import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import type { ImageUser } from "../../../proto/cri/image-user.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { ImagePullSecret } from "../../../proto/kubelet/image-records.ts";
import type { ContainerAmounts } from "../../../proto/kubernetes/container-amounts.ts";
import type { Signal } from "../../../proto/kubernetes/gen/types.ts";
import type { PodResource } from "./resources.ts";

/** One pod as the node shows it now. Everything here was read, nothing is remembered. Times are epoch milliseconds. */
export interface ObservedPod {
  readonly uid: PodUid;
  readonly namespace: string;
  readonly name: string;
  /** Newest first: by attempt, then by creation. */
  readonly sandboxes: readonly ObservedSandbox[];
  /** All instances of all containers, newest first. */
  readonly containers: readonly ObservedContainer[];
  /**
   * The images of the containers that this pod still has to start; a missing key means that the image was not inspected
   * yet.
   */
  readonly images: ReadonlyMap<string, ImagePresence>;
  /** The highest attempt with a log file, by container name. Log files outlive containers that others remove. */
  readonly loggedAttempts: ReadonlyMap<string, number>;
  /** The last attempt of each container that `RestartAllContainers` has removed (see restart-all.ts). */
  readonly removedAttempts: ReadonlyMap<string, number>;
  /** What the pod holds on this node: its directories, the volumes of its own (emptyDirs), its user ids. */
  readonly resources: readonly PodResource[];
  /** The limits of its cgroup; absent if it has none. */
  readonly cgroup?: CgroupLimits;
  /** The instances, by {@link instanceKey}, that have started and whose `postStart` hook has not succeeded yet. */
  readonly pendingPostStartHooks: ReadonlySet<string>;
  /** The instances, by {@link instanceKey}, whose `preStop` hook has ended: it does not run again. */
  readonly endedPreStopHooks: ReadonlySet<string>;
  /** What an agent has recorded of the probes, for the next agent. Of a running container it may be out of date. */
  readonly probeMarks: readonly ProbeMark[];
  /** Bytes of memory that its cgroup uses, read while a resize is in progress; undefined where the kernel has no figure. */
  readonly cgroupMemoryBytes?: number | undefined;
  /** Bytes of memory in use, of the containers whose limit a resize lowers; undefined where the runtime has no figure. */
  readonly memoryUsage?: ReadonlyMap<ContainerId, number | undefined>;
  /** The probe results of running containers; a container without probes is missing. */
  readonly health: ReadonlyMap<ContainerId, ContainerHealth>;
  /**
   * True while an event reported an exit that the runtime's status does not show yet. Enough to report it, not to act
   * on it: an action might hit a container that still runs.
   */
  readonly hasUnconfirmedExit?: boolean;
  /**
   * Why the runtime cannot tell the status of a sandbox that it lists. Of that sandbox only the list is known: enough to
   * stop and remove it, not to run anything in it.
   */
  readonly sandboxReadError?: Error;
  /**
   * Why the runtime cannot tell the status of a container that it lists. Of that container only the list is known: enough
   * to stop and remove it, not to decide how its pod ends.
   */
  readonly containerReadError?: Error;
}

/** An instance of a container that has started, or is ready, by its probes. */
export interface ProbeMark {
  readonly mark: "started" | "ready";
  readonly name: string;
  readonly attempt: number;
}

/** What the probes of a running container have found. */
export interface ContainerHealth {
  readonly isStarted: boolean;
  readonly isReady: boolean;
  /** The probe that requires a restart. */
  readonly failedProbe?: "startup" | "liveness";
}

export interface ObservedSandbox {
  readonly id: SandboxId;
  readonly attempt: number;
  readonly createdAt: number;
  readonly ready: boolean;
  /** Addresses in the pod network, the primary first; empty with host networking. */
  readonly ips: readonly string[];
  readonly hostNetwork: boolean;
  /** How many of its predecessors in a row were short-lived when it was created (see sandbox.ts). */
  readonly crashes: number;
}

interface ContainerIdentity {
  readonly id: ContainerId;
  readonly name: string;
  readonly sandboxId: SandboxId;
  readonly attempt: number;
  readonly createdAt: number;
  /** The image as the runtime names it, and the reference that it resolved to. */
  readonly image: string;
  readonly imageRef: string;
  /** `io.kubernetes.container.hash` as written at creation; undefined for a container that another program created. */
  readonly hash: string | undefined;
  /** The user of its first process, if the runtime reports it. */
  readonly user?: ContainerUser;
  /** The signal that stops it, if the runtime reports it. */
  readonly stopSignal?: Signal;
  /** How often its predecessors crashed in a row when it was created (see restart.ts). */
  readonly crashes: number;
  /** What it runs with: what it was created with, or has since been given by a resize. Undefined for another agent's. */
  readonly amounts?: ContainerAmounts;
  /** The resources that the runtime reports, if it does. */
  readonly resources?: RuntimeResources;
}

/** CPU in milli-CPUs and memory in bytes, as the runtime reports them; what it does not limit is missing. */
export type RuntimeResources = Partial<Omit<ContainerAmounts, "memoryRequest">>;

export interface ContainerUser {
  readonly uid: number;
  readonly gid: number;
  readonly supplementalGroups: readonly number[];
}

export type ObservedContainer =
  /** `isLost`: the runtime has lost its state, so that it can be removed and not started. */
  | (ContainerIdentity & { readonly state: "created"; readonly isLost?: boolean })
  | (ContainerIdentity & { readonly state: "running"; readonly startedAt: number })
  | (ContainerIdentity & ContainerExit & { readonly state: "exited" })
  /** The runtime lost track of it, or reports a state that this release does not know: it may still run. */
  | (ContainerIdentity & { readonly state: "unknown" });

export interface ContainerExit {
  /** 0 if it never started. */
  readonly startedAt: number;
  readonly finishedAt: number;
  readonly exitCode: number;
  readonly reason: string;
  readonly message: string;
}

export type ExitedContainer = Extract<ObservedContainer, { state: "exited" }>;

export type ImagePresence =
  | {
      readonly present: true;
      readonly ref: string;
      readonly user: ImageUser;
      /** If the runtime reports it. */
      readonly sizeBytes?: number;
      /**
       * Missing if the pod may use the image. `unverified`: it was pulled with the credentials of other pods, so the
       * registry has to authorise this pod too; `pending`: that is not known yet.
       */
      readonly access?: "unverified" | "pending";
      /** A Secret of the pod that gives access to the image too, and is missing in the image's pull record. */
      readonly secretToRecord?: ImagePullSecret;
    }
  | { readonly present: false }
  /** The runtime could not answer. */
  | { readonly present: "unknown"; readonly message: string };

/** Identifies an instance of a pod's container where its CRI id is not known. */
export function instanceKey({ name, attempt }: { readonly name: string; readonly attempt: number }): string {
  return `${name} #${attempt}`;
}

/**
 * Whether a running container still waits for its `postStart` hook. Until the hook succeeds, the container has not
 * started.
 */
export function awaitsPostStart(
  { pendingPostStartHooks }: Pick<ObservedPod, "pendingPostStartHooks">,
  container: ObservedContainer,
): boolean {
  return container.state === "running" && pendingPostStartHooks.has(instanceKey(container));
}

/** The health of a container; undefined if it does not run. */
export function healthOf(
  { health, pendingPostStartHooks }: Pick<ObservedPod, "health" | "pendingPostStartHooks">,
  container: ObservedContainer,
): ContainerHealth | undefined {
  if (container.state !== "running") return undefined;
  if (awaitsPostStart({ pendingPostStartHooks }, container)) return { isStarted: false, isReady: false };
  return health.get(container.id) ?? { isStarted: true, isReady: true };
}

/** The newest instance of a container, if there is one. */
export function newestInstanceOf(observed: ObservedPod, name: string): ObservedContainer | undefined {
  return observed.containers.find((container) => container.name === name);
}

/** Whether the container may be running: then it has to be stopped before it is removed. */
export function mayBeRunning(container: ObservedContainer): boolean {
  return container.state === "running" || container.state === "unknown";
}
