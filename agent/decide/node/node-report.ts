import type { Node, NodeStatus, ObjectReference, Taint } from "../../../proto/kubernetes/gen/types.ts";
import { conditionEvent, ownConditions, RUNTIME_DOWN_AFTER_MS } from "./node-conditions.ts";
import { ownLabels } from "./node-labels.ts";
import { differences, type NodePart, type NodePatch, nodeStatusPatch } from "./node-patch.ts";
import { isExtendedResource, isHugePages, type ResourceList } from "./node-resources.ts";
import type { NodeSettings } from "./node-settings.ts";
import { nodeStatus } from "./node-status.ts";
import type { ObservedNode } from "./observed-node.ts";

const ATTACH_ANNOTATION = "volumes.kubernetes.io/controller-managed-attach-detach";
const NODE_IP_ANNOTATION = "alpha.kubernetes.io/provided-node-ip";
const UNINITIALIZED: Taint = {
  key: "node.cloudprovider.kubernetes.io/uninitialized",
  value: "true",
  effect: "NoSchedule",
};

/** What this agent wants a Node of its name to carry, also one that others have made; `--node-labels` may set their values. */
const defaultLabels: readonly string[] = [
  "kubernetes.io/hostname",
  "topology.kubernetes.io/zone",
  "topology.kubernetes.io/region",
  "failure-domain.beta.kubernetes.io/zone",
  "failure-domain.beta.kubernetes.io/region",
  "node.kubernetes.io/instance-type",
  "beta.kubernetes.io/instance-type",
  "kubernetes.io/os",
  "kubernetes.io/arch",
  "beta.kubernetes.io/os",
  "beta.kubernetes.io/arch",
];

/** The Node that is created where there is none. */
export function initialNode(observed: ObservedNode, settings: NodeSettings, now: number): Node {
  const { nodeName, labels, registerWithTaints, providerID, isCloudExternal } = settings;
  const taints = [...registerWithTaints, ...(isCloudExternal ? [UNINITIALIZED] : [])];
  const annotations = annotationsOver({}, settings);
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name: nodeName,
      labels: { ...ownLabels(observed.machine, nodeName), ...labels },
      ...(Object.keys(annotations).length === 0 ? {} : { annotations }),
    },
    spec: {
      ...(taints.length === 0 ? {} : { taints }),
      ...(providerID === "" ? {} : { providerID }),
    },
    status: nodeStatus(observed, {}, settings, now),
  };
}

/**
 * A Node that was there before us, with what of it this agent sets once, when it registers: default labels, the annotation about
 * attaching, sizes of huge pages that the kernel has no more. Taints and other labels belong to whoever administers the node. Devices
 * are an earlier agent's: none are handed out here, so none are there to be had.
 */
export function reconcileNode(existing: Node, observed: ObservedNode, settings: NodeSettings): Node {
  const wanted: Readonly<Record<string, string>> = {
    ...ownLabels(observed.machine, settings.nodeName),
    ...settings.labels,
  };
  const labels = { ...existing.metadata.labels };
  for (const name of defaultLabels) {
    const value = wanted[name];
    if (value === "") delete labels[name];
    else if (value !== undefined) labels[name] = value;
  }
  const { [ATTACH_ANNOTATION]: _, ...annotations } = existing.metadata.annotations ?? {};
  const sizes = new Set(Object.keys(nodeStatus(observed, {}, settings, 0).capacity ?? {}).filter(isHugePages));
  const supported = (resources: ResourceList = {}): ResourceList =>
    Object.fromEntries(
      Object.entries(resources)
        .filter(([name]) => !isHugePages(name) || sizes.has(name))
        .map(([name, amount]) => [name, isExtendedResource(name) ? "0" : amount]),
    );
  const { capacity, allocatable } = existing.status ?? {};
  return {
    ...existing,
    metadata: { ...existing.metadata, labels, annotations: annotationsOver(annotations, settings) },
    status: { ...existing.status, capacity: supported(capacity), allocatable: supported(allocatable) },
  };
}

