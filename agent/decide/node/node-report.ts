import type { Node, NodeStatus, ObjectReference, Taint } from "../../../proto/kubernetes/gen/types.ts";
import { isHugePages, type ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import {
  archLabel,
  attachDetachAnnotation,
  nodeIPAnnotation,
  osLabel,
  ownNodeLabels,
  uninitializedTaint,
} from "../../../proto/kubernetes/well-known-names.ts";
import { conditionEvent, ownConditions, RUNTIME_DOWN_AFTER_MS } from "./node-conditions.ts";
import { builtInLabels } from "./node-labels.ts";
import { differences, type NodePart, type NodePatch, nodeStatusPatch } from "./node-patch.ts";
import { isExtendedResource } from "./node-resources.ts";
import type { NodeSettings } from "./node-settings.ts";
import { nodeStatus } from "./node-status.ts";
import type { ObservedNode } from "./observed-node.ts";

const UNINITIALIZED: Taint = {
  key: uninitializedTaint,
  value: "true",
  effect: "NoSchedule",
};

/** The Node to create if there is none. */
export function initialNode(observed: ObservedNode, settings: NodeSettings, now: number): Node {
  const { nodeName, labels, registerWithTaints, providerID, isCloudExternal } = settings;
  const taints = [...registerWithTaints, ...(isCloudExternal ? [UNINITIALIZED] : [])];
  const annotations = withOwnAnnotations({}, settings);
  return {
    apiVersion: "v1",
    kind: "Node",
    metadata: {
      name: nodeName,
      labels: { ...builtInLabels(observed.machine, nodeName), ...labels },
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
 * An existing Node with what the agent sets once, when it registers: default labels, the attach-detach annotation, and
 * no huge page sizes that the kernel does not have. Taints and other labels belong to the administrator. Devices are an
 * earlier agent's: this one hands none out, so their amount becomes 0.
 *
 * @internal
 */
export function reconcileNode(existing: Node, observed: ObservedNode, settings: NodeSettings): Node {
  const expected: Readonly<Record<string, string>> = {
    ...builtInLabels(observed.machine, settings.nodeName),
    ...settings.labels,
  };
  const labels = { ...existing.metadata.labels };
  // `--node-labels` may set the values of these labels too.
  for (const name of ownNodeLabels) {
    const value = expected[name];
    if (value === "") delete labels[name];
    else if (value !== undefined) labels[name] = value;
  }
  const { [attachDetachAnnotation]: _, ...annotations } = existing.metadata.annotations ?? {};
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
    metadata: { ...existing.metadata, labels, annotations: withOwnAnnotations(annotations, settings) },
    status: { ...existing.status, capacity: supported(capacity), allocatable: supported(allocatable) },
  };
}

/** An event about the node. */
export interface NodeEvent {
  readonly object: ObjectReference;
  readonly type: "Normal" | "Warning";
  readonly reason: string;
  readonly message: string;
}

/** What is remembered between two decisions. If it is lost, the next decision reports everything, as after a start. */
export interface NodeReportMemory {
  /** The uid of the Node that this run of the agent has created or reconciled. */
  readonly uid: string | undefined;
  /** When the API server accepted our last report. */
  readonly reportedAt: number | undefined;
  /** The random shift of the next report that has no changes. */
  readonly spreadMs: number;
  readonly isUnschedulable: boolean;
  /** The urgent part of the last report (conditions and addresses), as text: a change of it is reported at once. */
  readonly urgentState: string;
  /** What the API server has accepted and dropped, as text by part: an older release lacks some fields. */
  readonly droppedByServer: ReadonlyMap<NodePart, string>;
}

export const emptyNodeReportMemory: NodeReportMemory = {
  uid: undefined,
  reportedAt: undefined,
  spreadMs: 0,
  isUnschedulable: false,
  urgentState: "",
  droppedByServer: new Map(),
};

export interface NodeReport {
  /** The patch to send; undefined: none. */
  readonly patch: NodePatch | undefined;
  /** The Node as it should be. */
  readonly expected: Node;
  /** To be recorded after the patch was accepted, or at once if there is none. */
  readonly events: readonly NodeEvent[];
  /** The memory after the patch was accepted. */
  readonly memory: NodeReportMemory;
  /** When to decide again, if nothing else happens before. */
  readonly lookAgainAt: number;
}

/**
 * What to report of the node, given its API object. Changes that others depend on (conditions, addresses) are reported
 * at once. Any other difference waits until `nodeStatusUpdateFrequency` has passed since the last report, so that
 * another writer of the object cannot make the agent busier than that. Heartbeats alone wait for
 * `nodeStatusReportFrequency`. A clock that is set back makes a report due. `random` is in [0, 1): after a change it
 * shifts the next heartbeat once, by up to half a period to either side, so that nodes that changed at the same time do
 * not report at the same time.
 */
export function decideNodeReport(
  node: Node,
  observed: ObservedNode,
  memory: NodeReportMemory,
  settings: NodeSettings,
  now: number,
  random: number,
): NodeReport {
  const { nodeStatusReportFrequencyMs: reportFrequencyMs, nodeStatusUpdateFrequencyMs: updateFrequencyMs } = settings;
  const isOurs = memory.uid !== undefined && memory.uid === node.metadata.uid;
  const base = isOurs ? node : reconcileNode(node, observed, settings);
  const after = withOwnState(base, observed, settings, now);
  const droppedByServer = isOurs ? memory.droppedByServer : emptyNodeReportMemory.droppedByServer;
  const differing = [...differences(node, after)].filter((part) => droppedByServer.get(part) !== textOf(after, part));
  const reportedAt = isOurs ? memory.reportedAt : undefined;
  const elapsedMs = reportedAt === undefined || reportedAt > now ? Number.POSITIVE_INFINITY : now - reportedAt;
  const isDue = elapsedMs >= reportFrequencyMs + memory.spreadMs;
  const isUnschedulable = node.spec.unschedulable === true;
  const schedulable = isUnschedulable === memory.isUnschedulable ? [] : [schedulableEvent(settings, isUnschedulable)];
  const downAt = runtimeDownAt(observed, now);
  const urgentState = urgentStateOf(after);
  if (!isDue && (differing.length === 0 || (elapsedMs < updateFrequencyMs && urgentState === memory.urgentState))) {
    const waitMs =
      differing.length === 0
        ? reportFrequencyMs + memory.spreadMs
        : Math.min(updateFrequencyMs, reportFrequencyMs + memory.spreadMs);
    return {
      patch: undefined,
      expected: after,
      events: schedulable,
      memory: { ...memory, isUnschedulable },
      lookAgainAt: Math.min(now - elapsedMs + waitMs, downAt),
    };
  }
  const isChange = differing.length > 0 || reportedAt === undefined;
  const spreadMs = isChange ? reportFrequencyMs * (random - 0.5) : 0;
  return {
    patch: nodeStatusPatch(node, after, true),
    expected: after,
    events: [...statusEvents(node.status, after.status ?? {}, settings), ...schedulable],
    memory: { uid: node.metadata.uid, reportedAt: now, spreadMs, isUnschedulable, urgentState, droppedByServer },
    lookAgainAt: Math.min(now + reportFrequencyMs + spreadMs, downAt),
  };
}

/**
 * The memory after the API server has answered a patch. Fields that the server has dropped would be sent for ever; they
 * are not sent again until they change or a report is due. Conditions are always sent.
 */
export function afterPatchAccepted({ memory, expected }: NodeReport, answer: Node): NodeReportMemory {
  const parts = [...differences(answer, expected)].filter((part) => part !== "conditions");
  return { ...memory, droppedByServer: new Map(parts.map((part) => [part, textOf(expected, part)])) };
}

function textOf({ metadata, status = {} }: Node, part: NodePart): string {
  return JSON.stringify(part === "labels" || part === "annotations" ? metadata[part] : status[part]) ?? "";
}

/** The memory after a Node was created, with its events. The creation counts as the first report. */
export function afterNodeCreated(
  node: Node,
  settings: NodeSettings,
  now: number,
  random: number,
): Pick<NodeReport, "events" | "memory"> {
  const spreadMs = settings.nodeStatusReportFrequencyMs * (random - 0.5);
  return {
    events: statusEvents(undefined, node.status ?? {}, settings),
    memory: {
      uid: node.metadata.uid,
      reportedAt: now,
      spreadMs,
      isUnschedulable: false,
      urgentState: urgentStateOf(node),
      droppedByServer: new Map(),
    },
  };
}

/** The node as the object of its events. Its uid is its name: `kubectl describe node` selects events by it. */
export function nodeReference({ nodeName }: Pick<NodeSettings, "nodeName">): ObjectReference {
  return { apiVersion: "v1", kind: "Node", name: nodeName, uid: nodeName };
}

/** The Node with everything that the agent sets again with every report. */
function withOwnState(node: Node, observed: ObservedNode, settings: NodeSettings, now: number): Node {
  const { architecture } = observed.machine;
  const { [nodeIPAnnotation]: _, ...annotations } = node.metadata.annotations ?? {};
  return {
    ...node,
    metadata: {
      ...node.metadata,
      labels: { ...node.metadata.labels, [osLabel]: "linux", [archLabel]: architecture },
      annotations: { ...annotations, ...providedNodeIP(settings) },
    },
    status: nodeStatus(observed, node.status ?? {}, settings, now),
  };
}

function withOwnAnnotations(
  others: Readonly<Record<string, string>>,
  settings: NodeSettings,
): Readonly<Record<string, string>> {
  return {
    ...others,
    ...(settings.enableControllerAttachDetach ? { [attachDetachAnnotation]: "true" } : {}),
    ...providedNodeIP(settings),
  };
}

/** The annotation by which a cloud controller learns the address of `--node-ip`. */
function providedNodeIP({ isCloudExternal, nodeIPs }: NodeSettings): Readonly<Record<string, string>> {
  const addresses = nodeIPs.filter((address) => address !== "0.0.0.0" && address !== "::");
  return isCloudExternal && addresses.length > 0 ? { [nodeIPAnnotation]: addresses.join(",") } : {};
}

function urgentStateOf({ status = {} }: Node): string {
  const { conditions = [], addresses = [] } = status;
  const own = ownConditions.map((own) => conditions.find(({ type }) => type === own));
  return JSON.stringify([own.map((found) => [found?.status, found?.reason, found?.message]), addresses]);
}

/** When an unavailable runtime will count as down; infinity if it is available, or down already. */
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
    if (type === "CgroupDriverMismatch") return is.status === "True" ? [mismatchEvent(settings, is.message)] : [];
    const reason = conditionEvent(type, is.status === "True", was !== undefined);
    return reason === undefined ? [] : [statusEvent(settings, reason)];
  });
  return [...(oldBoot !== "" && newBoot !== "" && oldBoot !== newBoot ? [rebooted] : []), ...changed];
}

/** Says both sides and the cure. */
function mismatchEvent(settings: Pick<NodeSettings, "nodeName">, message = ""): NodeEvent {
  return { object: nodeReference(settings), type: "Warning", reason: "CgroupDriverMismatch", message };
}

function schedulableEvent(settings: Pick<NodeSettings, "nodeName">, isUnschedulable: boolean): NodeEvent {
  return statusEvent(settings, isUnschedulable ? "NodeNotSchedulable" : "NodeSchedulable");
}

function statusEvent(settings: Pick<NodeSettings, "nodeName">, reason: string): NodeEvent {
  const message = `Node ${settings.nodeName} status is now: ${reason}`;
  return { object: nodeReference(settings), type: "Normal", reason, message };
}
