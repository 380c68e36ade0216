import type { ContainerId } from "../../../proto/ids.ts";
import { allContainerStatuses } from "../../../proto/kubernetes/containers.ts";
import type { ConditionStatus, ContainerStatus, Pod, Time } from "../../../proto/kubernetes/gen/types.ts";
import { parseTime } from "../../../proto/kubernetes/values/time.ts";
import { isTerminal } from "../sources/api-pod.ts";

/**
 * What the API server has in `pod.status` and decisions depend on: results of earlier agents that neither the runtime
 * nor the disk of this node can show, and conditions that controllers set. A static pod has an empty one.
 */
export interface PreviousStatus {
  /** The terminal phase, from any writer; undefined while the pod has none. */
  readonly completion: PreviousCompletion | undefined;
  /** Set once a node agent has admitted the pod. */
  readonly startTime: Time | undefined;
  /** By container name, of any kind. */
  readonly containers: ReadonlyMap<string, ContainerStatus>;
  /** By type. */
  readonly conditions: ReadonlyMap<string, PreviousCondition>;
}

export interface PreviousCompletion {
  readonly phase: "Succeeded" | "Failed";
  /** Both are empty if not set. */
  readonly reason: string;
  readonly message: string;
}

export interface PreviousCondition {
  readonly status: ConditionStatus;
  /** The last transition; epoch milliseconds. Undefined if the time is absent or malformed. */
  readonly since: number | undefined;
}

/**
 * The only reader of `pod.status` in decisions: each decision starts with it, and everything else takes its result. So
 * this file shows what Berth relies on the API server to remember, as published status must not become memory.
 */
export function previousStatusOf({ status }: Pick<Pod, "status">): PreviousStatus {
  return {
    completion: isTerminal(status)
      ? {
          phase: status?.phase === "Succeeded" ? "Succeeded" : "Failed",
          reason: status?.reason ?? "",
          message: status?.message ?? "",
        }
      : undefined,
    startTime: status?.startTime,
    containers: byFirst(allContainerStatuses(status), ({ name }) => name),
    conditions: new Map(
      [...byFirst(status?.conditions ?? [], ({ type }) => type)].map(([type, condition]) => [
        type,
        { status: condition.status, since: toEpochMs(condition.lastTransitionTime) },
      ]),
    ),
  };
}

/** The reported status of exactly this instance, whatever runtime prefix its id has. */
export function previousStatusOfInstance(
  { containers }: Pick<PreviousStatus, "containers">,
  id: ContainerId,
): ContainerStatus | undefined {
  return [...containers.values()].find(({ containerID = "" }) => containerID.endsWith(`://${id}`));
}

/** Epoch milliseconds; undefined for no time, and for a malformed one of another writer. */
export function toEpochMs(time: Time | undefined | null): number | undefined {
  if (time === undefined || time === null) return undefined;
  try {
    return parseTime(time);
  } catch {
    // Counts as unknown.
    return undefined;
  }
}

/** By key; of several values with one key the first. */
function byFirst<T>(all: readonly T[], keyOf: (value: T) => string): ReadonlyMap<string, T> {
  return new Map(all.toReversed().map((value) => [keyOf(value), value]));
}
