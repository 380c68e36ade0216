/** The machine as it is known from its start on. What could not be read is empty, or undefined. */
export interface ObservedMachine {
  /** Logical CPUs that are online. */
  readonly cpuCount: number;
  /** `MemTotal`. */
  readonly memoryBytes: number;
  /** `SwapTotal`; 0 without swap. */
  readonly swapBytes: number;
  /** Every size of huge pages that the kernel has, also those of which none are set aside. */
  readonly hugePages: readonly HugePages[];
  /** Of the file system that holds the root directory. */
  readonly storageBytes: number | undefined;
  readonly machineID: string;
  readonly systemUUID: string;
  readonly bootID: string;
  readonly kernelVersion: string;
  readonly osImage: string;
  /** In Go's words, as all of Kubernetes has it: `amd64`, `arm64`, `arm`. */
  readonly architecture: string;
  /** Whether profiles of AppArmor can be enforced. */
  readonly hasAppArmor: boolean;
}

export interface HugePages {
  readonly pageBytes: number;
  readonly totalBytes: number;
}

/** What the container runtime says of itself. */
export interface ObservedRuntime {
  /** Empty until it has told. */
  readonly name: string;
  readonly version: string;
  /** Undefined until it has told. */
  readonly conditions: readonly ObservedRuntimeCondition[] | undefined;
  readonly handlers: readonly OfferedFeatures[];
  /** Undefined where the runtime does not tell. */
  readonly supplementalGroupsPolicy: boolean | undefined;
  /** When it last said that it is ready; undefined when it never has. */
  readonly readyAt: number | undefined;
  /** False while our last question has had no answer, or another answer than that it is ready. */
  readonly isReady: boolean;
}

export interface ObservedRuntimeCondition {
  readonly type: string;
  readonly status: boolean;
  readonly reason: string;
  readonly message: string;
}

export interface OfferedFeatures {
  /** Empty for the default one. */
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

/** How much there is of something, and how much of that is left. */
export interface Supply {
  readonly capacity: number;
  readonly available: number;
}

/** By the signals of thresholds (`memory.available`), those that could be measured. */
export type Supplies = Readonly<Record<string, Supply | undefined>>;

/** Of which resource the node has too little. */
export interface Pressure {
  readonly memory: boolean;
  readonly disk: boolean;
  readonly pid: boolean;
}

/** The node as this agent sees it, at one moment. */
export interface ObservedNode {
  readonly machine: ObservedMachine;
  readonly runtime: ObservedRuntime;
  /** Addresses that the node is reached by, the primary first; none while it has none. */
  readonly addresses: readonly string[];
  /** Undefined until they were listed for the first time. */
  readonly images: readonly NodeImage[] | undefined;
  readonly pressure: Pressure;
  /** The machine is about to be switched off. */
  readonly isShuttingDown: boolean;
}

/** What is known of a runtime before it was asked. */
export const silentRuntime: ObservedRuntime = {
  name: "",
  version: "",
  conditions: undefined,
  handlers: [],
  supplementalGroupsPolicy: undefined,
  readyAt: undefined,
  isReady: false,
};

export const noPressure: Pressure = { memory: false, disk: false, pid: false };
