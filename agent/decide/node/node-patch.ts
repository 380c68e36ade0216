import type { Node, NodeCondition, NodeStatus } from "../../../proto/kubernetes/gen/types.ts";
import { isSemanticallyEqual } from "../../../proto/kubernetes/semantic-equal.ts";
import { ownConditions } from "./node-conditions.ts";

/** A strategic merge patch: its values replace, `null` removes. */
export type NodePatch = { readonly [key: string]: unknown };

type Fields = Readonly<Record<string, unknown>>;

/** A part of the Node's status, or its labels or annotations. */
export type NodePart = keyof NodeStatus | "labels" | "annotations";

/** Which parts differ. A heartbeat time alone is no difference: it does not justify a report before one is due. */
export function differences(before: Node, after: Node): ReadonlySet<NodePart> {
  const [oldStatus, newStatus] = [before.status ?? {}, after.status ?? {}];
  const parts = new Set([...Object.keys(oldStatus), ...Object.keys(newStatus)]) as Set<keyof NodeStatus>;
  const differing = [...parts].filter((part) =>
    part === "conditions"
      ? conditionsDiffer(oldStatus.conditions, newStatus.conditions)
      : !isSemanticallyEqual(oldStatus[part], newStatus[part]),
  );
  const metadataParts = (["labels", "annotations"] as const).filter(
    (part) => !isSemanticallyEqual(before.metadata[part], after.metadata[part]),
  );
  return new Set<NodePart>([...differing, ...metadataParts]);
}

/**
 * The patch that turns `before` into `after`, for `PATCH /api/v1/nodes/<name>/status`. It always has the conditions of
 * this agent, so that each report carries their heartbeat, and never those of others. It is valid only for the object
 * `before`, so it has to be sent with that object's uid. Undefined if only heartbeat times differ and `isDue` is false.
 */
export function nodeStatusPatch(before: Node, after: Node, isDue: boolean): NodePatch | undefined {
  const differing = differences(before, after);
  if (differing.size === 0 && !isDue) return undefined;
  const [oldStatus, newStatus] = [before.status ?? {}, after.status ?? {}];
  const metadata: Fields = {
    ...patchOf("labels", differing, () => changedEntries(before.metadata.labels, after.metadata.labels)),
    ...patchOf("annotations", differing, () => changedEntries(before.metadata.annotations, after.metadata.annotations)),
  };
  const status: Fields = {
    ...patchOf("addresses", differing, () => replacedAddresses(oldStatus, newStatus)),
    ...patchOf("allocatable", differing, () => changedEntries(oldStatus.allocatable, newStatus.allocatable)),
    ...patchOf("capacity", differing, () => changedEntries(oldStatus.capacity, newStatus.capacity)),
    conditions: (newStatus.conditions ?? []).filter(({ type }) => isOwn(type)),
    ...patchOf("daemonEndpoints", differing, () => newStatus.daemonEndpoints ?? null),
    ...patchOf("declaredFeatures", differing, () => newStatus.declaredFeatures ?? null),
    ...patchOf("features", differing, () => newStatus.features ?? null),
    ...patchOf("images", differing, () => newStatus.images ?? null),
    ...patchOf("nodeInfo", differing, () => changedEntries({ ...oldStatus.nodeInfo }, { ...newStatus.nodeInfo })),
    ...patchOf("runtimeHandlers", differing, () => newStatus.runtimeHandlers ?? null),
  };
  return { ...(Object.keys(metadata).length === 0 ? {} : { metadata }), status };
}

function patchOf(part: NodePart, differing: ReadonlySet<NodePart>, value: () => unknown): Fields {
  return differing.has(part) ? { [part]: value() } : {};
}

function isOwn(type: string): boolean {
  return ownConditions.some((own) => own === type);
}

/**
 * The API merges addresses by type, and a dual-stack node has two of one type: the list can only be replaced as a
 * whole. The server keeps the order of such a list and removes the directive from it.
 */
function replacedAddresses(old: NodeStatus, { addresses = [] }: NodeStatus): readonly unknown[] {
  return (old.addresses ?? []).length === 0 ? addresses : [...addresses, { $patch: "replace" }];
}

/** The entries of `after` that differ from `before`, and null for the removed ones. */
function changedEntries(before: Fields = {}, after: Fields = {}): Fields {
  return Object.fromEntries(
    [...new Set([...Object.keys(before), ...Object.keys(after)])]
      .filter((key) => !isSemanticallyEqual(before[key], after[key]))
      .map((key) => [key, after[key] ?? null]),
  );
}

function conditionsDiffer(before: readonly NodeCondition[] = [], after: readonly NodeCondition[] = []): boolean {
  const known = new Map(before.map((condition) => [condition.type, withoutHeartbeat(condition)]));
  return (
    before.length !== after.length ||
    after.some((condition) => !isSemanticallyEqual(known.get(condition.type), withoutHeartbeat(condition)))
  );
}

function withoutHeartbeat({ lastHeartbeatTime: _, ...condition }: NodeCondition): Fields {
  return condition;
}
