import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import type { CgroupDriver } from "../../../proto/kubelet/config.ts";

/** The machine's constant properties, read at the start. Unreadable values are empty or undefined. */
export interface ObservedMachine {
  /** Logical CPUs that are online. */
  readonly cpuCount: number;
  /** The kernel's list of them: `0-3,8`; empty if it is unknown. */
  readonly onlineCpus: string;
  /** `MemTotal`. */
  readonly memoryBytes: number;
  /** `SwapTotal`; 0 without swap. */
  readonly swapBytes: number;
  /** How many processes and threads the kernel allows; undefined if it is unknown. */
  readonly maxTasks?: number | undefined;
  /** All huge page sizes of the kernel, also those without pages. */
  readonly hugePages: readonly HugePages[];
  /** The size of the file system that holds the root directory. */
  readonly storageBytes: number | undefined;
  readonly machineID: string;
  readonly systemUUID: string;
  readonly bootID: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  /** As Go names it: `amd64`, `arm64`, `arm`. */
  readonly architecture: string;
  /** Whether AppArmor profiles can be enforced. */
  readonly hasAppArmor: boolean;
}

export interface HugePages {
  readonly pageBytes: number;
  readonly totalBytes: number;
}

/** What the container runtime reports about itself. */
export interface ObservedRuntime {
  /** Empty until it has responded. */
  readonly name: string;
  readonly version: string;
  /** Undefined until it has responded. */
  readonly conditions: readonly ObservedRuntimeCondition[] | undefined;
  readonly handlers: readonly RuntimeHandlerFeatures[];
  /** Undefined if the runtime does not report it. */
  readonly supplementalGroupsPolicy: boolean | undefined;
  /** Undefined if the runtime does not show it. */
  readonly cgroupDriver?: ObservedCgroupDriver | undefined;
  /** When it last reported that it is ready; undefined if never. */
  readonly readyAt: number | undefined;
  /** False while our last call has no response, or one other than ready. */
  readonly isReady: boolean;
  /** Why our last call has no response; undefined if it has one. */
  readonly noResponse?: string | undefined;
}

/** Which cgroup driver a runtime uses. */
export interface ObservedCgroupDriver {
  readonly name: CgroupDriver;
  /** The runtime reports it, and an agent takes it when it starts. Else the runtime's configuration shows it. */
  readonly isReported: boolean;
}

export interface ObservedRuntimeCondition {
  readonly type: string;
  readonly status: boolean;
  readonly reason: string;
  readonly message: string;
}

export interface RuntimeHandlerFeatures {
  /** Empty for the default handler. */
  readonly name: string;
  readonly recursiveReadOnlyMounts: boolean;
  readonly userNamespaces: boolean;
}

export interface NodeImage {
  readonly id: string;
  readonly digests: readonly string[];
  readonly tags: readonly string[];
  readonly sizeBytes: number;
}

/** The capacity of a resource and how much of it is available. */
export interface SignalObservation {
  readonly capacity: number;
  readonly available: number;
}

/** By eviction signal (`memory.available`); signals that could not be measured are missing. */
export type SignalObservations = Readonly<Record<string, SignalObservation | undefined>>;

/** Which resources the node is short of. */
export interface NodePressure {
  readonly memory: boolean;
  readonly disk: boolean;
  readonly pid: boolean;
}

/** The node as observed at one moment. */
export interface ObservedNode {
  readonly machine: ObservedMachine;
  readonly runtime: ObservedRuntime;
  /** How this agent makes cgroups; undefined until that is known. */
  readonly ownCgroups?: CgroupDriver | "none" | undefined;
  /** The node's addresses, the primary first; empty while it has none. */
  readonly addresses: readonly string[];
  /** Undefined until they were listed for the first time. */
  readonly images: readonly NodeImage[] | undefined;
  readonly pressure: NodePressure;
  /** The machine is about to shut down. */
  readonly isShuttingDown: boolean;
}

/** The eviction signals as measured at one moment. */
export interface SignalMeasurement {
  readonly at: number;
  readonly observations: SignalObservations;
}

/** What the node shows, before anything was decided about it. */
export interface NodeObservation extends Omit<ObservedNode, "pressure"> {
  /** Undefined until they were measured for the first time. */
  readonly signals: SignalMeasurement | undefined;
  /**
   * The limits of the cgroups above those of pods, by `nodeCgroupKey`; one that does not exist is missing. Undefined until they
   * were read for the first time, and where the agent makes none.
   */
  readonly cgroups?: ReadonlyMap<string, CgroupLimits> | undefined;
}

/** A runtime before its first response. */
export const unknownRuntime: ObservedRuntime = {
  name: "",
  version: "",
  conditions: undefined,
  handlers: [],
  supplementalGroupsPolicy: undefined,
  readyAt: undefined,
  isReady: false,
};

export const noPressure: NodePressure = { memory: false, disk: false, pid: false };
