import type { NodeCondition } from "../../../proto/kubernetes/gen/types.ts";
import { formatTime } from "../../../proto/kubernetes/time.ts";
import type { ResourceList } from "./node-resources.ts";
import type { NodeSettings } from "./node-settings.ts";
import type { ObservedNode, ObservedRuntime, Pressure } from "./observed-node.ts";

/** A runtime that was not seen ready for so long is down, as with the kubelet; a restart of it takes a second or two. */
export const RUNTIME_DOWN_AFTER_MS = 30_000;

type PressureType = "MemoryPressure" | "DiskPressure" | "PIDPressure";
/** The conditions that this agent speaks of, in the order in which a new Node gets them. All others are somebody else's. */
export const ownConditions = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"] as const;

interface Words {
  readonly of: keyof Pressure;
  readonly bad: readonly [reason: string, message: string, event: string];
  readonly good: readonly [reason: string, message: string, event: string];
}

const words: Readonly<Record<PressureType, Words>> = {
  MemoryPressure: {
    of: "memory",
    bad: ["KubeletHasInsufficientMemory", "kubelet has insufficient memory available", "NodeHasInsufficientMemory"],
    good: ["KubeletHasSufficientMemory", "kubelet has sufficient memory available", "NodeHasSufficientMemory"],
  },
  DiskPressure: {
    of: "disk",
    bad: ["KubeletHasDiskPressure", "kubelet has disk pressure", "NodeHasDiskPressure"],
    good: ["KubeletHasNoDiskPressure", "kubelet has no disk pressure", "NodeHasNoDiskPressure"],
  },
  PIDPressure: {
    of: "pid",
    bad: ["KubeletHasInsufficientPID", "kubelet has insufficient PID available", "NodeHasInsufficientPID"],
    good: ["KubeletHasSufficientPID", "kubelet has sufficient PID available", "NodeHasSufficientPID"],
  },
};

/**
 * The node's conditions: those of others as they are, ours in their places or, where they are new, at the end, `Ready` last. A
 * transition is a change of the status alone, and carries the time of the first look that found it.
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
    ownConditions.map((type) => {
      const found =
        type === "Ready"
          ? readyCondition([...readyProblems(observed, now), ...missing])
          : pressureCondition(type, observed);
      return [
        type as string,
        stamped(
          found,
          before.find((condition) => condition.type === type),
          now,
        ),
      ];
    }),
  );
  const kept = before.map((condition) => {
    const own = ours.get(condition.type);
    ours.delete(condition.type);
    return own ?? condition;
  });
  return [...kept, ...ours.values()];
}

/** The event that a change of a condition is told by; undefined where it is not told. */
export function conditionEvent(type: string, isTrue: boolean, wasKnown: boolean): string | undefined {
  if (type === "Ready") {
    // A node that was never ready has not become unready.
    if (!isTrue && !wasKnown) return undefined;
    return isTrue ? "NodeReady" : "NodeNotReady";
  }
  return isPressureType(type) ? words[type][isTrue ? "bad" : "good"][2] : undefined;
}

function isPressureType(type: string): type is PressureType {
  return Object.hasOwn(words, type);
}

type Found = Pick<NodeCondition, "type" | "status" | "reason" | "message">;

function pressureCondition(type: PressureType, { pressure }: ObservedNode): Found {
  const { of, good, bad } = words[type];
  const [reason, message] = pressure[of] ? bad : good;
  return { type, status: pressure[of] ? "True" : "False", reason, message };
}

function readyCondition(problems: readonly string[]): Found {
  if (problems.length === 0)
    return { type: "Ready", status: "True", reason: "KubeletReady", message: "kubelet is posting ready status" };
  return { type: "Ready", status: "False", reason: "KubeletNotReady", message: aggregate(problems) };
}

function stamped(found: Found, before: NodeCondition | undefined, now: number): NodeCondition {
  const time = formatTime(now);
  const since = before?.status === found.status ? before.lastTransitionTime : undefined;
  return { ...found, lastHeartbeatTime: time, lastTransitionTime: since ?? time };
}

/** Why the node is not ready, in the kubelet's words, which people and programs search for. */
function readyProblems({ runtime, isShuttingDown }: ObservedNode, now: number): readonly string[] {
  return [
    ...runtimeProblems(runtime, now),
    ...networkProblems(runtime),
    ...(isShuttingDown ? ["node is shutting down"] : []),
  ];
}

function runtimeProblems(runtime: ObservedRuntime, now: number): readonly string[] {
  const problems: string[] = [];
  if (runtime.readyAt === undefined) problems.push("container runtime status check may not have completed yet");
  else if (!runtime.isReady && now - runtime.readyAt >= RUNTIME_DOWN_AFTER_MS)
    problems.push("container runtime is down");
  if (runtime.conditions !== undefined && !isTrue(runtime, "RuntimeReady"))
    problems.push(`container runtime not ready: ${tell(runtime, "RuntimeReady")}`);
  return problems;
}

function networkProblems(runtime: ObservedRuntime): readonly string[] {
  if (runtime.conditions === undefined) return ["network state unknown"];
  return [networkProblemOf(runtime) ?? []].flat();
}

/** Why the runtime can give no pod a network, as it told last; undefined where it can, or has not told yet. */
export function networkProblemOf(runtime: ObservedRuntime): string | undefined {
  if (runtime.conditions === undefined || isTrue(runtime, "NetworkReady")) return undefined;
  return `container runtime network not ready: ${tell(runtime, "NetworkReady")}`;
}

function isTrue({ conditions = [] }: ObservedRuntime, type: string): boolean {
  return conditions.find((condition) => condition.type === type)?.status === true;
}

function tell({ conditions = [] }: ObservedRuntime, type: string): string {
  const found = conditions.find((condition) => condition.type === type);
  return found === undefined
    ? "<nil>"
    : `${found.type}=${found.status} reason:${found.reason} message:${found.message}`;
}

function missingCapacities(
  capacity: ResourceList,
  { localStorageCapacityIsolation }: Pick<NodeSettings, "localStorageCapacityIsolation">,
): readonly string[] {
  const needed = ["cpu", "memory", "pods", ...(localStorageCapacityIsolation ? ["ephemeral-storage"] : [])];
  const missing = needed.filter((name) => !Object.hasOwn(capacity, name));
  return missing.length === 0 ? [] : [`missing node capacity for resources: ${missing.join(", ")}`];
}

/** As Go prints several errors: each once, in brackets where there are two or more. */
function aggregate(problems: readonly string[]): string {
  const told = [...new Set(problems)];
  return told.length === 1 ? told.join("") : `[${told.join(", ")}]`;
}