/** What a report may be told of afterwards; `record` turns it into an Event. */
export interface NodeEvent {
  readonly object: ObjectReference;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/** What is kept between two looks at the node. Lost, the next look reports everything, as at a start. */
export interface NodeMemory {
  /** The uid of the Node that this run of the agent has made, or reconciled. */
  readonly uid: string | undefined;
  /** When the server took our last report. */
  readonly reportedAt: number | undefined;
  /** By how much the next report that nothing calls for is later, or earlier, than the frequency says. */
  readonly spreadMs: number;
  readonly isUnschedulable: boolean;
  /** What of the last report others depend on, as text: something else of it is news, and does not wait. */
  readonly told: string;
  /** What the server has taken and does not keep, as text by part: one of an older release lacks some of the fields. */
  readonly notKept: ReadonlyMap<NodePart, string>;
}

export const emptyNodeMemory: NodeMemory = {
  uid: undefined,
  reportedAt: undefined,
  spreadMs: 0,
  isUnschedulable: false,
  told: "",
  notKept: new Map(),
};

export interface NodeDecision {
  /** What to send; undefined: nothing. */
  readonly patch: NodePatch | undefined;
  /** The Node as it is to be. */
  readonly wanted: Node;
  /** To be told once the patch was taken, or at once where there is none. */
  readonly events: readonly NodeEvent[];
  /** The memory once the patch was taken. */
  readonly memory: NodeMemory;
  /** When to look again, if nothing else calls for it. */
  readonly lookAgainAt: number;
}

/**
 * What to report of the node, given its object as the server has it. News that others depend on (conditions, addresses) are reported
 * at once. All else that differs waits until `nodeStatusUpdateFrequency` has passed since the last report, so that whoever writes to
 * the object what we do not agree with makes us no busier than that. Heartbeats alone wait for `nodeStatusReportFrequency`. A clock
 * that is set back makes a report due. `chance` is from 0 up to 1: it spreads the reports of many nodes that have changed at the same
 * time, up to half a period to either side, once after a change.
 */
export function decideNode(
  node: Node,
  observed: ObservedNode,
  memory: NodeMemory,
  settings: NodeSettings,
  now: number,
  chance: number,
): NodeDecision {
  const { nodeStatusReportFrequencyMs: period, nodeStatusUpdateFrequencyMs: pause } = settings;
  const isOurs = memory.uid !== undefined && memory.uid === node.metadata.uid;
  const base = isOurs ? node : reconcileNode(node, observed, settings);
  const after = assertOwn(base, observed, settings, now);
  const notKept = isOurs ? memory.notKept : emptyNodeMemory.notKept;
  const differing = [...differences(node, after)].filter((part) => notKept.get(part) !== textOf(after, part));
  const reportedAt = isOurs ? memory.reportedAt : undefined;
  const elapsedMs = reportedAt === undefined || reportedAt > now ? Number.POSITIVE_INFINITY : now - reportedAt;
  const isDue = elapsedMs >= period + memory.spreadMs;
  const isUnschedulable = node.spec.unschedulable === true;
  const schedulable = isUnschedulable === memory.isUnschedulable ? [] : [schedulableEvent(settings, isUnschedulable)];
  const downAt = runtimeDownAt(observed, now);
  const told = newsOf(after);
  if (!isDue && (differing.length === 0 || (elapsedMs < pause && told === memory.told))) {
    const waitMs = differing.length === 0 ? period + memory.spreadMs : Math.min(pause, period + memory.spreadMs);
    return {
      patch: undefined,
      wanted: after,
      events: schedulable,
      memory: { ...memory, isUnschedulable },
      lookAgainAt: Math.min(now - elapsedMs + waitMs, downAt),
    };
  }
  const isChange = differing.length > 0 || reportedAt === undefined;
  const spreadMs = isChange ? period * (chance - 0.5) : 0;
  return {
    patch: nodeStatusPatch(node, after, true),
    wanted: after,
    events: [...statusEvents(node.status, after.status ?? {}, settings), ...schedulable],
    memory: { uid: node.metadata.uid, reportedAt: now, spreadMs, isUnschedulable, told, notKept },
    lookAgainAt: Math.min(now + period + spreadMs, downAt),
  };
}

/**
 * The memory after the server has answered a report. What it does not keep would be sent for ever; it waits until it is another, or
 * until a report is due. Conditions are none of that: what they say matters too much.
 */
export function answeredNode({ memory, wanted }: NodeDecision, answer: Node): NodeMemory {
  const parts = [...differences(answer, wanted)].filter((part) => part !== "conditions");
  return { ...memory, notKept: new Map(parts.map((part) => [part, textOf(wanted, part)])) };
}

function textOf({ metadata, status = {} }: Node, part: NodePart): string {
  return JSON.stringify(part === "labels" || part === "annotations" ? metadata[part] : status[part]) ?? "";
}

/** The memory after a Node was created, with what there is to tell of it. Its creation was its first report. */
export function createdNode(
  node: Node,
  settings: NodeSettings,
  now: number,
  chance: number,
): Pick<NodeDecision, "events" | "memory"> {
  const spreadMs = settings.nodeStatusReportFrequencyMs * (chance - 0.5);
  return {
    events: statusEvents(undefined, node.status ?? {}, settings),
    memory: {
      uid: node.metadata.uid,
      reportedAt: now,
      spreadMs,
      isUnschedulable: false,
      told: newsOf(node),
      notKept: new Map(),
    },
  };
}

/** The node as the target of its events. Its uid is its name: that is where `kubectl describe node` looks for them. */
export function nodeReference({ nodeName }: Pick<NodeSettings, "nodeName">): ObjectReference {
  return { apiVersion: "v1", kind: "Node", name: nodeName, uid: nodeName };
}

/** The Node with all that this agent asserts again with every report. */
function assertOwn(node: Node, observed: ObservedNode, settings: NodeSettings, now: number): Node {
  const { architecture } = observed.machine;
  const { [NODE_IP_ANNOTATION]: _, ...annotations } = node.metadata.annotations ?? {};
  return {
    ...node,
    metadata: {
      ...node.metadata,
      labels: { ...node.metadata.labels, "kubernetes.io/os": "linux", "kubernetes.io/arch": architecture },
      annotations: { ...annotations, ...nodeIPAnnotation(settings) },
    },
    status: nodeStatus(observed, node.status ?? {}, settings, now),
  };
}

function annotationsOver(
  others: Readonly<Record<string, string>>,
  settings: NodeSettings,
): Readonly<Record<string, string>> {
  return {
    ...others,
    ...(settings.enableControllerAttachDetach ? { [ATTACH_ANNOTATION]: "true" } : {}),
    ...nodeIPAnnotation(settings),
  };
}

/** Tells a cloud's controller which address was meant. */
function nodeIPAnnotation({ isCloudExternal, nodeIPs }: NodeSettings): Readonly<Record<string, string>> {
  const told = nodeIPs.filter((address) => address !== "0.0.0.0" && address !== "::");
  return isCloudExternal && told.length > 0 ? { [NODE_IP_ANNOTATION]: told.join(",") } : {};
}

function newsOf({ status = {} }: Node): string {
  const { conditions = [], addresses = [] } = status;
  const own = ownConditions.map((own) => conditions.find(({ type }) => type === own));
  return JSON.stringify([own.map((found) => [found?.status, found?.reason, found?.message]), addresses]);
}

/** When a runtime that is away will count as down; never, where it is there, or down already. */
function runtimeDownAt({ runtime }: ObservedNode, now: number): number {
  if (runtime.isReady || runtime.readyAt === undefined) return Number.POSITIVE_INFINITY;
  const at = runtime.readyAt + RUNTIME_DOWN_AFTER_MS;
  return at > now ? at : Number.POSITIVE_INFINITY;
}

function statusEvents(
  before: NodeStatus | undefined,
  after: NodeStatus,
  settings: Pick<NodeSettings, "nodeName">,
): readonly NodeEvent[] {
  const object = nodeReference(settings);
  const [oldBoot = "", newBoot = ""] = [before?.nodeInfo?.bootID, after.nodeInfo?.bootID];
  const rebooted: NodeEvent = {
    object,
    type: "Warning",
    reason: "Rebooted",
    message: `Node ${settings.nodeName} has been rebooted, boot id: ${newBoot}`,
  };
  const changed = ownConditions.flatMap((type) => {
    const was = before?.conditions?.find((condition) => condition.type === type);
    const is = after.conditions?.find((condition) => condition.type === type);
    if (is === undefined || was?.status === is.status) return [];
    const reason = conditionEvent(type, is.status === "True", was !== undefined);
    return reason === undefined ? [] : [statusEvent(settings, reason)];
  });
  return [...(oldBoot !== "" && newBoot !== "" && oldBoot !== newBoot ? [rebooted] : []), ...changed];
}

function schedulableEvent(settings: Pick<NodeSettings, "nodeName">, isUnschedulable: boolean): NodeEvent {
  return statusEvent(settings, isUnschedulable ? "NodeNotSchedulable" : "NodeSchedulable");
}

function statusEvent(settings: Pick<NodeSettings, "nodeName">, reason: string): NodeEvent {
  const message = `Node ${settings.nodeName} status is now: ${reason}`;
  return { object: nodeReference(settings), type: "Normal", reason, message };
}
