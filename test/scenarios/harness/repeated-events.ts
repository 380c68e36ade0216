// Which events of containers the API server has got more often than the runtime has seen the instances they are about.
import type { Event } from "../../../proto/kubernetes/gen/types.ts";
import type { StoredChange } from "../../fakes/kube-objects.ts";
import type { RuntimeChange } from "../../fakes/runtime-events.ts";

export interface RepeatedEventsInput {
  /** What the API server has stored, in order. */
  readonly history: readonly Pick<StoredChange, "resource" | "type" | "object" | "before">[];
  readonly timeline: readonly Pick<RuntimeChange, "at" | "kind" | "change" | "role">[];
  /** How often the agent has died. */
  readonly deaths: number;
}

/** When an event has occurred, in whole seconds: some time from `from` to `to`. */
interface Occurrence {
  readonly reason: string;
  /** As in the runtime's timeline: the pod's uid and the container's name. */
  readonly role: string;
  /** The pod and the container: `default/web/a`. */
  readonly subject: string;
  readonly message: string;
  readonly from: number;
  readonly to: number;
}

/**
 * Returns a line for each event that is repeated. An agent records `Created` and `Started` after the call, and only the
 * agent that has called: each instance has at most one of each, whenever an agent dies. It records `Pulled` before
 * the call that creates the container, so the next agent repeats it: once for each death.
 */
export function repeatedEvents({ history, timeline, deaths }: RepeatedEventsInput): readonly string[] {
  const occurrences = history.flatMap(occurrencesOf);
  return [
    ...repeatedOfInstances("Created", "created", occurrences, timeline),
    ...repeatedOfInstances("Started", "started", occurrences, timeline),
    ...repeatedPulls(occurrences, timeline, deaths),
  ];
}

function occurrencesOf({
  resource,
  type,
  object,
  before,
}: RepeatedEventsInput["history"][number]): readonly Occurrence[] {
  if (resource !== "events" || type === "DELETED") return [];
  const event = object as unknown as Event;
  const earlier = before as unknown as Event | undefined;
  const { namespace, name, uid, fieldPath = "" } = event.involvedObject;
  const [, container] = /\{(.+)\}$/.exec(fieldPath) ?? [];
  if (container === undefined) return [];
  const count = (event.count ?? 1) - (earlier === undefined ? 0 : (earlier.count ?? 1));
  const to = secondOf(event.lastTimestamp);
  // Of several that the API server gets at once only the last has its own time.
  const from = count === 1 ? to : secondOf(earlier?.lastTimestamp ?? event.firstTimestamp);
  const occurrence = { role: `${uid}/${container}`, subject: `${namespace}/${name}/${container}`, from, to };
  const { reason = "", message = "" } = event;
  return Array.from({ length: count }, () => ({ reason, message, ...occurrence }));
}

const secondOf = (time: string | undefined): number => Math.floor(Date.parse(time ?? "") / 1000);

/**
 * The events that no instance is left for: each instance explains one that has occurred before the next instance. Both are
 * in the order of their times, so the first instance that fits is the right one.
 */
function repeatedOfInstances(
  reason: string,
  change: RuntimeChange["change"],
  occurrences: readonly Occurrence[],
  timeline: RepeatedEventsInput["timeline"],
): readonly string[] {
  const own = occurrences.filter((each) => each.reason === reason).toSorted((a, b) => a.to - b.to);
  return Object.entries(Object.groupBy(own, ({ role }) => role)).flatMap(([role, all = []]) => {
    const times = timeline
      .filter((each) => each.kind === "container" && each.role === role && each.change === change)
      .map(({ at }) => Math.floor(at / 1000));
    const unused = times.map((from, index) => ({ from, to: times[index + 1] ?? Number.POSITIVE_INFINITY }));
    return all.flatMap(({ subject, from, to }) => {
      const found = unused.findIndex((instance) => instance.from <= to && instance.to >= from);
      if (found === -1) return [`${reason} of ${subject} is repeated: it was ${change} ${times.length} times`];
      unused.splice(found, 1);
      return [];
    });
  });
}

/** A creation ends with a container, or with an event that says why there is none. */
function repeatedPulls(
  occurrences: readonly Occurrence[],
  timeline: RepeatedEventsInput["timeline"],
  deaths: number,
): readonly string[] {
  return Object.entries(Object.groupBy(occurrences, ({ role }) => role)).flatMap(([role, own = []]) => {
    const pulled = own.filter(({ reason }) => reason === "Pulled");
    const failed = own.filter(({ reason, message }) => reason === "Failed" && /^Error: (?!ErrImage)/.test(message));
    const created = timeline.filter((each) => each.role === role && each.change === "created");
    const creations = created.length + failed.length;
    // Berth pulls while the sandbox is created and volumes are set up, so the first one may precede its container.
    if (pulled.length <= Math.max(1, creations + deaths)) return [];
    return [
      `Pulled of ${pulled[0]?.subject} is repeated: it has occurred ${pulled.length} times, before ${creations} creations`,
    ];
  });
}
