import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import { describeLimits } from "../cgroups/limit-differences.ts";
import { type Backoff, backoffDelayMs, dueAfter } from "../pod/backoff.ts";
import { type NodeCgroup, nodeCgroupKey } from "./cgroup-rule.ts";

/** What the node does besides ending pods; each kind has a record here and a performer in `act/performers`. */
export type NodeAction = RemoveImage | WriteCgroup;

/** Removes an image of the runtime. */
export interface RemoveImage {
  readonly kind: "removeImage";
  /** The runtime's id of the image. */
  readonly image: string;
  readonly why: string;
}

/** Writes limits of a cgroup above those of pods. One of our own that is missing is made. */
export interface WriteCgroup {
  readonly kind: "writeCgroup";
  readonly cgroup: NodeCgroup;
  readonly limits: CgroupLimits;
  readonly why: string;
}

/** Everything that the agent has to know of one kind of action, except how to perform it. */
interface NodeActionRecord<A extends NodeAction> {
  /** One English sentence, the log line. */
  describe(action: A): string;
  /** What the action changes. */
  subject(action: A): string;
  /** Two actions with one subject and one content are never performed at the same time. */
  content?(action: A): string;
  /** How long it waits after a failure; with the next one, twice as long. */
  readonly retry: Backoff;
}

const records: { readonly [K in NodeAction["kind"]]: NodeActionRecord<Extract<NodeAction, { readonly kind: K }>> } = {
  removeImage: {
    describe: ({ image, why }) => `remove image ${image}: ${why}`,
    subject: ({ image }) => image,
    retry: { initialMs: 1_000, maxMs: 300_000 },
  },
  writeCgroup: {
    describe: ({ cgroup, limits, why }) => `write ${describeLimits(limits)} to cgroup ${nodeCgroupKey(cgroup)}: ${why}`,
    subject: ({ cgroup }) => nodeCgroupKey(cgroup),
    // Other limits are another action, which need not wait until this one may be repeated.
    content: ({ limits }) => JSON.stringify(limits),
    // Rule: the kubelet tries once a minute.
    retry: { initialMs: 1_000, maxMs: 60_000 },
  },
};

function recordOf({ kind }: NodeAction): NodeActionRecord<NodeAction> {
  return records[kind];
}

/** One English sentence, the log line. */
export function describeNodeAction(action: NodeAction): string {
  return recordOf(action).describe(action);
}

/** What names the actions on one subject in the memory. */
function subjectKeyOf(action: NodeAction): string {
  return `${action.kind} ${recordOf(action).subject(action)} `;
}

/** Names the action in the memory. */
function keyOf(action: NodeAction): string {
  return `${subjectKeyOf(action)}${recordOf(action).content?.(action) ?? ""}`;
}

/** What is remembered of an action while a rule requests it. */
type ActionState =
  | { readonly state: "running"; readonly failures: number }
  | { readonly state: "succeeded" | "failed"; readonly failures: number; readonly at: number };

/** The actions that run, and those that ended and are still requested. */
export type NodeActionMemory = ReadonlyMap<string, ActionState>;

/** Epoch milliseconds. */
interface DueActions {
  readonly actions: readonly NodeAction[];
  /** When the first of the others is due; infinity if none waits for its time. */
  readonly lookAgainAt: number;
  /** Without the actions that are no longer requested. */
  readonly memory: NodeActionMemory;
}

/** A success that the observation does not show yet: images, for example, are listed at most every half minute. */
const REPEAT_AFTER_MS = 60_000;

/**
 * The requested actions that are due. An action that runs is not started again; one that has failed waits with a delay
 * that doubles up to the longest of its kind, one that has succeeded and is still requested a minute.
 */
export function dueActions(requested: readonly NodeAction[], memory: NodeActionMemory, now: number): DueActions {
  const unique = new Map(requested.map((action) => [keyOf(action), action]));
  const dueAts = [...unique].map(([key, action]) => ({ action, dueAt: dueAt(action, memory.get(key), now) }));
  const later = dueAts.flatMap(({ dueAt: at }) => (at > now ? [at] : []));
  return {
    actions: dueAts.flatMap(({ action, dueAt: at }) => (at > now ? [] : [action])),
    lookAgainAt: Math.min(...later),
    memory: new Map([...memory].filter(([key, { state }]) => state === "running" || unique.has(key))),
  };
}

/** Infinity while the action runs: its end decides again. */
function dueAt(action: NodeAction, known: ActionState | undefined, now: number): number {
  if (known === undefined) return now;
  if (known.state === "running") return Number.POSITIVE_INFINITY;
  const { retry } = recordOf(action);
  return dueAfter(known.at, known.state === "succeeded" ? REPEAT_AFTER_MS : backoffDelayMs(retry, known.failures), now);
}

export function recordNodeActionStarted(memory: NodeActionMemory, action: NodeAction): NodeActionMemory {
  const key = keyOf(action);
  return new Map(memory).set(key, { state: "running", failures: memory.get(key)?.failures ?? 0 });
}

export function recordNodeActionEnded(
  memory: NodeActionMemory,
  action: NodeAction,
  state: "succeeded" | "failed",
  at: number,
): NodeActionMemory {
  const key = keyOf(action);
  const failures = state === "failed" ? (memory.get(key)?.failures ?? 0) + 1 : 0;
  const subjectKey = subjectKeyOf(action);
  // What it has changed on its subject undoes the success of another action, which is due again if it is requested.
  const others = [...memory].filter(
    ([other, { state: otherState }]) => otherState !== "succeeded" || !other.startsWith(subjectKey),
  );
  return new Map(others).set(key, { state, failures, at });
}
