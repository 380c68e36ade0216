import type { Node, NodeCondition, NodeStatus } from "../../../proto/kubernetes/gen/types.ts";
import { isSameValue } from "../../../proto/kubernetes/semantic-equal.ts";
import { ownConditions } from "./node-conditions.ts";

/** A strategic merge patch: what stands in it replaces, `null` removes. */
export type NodePatch = { readonly [key: string]: unknown };

type Fields = Readonly<Record<string, unknown>>;

/** The parts of a Node's status, and of its labels and annotations, in which two of them differ. */
export type NodePart = keyof NodeStatus | "labels" | "annotations";

/** Which parts differ. Heartbeat times alone are no difference: they are worth no report before it is due. */
export function differences(before: Node, after: Node): ReadonlySet<NodePart> {
  const [old, now] = [before.status ?? {}, after.status ?? {}];
  const parts = new Set([...Object.keys(old), ...Object.keys(now)]) as Set<keyof NodeStatus>;
  const differing = [...parts].filter((part) =>
    part === "conditions" ? conditionsDiffer(old.conditions, now.conditions) : !isSameValue(old[part], now[part]),
  );
  const named = (["labels", "annotations"] as const).filter(
    (part) => !isSameValue(before.metadata[part], after.metadata[part]),
  );
  return new Set<NodePart>([...differing, ...named]);
}

/**
 * The patch that makes `after` of `before`, for `PATCH /api/v1/nodes/<name>/status`. The conditions of this agent are always in it, so
 * that each report carries their heartbeat; those of others never. It is right only for the object that `before` is, so it is to be sent
 * with that one's uid. Undefined where `before` differs in nothing but heartbeat times and `isDue` is false.
 */
export function nodeStatusPatch(before: Node, after: Node, isDue: boolean): NodePatch | undefined {
  const differing = differences(before, after);
  if (differing.size === 0 && !isDue) return undefined;
  const [old, now] = [before.status ?? {}, after.status ?? {}];
  const metadata: Fields = {
    ...only("labels", differing, () => changes(before.metadata.labels, after.metadata.labels)),
    ...only("annotations", differing, () => changes(before.metadata.annotations, after.metadata.annotations)),
  };
  const status: Fields = {
    ...only("addresses", differing, () => replacedAddresses(old, now)),
    ...only("allocatable", differing, () => changes(old.allocatable, now.allocatable)),
    ...only("capacity", differing, () => changes(old.capacity, now.capacity)),
    conditions: (now.conditions ?? []).filter(({ type }) => isOwn(type)),
    ...only("daemonEndpoints", differing, () => now.daemonEndpoints ?? null),
    ...only("declaredFeatures", differing, () => now.declaredFeatures ?? null),
    ...only("features", differing, () => now.features ?? null),
    ...only("images", differing, () => now.images ?? null),
    ...only("nodeInfo", differing, () => changes({ ...old.nodeInfo }, { ...now.nodeInfo })),
    ...only("runtimeHandlers", differing, () => now.runtimeHandlers ?? null),
  };
  return { ...(Object.keys(metadata).length === 0 ? {} : { metadata }), status };
}

function only(part: NodePart, differing: ReadonlySet<NodePart>, value: () => unknown): Fields {
  return differing.has(part) ? { [part]: value() } : {};
}

function isOwn(type: string): boolean {
  return ownConditions.some((own) => own === type);
}

/**
 * The API merges addresses by their type, of which a node of both families has two: they can only be replaced as a whole. The order
 * of such a list is kept by the server, the directive is taken out of it.
 */
function replacedAddresses(old: NodeStatus, { addresses = [] }: NodeStatus): readonly unknown[] {
  return (old.addresses ?? []).length === 0 ? addresses : [...addresses, { $patch: "replace" }];
}

/** Of two maps, what the second has otherwise, and null for what it lacks. */
function changes(before: Fields = {}, after: Fields = {}): Fields {
  return Object.fromEntries(
    [...new Set([...Object.keys(before), ...Object.keys(after)])]
      .filter((key) => !isSameValue(before[key], after[key]))
      .map((key) => [key, after[key] ?? null]),
  );
}

function conditionsDiffer(before: readonly NodeCondition[] = [], after: readonly NodeCondition[] = []): boolean {
  const known = new Map(before.map((condition) => [condition.type, withoutHeartbeat(condition)]));
  return (
    before.length !== after.length ||
    after.some((condition) => !isSameValue(known.get(condition.type), withoutHeartbeat(condition)))
  );
}

function withoutHeartbeat({ lastHeartbeatTime: _, ...condition }: NodeCondition): Fields {
  return condition;
}
