import type { NodeCondition } from "../../../proto/kubernetes/gen/types.ts";
import type { ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import { formatTime } from "../../../proto/kubernetes/values/time.ts";
import { driverMismatch } from "./cgroup-drivers.ts";
import type { NodeSettings } from "./node-settings.ts";
import type { NodePressure, ObservedNode, ObservedRuntime } from "./observed-node.ts";

/** A runtime that was not ready for so long counts as down, as with the kubelet; a restart takes a second or two. */
export const RUNTIME_DOWN_AFTER_MS = 30_000;

type PressureType = "MemoryPressure" | "DiskPressure" | "PIDPressure";
/** The conditions that this agent owns, in their order on a new Node. All others belong to other writers. */
export const ownConditions = [
  "MemoryPressure",
  "DiskPressure",
  "PIDPressure",
  "CgroupDriverMismatch",
  "Ready",
] as const;

interface ConditionTexts {
  readonly pressureKind: keyof NodePressure;
  readonly bad: readonly [reason: string, message: string, event: string];
  readonly good: readonly [reason: string, message: string, event: string];
}

const conditionTexts: Readonly<Record<PressureType, ConditionTexts>> = {
  MemoryPressure: {
    pressureKind: "memory",
    bad: ["KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"],
    good: ["KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"],
  },
  DiskPressure: {
    pressureKind: "disk",
    bad: ["KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"],
    good: ["KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"],
  },
  PIDPressure: {
    pressureKind: "pid",
    bad: ["KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"],
    good: ["KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"],
  },
};

/**
 * The node's conditions: those of others unchanged, ours in their places or, if new, at the end, `Ready` last. The
 * transition time changes only with the status, to the time of the first observation that found it. The kubelet does not know
 * `CgroupDriverMismatch`: a node gets it with its first mismatch, and keeps it.
 */
export function nodeConditions(
  observed: ObservedNode,
  capacity: ResourceList,
  before: readonly NodeCondition[],
  settings: Pick<NodeSettings, "localStorageCapacityIsolation">,
  now: number,
): readonly NodeCondition[] {
  const missing = missingCapacities(capacity, settings);
  const ours = new Map(
    ownConditions.flatMap((type) => {
      const last = before.find((condition) => condition.type === type);
      const content = contentOf(type, observed, [...readyProblems(observed, now), ...missing], last);
      return content === undefined ? [] : [[type as string, withTimes(content, last, now)] as const];
    }),
  );
  const merged = before.map((condition) => {
    const own = ours.get(condition.type);
    ours.delete(condition.type);
    return own ?? condition;
  });
  return [...merged, ...ours.values()];
}

/** The reason of the event for a changed condition; undefined if there is none. */
export function conditionEvent(type: string, isTrue: boolean, wasKnown: boolean): string | undefined {
  if (type === "Ready") {
    // A node that was never ready has not become unready.
    if (!isTrue && !wasKnown) return undefined;
    return isTrue ? "NodeReady" : "NodeNotReady";
  }
  return isPressureType(type) ? conditionTexts[type][isTrue ? "bad" : "good"][2] : undefined;
}

function isPressureType(type: string): type is PressureType {
  return Object.hasOwn(conditionTexts, type);
}

type ConditionContent = Pick<NodeCondition, "type" | "status" | "reason" | "message">;

/** Undefined: the condition stays as it is. */
function contentOf(
  type: (typeof ownConditions)[number],
  observed: ObservedNode,
  problems: readonly string[],
  last: NodeCondition | undefined,
): ConditionContent | undefined {
  if (type === "Ready") return readyCondition(problems);
  return type === "CgroupDriverMismatch" ? mismatchCondition(observed, last) : pressureCondition(type, observed);
}

function mismatchCondition(observed: ObservedNode, last: NodeCondition | undefined): ConditionContent | undefined {
  const type = "CgroupDriverMismatch";
  const mismatch = driverMismatch(observed);
  if (mismatch !== undefined) return { type, status: "True", reason: type, message: mismatch.message };
  const { ownCgroups, runtime } = observed;
  if (last === undefined || ownCgroups === undefined || runtime.cgroupDriver === undefined) return undefined;
  const message = `the container runtime uses the cgroup driver ${runtime.cgroupDriver.name}, which fits this agent`;
  return { type, status: "False", reason: "CgroupDriversMatch", message };
}

function pressureCondition(type: PressureType, { pressure }: ObservedNode): ConditionContent {
  const { pressureKind, good, bad } = conditionTexts[type];
  const [reason, message] = pressure[pressureKind] ? bad : good;
  return { type, status: pressure[pressureKind] ? "True" : "False", reason, message };
}

function readyCondition(problems: readonly string[]): ConditionContent {
  if (problems.length === 0)
    return { type: "Ready", status: "True", reason: "KubeletReady", message: "kubelet is posting ready status" };
  return { type: "Ready", status: "False", reason: "KubeletNotReady", message: aggregateErrors(problems) };
}

function withTimes(content: ConditionContent, before: NodeCondition | undefined, now: number): NodeCondition {
  const time = formatTime(now);
  const since = before?.status === content.status ? before.lastTransitionTime : undefined;
  return { ...content, lastHeartbeatTime: time, lastTransitionTime: since ?? time };
}

/** Why the node is not ready, with the kubelet's messages, which people and programs search for. */
function readyProblems(observed: ObservedNode, now: number): readonly string[] {
  const { runtime, isShuttingDown } = observed;
  const mismatch = driverMismatch(observed);
  return [
    ...runtimeProblems(runtime, now),
    ...networkProblems(runtime),
    ...(mismatch?.isFatal === true ? [mismatch.message] : []),
    ...(isShuttingDown ? ["node is shutting down"] : []),
  ];
}

function runtimeProblems(runtime: ObservedRuntime, now: number): readonly string[] {
  const problems: string[] = [];
  if (runtime.readyAt === undefined) problems.push("container runtime status check may not have completed yet");
  else if (!runtime.isReady && now - runtime.readyAt >= RUNTIME_DOWN_AFTER_MS)
    problems.push("container runtime is down");
  if (runtime.conditions !== undefined && !isTrue(runtime, "RuntimeReady"))
    problems.push(`container runtime not ready: ${formatRuntimeCondition(runtime, "RuntimeReady")}`);
  return problems;
}

function networkProblems(runtime: ObservedRuntime): readonly string[] {
  if (runtime.conditions === undefined) return ["network state unknown"];
  return [networkProblemOf(runtime) ?? []].flat();
}

/** Why a runtime that is connected cannot start pods; undefined if it can, or has not reported yet. */
export function runtimeProblemOf(observed: Pick<ObservedNode, "runtime" | "ownCgroups">): string | undefined {
  const { runtime } = observed;
  if (runtime.noResponse !== undefined) return runtime.noResponse;
  if (runtime.conditions === undefined) return undefined;
  if (!isTrue(runtime, "RuntimeReady")) return formatRuntimeCondition(runtime, "RuntimeReady");
  const mismatch = driverMismatch(observed);
  return mismatch?.isFatal === true ? mismatch.message : undefined;
}

/** Why the runtime has no pod network, as last reported; undefined if it has one or has not reported yet. */
export function networkProblemOf(runtime: ObservedRuntime): string | undefined {
  if (runtime.conditions === undefined || isTrue(runtime, "NetworkReady")) return undefined;
  return `container runtime network not ready: ${formatRuntimeCondition(runtime, "NetworkReady")}`;
}

/** What the runtime says of a network that is not ready, in its words alone. */
export function networkWordsOf(runtime: Pick<ObservedRuntime, "conditions">): string | undefined {
  const condition = runtime.conditions?.find(({ type }) => type === "NetworkReady");
  if (condition === undefined || condition.status) return undefined;
  return [condition.reason, condition.message].filter((word) => word !== "").join(": ") || "no reason is given";
}

function isTrue({ conditions = [] }: ObservedRuntime, type: string): boolean {
  return conditions.find((condition) => condition.type === type)?.status === true;
}

function formatRuntimeCondition({ conditions = [] }: ObservedRuntime, type: string): string {
  const content = conditions.find((condition) => condition.type === type);
  return content === undefined
    ? "<nil>"
    : `${content.type}=${content.status} reason:${content.reason} message:${content.message}`;
}

function missingCapacities(
  capacity: ResourceList,
  { localStorageCapacityIsolation }: Pick<NodeSettings, "localStorageCapacityIsolation">,
): readonly string[] {
  const needed = ["cpu", "memory", "pods", ...(localStorageCapacityIsolation ? ["ephemeral-storage"] : [])];
  const missing = needed.filter((name) => !Object.hasOwn(capacity, name));
  return missing.length === 0 ? [] : [`missing node capacity for resources: ${missing.join(", ")}`];
}

/** As Go prints an aggregate of errors: each once, in brackets if there are two or more. */
function aggregateErrors(problems: readonly string[]): string {
  const distinct = [...new Set(problems)];
  return distinct.length === 1 ? distinct.join("") : `[${distinct.join(", ")}]`;
}
