import type { ReceivedSpan } from "../../fakes/trace-collector.ts";
import { PATCH_STATUS } from "./own-segments.ts";
import type { Step } from "./step.ts";

/** The spans that an agent has sent, and where it has its files. */
export interface SentTrace {
  readonly spans: readonly ReceivedSpan[];
  /** The agent's root directory and its `podLogsDir`: the path of a file is shown below them. */
  readonly dirs: readonly string[];
}

/**
 * The steps of a pod's start by the trace that Berth sends of it, in milliseconds since the create request. The first one begins when
 * another watch has shown the pod, unless Berth has received it before, and ends when the node has accepted it.
 */
export function tracedSteps(
  { spans, dirs }: SentTrace,
  name: string,
  { createdAt, shownAt }: { readonly createdAt: number; readonly shownAt: number },
): readonly Step[] {
  const root = spans.find((span) => span.name === "syncPod" && span.attributes["k8s.pod.name"] === name);
  const ofTrace = spans.filter(({ traceId, spanId }) => traceId === root?.traceId && spanId !== root.spanId);
  const children = ofTrace.filter(({ parentSpanId }) => parentSpanId === root?.spanId);
  const firstSyncAt = Math.min(...children.map(({ startedAt }) => startedAt));
  const steps = children.map((span) => ({
    ...kindAndNameOf(span),
    from: span.startedAt - createdAt,
    until: span.endedAt - createdAt,
  }));
  if (root === undefined || children.length === 0) return [];
  const [shown, accepted, synced] = [shownAt, root.startedAt, firstSyncAt].map((at) => at - createdAt);
  const before = [
    { of: "step", what: "receive and decode the pod", from: shown ?? Number.NaN, until: accepted ?? Number.NaN },
    { of: "step", what: "wait for the first sync", from: accepted ?? Number.NaN, until: synced ?? Number.NaN },
  ] as const;
  const parts = children.flatMap((call) => {
    const method = methodOf(call);
    if (method === undefined) return [];
    return ofTrace
      .filter(({ parentSpanId, name: part }) => parentSpanId === call.spanId && !part.startsWith("CNI "))
      .map((span) => ({
        ...partOf(method, span, (path) => shownPath(path, dirs, root.attributes)),
        from: span.startedAt - createdAt,
        until: span.endedAt - createdAt,
      }));
  });
  return [...before.filter(({ from, until }) => until > from), ...steps, ...parts];
}

/** A part of what an action does before its call: an operation on files, or all the rest of the time before the call. */
function partOf(
  method: string,
  { name, attributes }: ReceivedSpan,
  show: (path: string) => string,
): Pick<Step, "of" | "what"> {
  const path = attributes["file.path"];
  if (path === undefined) return { of: "step", what: `${method}: ${preparations[method] ?? "prepare the call"}` };
  return { of: "agent", what: `${method}: ${name} ${show(path)}` };
}

/** The path below the agent's directories, the same for each pod. */
function shownPath(
  path: string,
  dirs: SentTrace["dirs"],
  { "k8s.pod.uid": uid, "k8s.pod.name": pod }: ReceivedSpan["attributes"],
): string {
  const dir = dirs.find((each) => path.startsWith(`${each}/`));
  const below = dir === undefined ? path : path.slice(dir.length + 1);
  const withoutUid = uid === undefined ? below : below.replaceAll(uid, "UID");
  return pod === undefined ? withoutUid : withoutUid.replaceAll(pod, "POD");
}

/** What an action does before its call, besides operations on files. */
const preparations: Readonly<Record<string, string>> = {
  RunPodSandbox: "translate the pod",
  CreateContainer: "translate the container",
};

/** The method of the runtime that an action calls; undefined for another action, and for what is no action. */
const methodOf = ({ name }: ReceivedSpan) => /^runtime\.v1\.\w+\/(\w+)$/.exec(name)?.[1];

/** An action that is a call to the runtime is no line of its own: the proxy notes the call. */
function kindAndNameOf(span: ReceivedSpan): Pick<Step, "of" | "what"> {
  const { name, attributes } = span;
  const [action, method] = [attributes["berth.action"], methodOf(span)];
  if (method !== undefined) return { of: "step", what: method };
  return action === undefined ? { of: "step", what: stepNames[name] ?? name } : { of: "agent", what: action };
}

const stepNames: Readonly<Record<string, string>> = {
  patchStatus: PATCH_STATUS,
};
