import type { ResizableLimits } from "../../proto/cgroup/limits.ts";
import type { ContainerId } from "../../proto/ids.ts";
import { isObject } from "../../proto/is-object.ts";
import { isContainerAmounts } from "../../proto/kubernetes/container-amounts.ts";
import type { ResourceRequirements } from "../../proto/kubernetes/gen/types.ts";
import { parseQuantity, QuantityError } from "../../proto/kubernetes/values/quantity.ts";
import type { PodAllocation } from "../decide/resize/allocation.ts";

/**
 * What is allocated to a pod, as it lies in the pod's checkpoint. The field names are the format; see
 * `pod-checkpoint-codec.ts`.
 */
export interface AllocationRecord {
  readonly allocated: ResourcesRecord;
  /** By the name of the container. CPU in milli-CPUs and memory in bytes. */
  readonly actuated: Readonly<
    Record<
      string,
      {
        readonly id: string;
        readonly amounts: {
          readonly cpuRequest: number;
          readonly cpuLimit: number;
          readonly memoryRequest: number;
          readonly memoryLimit: number;
        };
      }
    >
  >;
  readonly pending?: {
    readonly reason: "Deferred" | "Infeasible";
    readonly message: string;
    readonly generation: number;
    /** Epoch milliseconds. */
    readonly since: number;
  };
  readonly started?: {
    readonly generation: number;
    readonly error?: string;
    /** Epoch milliseconds. */
    readonly since: number;
    readonly sandboxLimits?: {
      readonly cpuWeight: number;
      readonly cpuMax: { readonly quotaUs: number | "max"; readonly periodUs: number };
      readonly memoryMax: number | "max";
    };
  };
}

interface ResourcesRecord {
  readonly pod?: ResourceRequirements;
  readonly containers: Readonly<Record<string, ResourceRequirements>>;
}

export function toAllocationRecord({ allocated, actuated, pending, started }: PodAllocation): AllocationRecord {
  return {
    allocated: { ...(allocated.pod && { pod: allocated.pod }), containers: allocated.containers },
    actuated: mapValues(actuated, ({ id, amounts: { cpuRequest, cpuLimit, memoryRequest, memoryLimit } }) => ({
      id,
      amounts: { cpuRequest, cpuLimit, memoryRequest, memoryLimit },
    })),
    ...(pending && { pending: pendingRecord(pending) }),
    ...(started && { started: startedRecord(started) }),
  };
}

/** The allocation of a record that {@link isAllocationRecord} has checked. */
export function fromAllocationRecord({ allocated, actuated, pending, started }: AllocationRecord): PodAllocation {
  return {
    allocated: { ...(allocated.pod && { pod: allocated.pod }), containers: allocated.containers },
    actuated: mapValues(actuated, ({ id, amounts }) => ({ id: id as ContainerId, amounts })),
    ...(pending && { pending: pendingRecord(pending) }),
    ...(started && { started: startedRecord(started) }),
  };
}

function pendingRecord({ reason, message, generation, since }: NonNullable<PodAllocation["pending"]>) {
  return { reason, message, generation, since };
}

function startedRecord({ generation, error, since, sandboxLimits }: NonNullable<PodAllocation["started"]>) {
  return {
    generation,
    ...(error !== undefined && { error }),
    since,
    ...(sandboxLimits && { sandboxLimits: limitsRecord(sandboxLimits) }),
  };
}

function limitsRecord({ cpuWeight, cpuMax: { quotaUs, periodUs }, memoryMax }: ResizableLimits): ResizableLimits {
  return { cpuWeight, cpuMax: { quotaUs, periodUs }, memoryMax };
}

function mapValues<T, U>(record: Readonly<Record<string, T>>, map: (value: T) => U): Readonly<Record<string, U>> {
  return Object.fromEntries(Object.entries(record).map(([name, value]) => [name, map(value)]));
}

/** Whether a parsed value is a record whose fields are of their types and whose quantities can be read. */
export function isAllocationRecord(value: unknown): value is AllocationRecord {
  if (!isObject(value) || !isObject(value["allocated"]) || !isObject(value["actuated"])) return false;
  const { pod = {}, containers } = value["allocated"];
  const { pending = { reason: "Deferred", message: "", generation: 0, since: 0 } } = value;
  const { started = { generation: 0, since: 0 } } = value;
  return (
    isObject(containers) &&
    [pod, ...Object.values(containers)].every(isRequirements) &&
    Object.values(value["actuated"]).every(isActuated) &&
    isPending(pending) &&
    isStarted(started)
  );
}

function isRequirements(value: unknown): boolean {
  if (!isObject(value)) return false;
  return [value["requests"] ?? {}, value["limits"] ?? {}].every(
    (list) => isObject(list) && Object.values(list).every(isQuantity),
  );
}

function isQuantity(value: unknown): boolean {
  if (typeof value !== "string") return false;
  try {
    parseQuantity(value);
    return true;
  } catch (error) {
    if (error instanceof QuantityError) return false;
    throw error;
  }
}

function isActuated(value: unknown): boolean {
  return isObject(value) && typeof value["id"] === "string" && isContainerAmounts(value["amounts"]);
}

function isPending(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { reason, message, generation, since } = value;
  const isReason = reason === "Deferred" || reason === "Infeasible";
  return isReason && typeof message === "string" && [generation, since].every((each) => typeof each === "number");
}

function isStarted(value: unknown): boolean {
  if (!isObject(value)) return false;
  const { generation, error = "", since, sandboxLimits } = value;
  const hasFrame = typeof error === "string" && [generation, since].every((each) => typeof each === "number");
  return hasFrame && (sandboxLimits === undefined || isLimits(sandboxLimits));
}

function isLimits(value: unknown): boolean {
  if (!isObject(value) || !isObject(value["cpuMax"])) return false;
  const isLimit = (limit: unknown) => limit === "max" || typeof limit === "number";
  const { quotaUs, periodUs } = value["cpuMax"];
  return (
    [value["cpuWeight"], periodUs].every((each) => typeof each === "number") &&
    [quotaUs, value["memoryMax"]].every(isLimit)
  );
}
