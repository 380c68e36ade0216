import type { ReceivedSpan } from "../../fakes/trace-collector.ts";
import { PATCH_STATUS } from "./own-segments.ts";
import type { Step } from "./step.ts";

/**
 * The steps of a pod's start by the trace that Berth sends of it, in milliseconds since the create request. The first one begins when
 * another watch has shown the pod, unless Berth has received it before, and ends when the node has accepted it.
 */
export function tracedSteps(
  spans: readonly ReceivedSpan[],
  name: string,
  { createdAt, shownAt }: { readonly createdAt: number; readonly shownAt: number },
): readonly Step[] {
  const root = spans.find((span) => span.name === "syncPod" && span.attributes["k8s.pod.name"] === name);
  const children = spans.filter(({ traceId, spanId }) => traceId === root?.traceId && spanId !== root.spanId);
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
  return [...before.filter(({ from, until }) => until > from), ...steps];
}

/** An action that is a call to the runtime is no line of its own: the proxy notes the call. */
function kindAndNameOf({ name, attributes }: ReceivedSpan): Pick<Step, "of" | "what"> {
  const action = attributes["berth.action"];
  const [, method] = /^runtime\.v1\.\w+\/(\w+)$/.exec(name) ?? [];
  if (method !== undefined) return { of: "step", what: method };
  return action === undefined ? { of: "step", what: stepNames[name] ?? name } : { of: "agent", what: action };
}

const stepNames: Readonly<Record<string, string>> = {
  patchStatus: PATCH_STATUS,
};
