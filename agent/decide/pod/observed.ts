import type { ImageUser } from "../../../proto/cri/image-user.ts";
import type { ContainerId, PodUid, SandboxId } from "../../../proto/ids.ts";
import type { Signal } from "../../../proto/kubernetes/gen/types.ts";

/** One pod as the node shows it now. Nothing here is remembered, everything was read. Times are epoch milliseconds. */
export interface ObservedPod {
  readonly uid: PodUid;
  readonly namespace: string;
  readonly name: string;
  /** Newest first: by attempt, then by creation. */
  readonly sandboxes: readonly ObservedSandbox[];
  /** All instances of all containers, newest first. */
  readonly containers: readonly ObservedContainer[];
  /** What the runtime says of the images that this pod still has to start; a missing key means nobody has asked yet. */
  readonly images: ReadonlyMap<string, ImagePresence>;
  /** The highest attempt that left a log file, by container name: it outlives containers that were removed behind our back. */
  readonly loggedAttempts: ReadonlyMap<string, number>;
  /** The last attempt of each container that was removed so that all of the pod begin anew (see restart-all.ts). */
  readonly clearedAttempts: ReadonlyMap<string, number>;
  /** True while the pod has a folder of its own on this node: volumes, logs. */
  readonly hasFiles: boolean;
  /** True while it has volumes of its own on this node: emptyDirs. */
  readonly hasVolumes: boolean;
  /** True while ids of the node are set aside for users of the pod's own. */
  readonly hasIds: boolean;
  /** The instances, by {@link instanceKey}, that were started and whose `postStart` hook has not succeeded yet. */
  readonly pendingHooks: ReadonlySet<string>;
  /** What probes say of the containers that run; one without probes is missing. */
  readonly health: ReadonlyMap<ContainerId, ContainerHealth>;
  /**
   * True while an event has told an end that the runtime itself does not show yet: enough to tell others of, and nothing to act upon,
   * since what is done to a container by then might be done to one that lives.
   */
  readonly isAhead?: boolean;
}

/** What the probes of a container that runs say of it. */
export interface ContainerHealth {
  readonly isStarted: boolean;
  readonly isReady: boolean;
  /** The probe that says that it has to be restarted. */
  readonly failed?: "startup" | "liveness";
}

export interface ObservedSandbox {
  readonly id: SandboxId;
  readonly attempt: number;
  readonly createdAt: number;
  readonly ready: boolean;
  /** Addresses of the pod's network, the primary first; empty on the host's network. */
  readonly ips: readonly string[];
  readonly hostNetwork: boolean;
  /** How many of its predecessors in a row were short-lived when it was made (see sandbox.ts). */
  readonly crashes: number;
}

interface ContainerIdentity {
  readonly id: ContainerId;
  readonly name: string;
  readonly sandboxId: SandboxId;
  readonly attempt: number;
  readonly createdAt: number;
  /** The image as the runtime names it, and the reference it resolved to. */
  readonly image: string;
  readonly imageRef: string;
  /** `io.kubernetes.container.hash` as written at creation; undefined on containers of other origin. */
  readonly hash: string | undefined;
  /** As whom its first process runs, where the runtime tells. */
  readonly user?: ContainerUser;
  /** With which signal it is stopped, where the runtime tells. */
  readonly stopSignal?: Signal;
  /** How often its predecessors crashed in a row when it was created (see restart.ts). */
  readonly crashes: number;
}

export interface ContainerUser {
  readonly uid: number;
  readonly gid: number;
  readonly supplementalGroups: readonly number[];
}

export type ObservedContainer =
  | (ContainerIdentity & { readonly state: "created" })
  | (ContainerIdentity & { readonly state: "running"; readonly startedAt: number })
  | (ContainerIdentity & ContainerExit & { readonly state: "exited" })
  /** The runtime lost track of it, or speaks of a state newer than we know: it may still run. */
  | (ContainerIdentity & { readonly state: "unknown" });

export interface ContainerExit {
  /** 0 when it never started. */
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
      /** Where the runtime tells. */
      readonly sizeBytes?: number;
      /** It was pulled by the right of others: the registry has to let this pod have it too. */
      readonly isUnverified?: true;
    }
  | { readonly present: false }
  /** The runtime could not say. */
  | { readonly present: "unknown"; readonly message: string };

/** A pod of which the node shows nothing. */
export function nothingObserved(uid: PodUid, namespace: string, name: string): ObservedPod {
  return {
    uid,
    namespace,
    name,
    sandboxes: [],
    containers: [],
    images: new Map(),
    loggedAttempts: new Map(),
    clearedAttempts: new Map(),
    hasFiles: false,
    hasVolumes: false,
    hasIds: false,
    pendingHooks: new Set(),
    health: new Map(),
  };
}

/** What tells one instance of a pod's container from the others, also for who does not know its id. */
export function instanceKey({ name, attempt }: { readonly name: string; readonly attempt: number }): string {
  return `${name} #${attempt}`;
}

/** Whether it waits for its `postStart` hook: for the pod it has not started yet. */
export function awaitsHook({ pendingHooks }: Pick<ObservedPod, "pendingHooks">, container: ObservedContainer): boolean {
  return container.state === "running" && pendingHooks.has(instanceKey(container));
}

/** What is known of a container's health; undefined for one that does not run. */
export function healthOf(
  { health, pendingHooks }: Pick<ObservedPod, "health" | "pendingHooks">,
  container: ObservedContainer,
): ContainerHealth | undefined {
  if (container.state !== "running") return undefined;
  if (awaitsHook({ pendingHooks }, container)) return { isStarted: false, isReady: false };
  return health.get(container.id) ?? { isStarted: true, isReady: true };
}

/** The newest instance of a container, or undefined when there is none. */
export function newestOf(observed: ObservedPod, name: string): ObservedContainer | undefined {
  return observed.containers.find((container) => container.name === name);
}

/** True while the container may be running: what must be stopped before it is removed. */
export function mayRun(container: ObservedContainer): boolean {
  return container.state === "running" || container.state === "unknown";
}
