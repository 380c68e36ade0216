import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { TraceSpan } from "../../../proto/otlp/trace-request.ts";
import type { Action, ActionKind } from "../../decide/pod/action.ts";
import { describe } from "../../decide/pod/action.ts";
import type { ActionFinished } from "../../decide/pod/action-call.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";

export interface PodStartTracesOptions {
  readonly export: (span: TraceSpan) => void;
  readonly now: () => number;
  /** How many of a million starts are traced. */
  readonly samplingRatePerMillion: number;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** Returns this number of random bytes, as hexadecimal digits. */
  readonly randomHex: (bytes: number) => string;
}

/** One trace for each start of a pod: from when the node has accepted it until it is ready, or ends. */
export interface PodStartTraces {
  /**
   * The value of the header `traceparent` for the call of this action: its span is exported when the action has finished. With
   * the flag that nothing is sampled for a start that is not traced, so that the runtime does not trace its calls either.
   * Undefined for what belongs to no start.
   */
  traceparent(uid: PodUid, action: Action): string | undefined;
  onStatusDecided(decided: { readonly uid: PodUid; readonly desired: DesiredPod; readonly status: PodStatus }): void;
  onActionFinished(finished: ActionFinished): void;
  onPodFinished(uid: PodUid): void;
}

interface StartTrace {
  readonly isSampled: boolean;
  readonly traceId: string;
  readonly spanId: string;
  readonly startedAt: number;
  readonly attributes: Readonly<Record<string, string>>;
}

/** The gRPC methods of the actions that are calls to the runtime, by which OpenTelemetry names their spans. */
const runtimeMethods: Partial<Readonly<Record<ActionKind, string>>> = {
  runSandbox: "runtime.v1.RuntimeService/RunPodSandbox",
  pullImage: "runtime.v1.ImageService/PullImage",
  createContainer: "runtime.v1.RuntimeService/CreateContainer",
  startContainer: "runtime.v1.RuntimeService/StartContainer",
  stopContainer: "runtime.v1.RuntimeService/StopContainer",
  removeContainer: "runtime.v1.RuntimeService/RemoveContainer",
  stopSandbox: "runtime.v1.RuntimeService/StopPodSandbox",
  removeSandbox: "runtime.v1.RuntimeService/RemovePodSandbox",
};

export function createPodStartTraces(options: PodStartTracesOptions): PodStartTraces {
  const { now, samplingRatePerMillion, random, randomHex } = options;
  /** The starts under way, and the pods that were there already, or have started. */
  const traces = new Map<PodUid, StartTrace | "none">();
  /** The spans of calls under way. */
  const spanIds = new WeakMap<Action, string>();

  function startOf(uid: PodUid): StartTrace | undefined {
    const trace = traces.get(uid);
    return trace === "none" ? undefined : trace;
  }

  function end(uid: PodUid, { isSampled, ...trace }: StartTrace, error?: string): void {
    traces.set(uid, "none");
    if (!isSampled) return;
    const span = { ...trace, name: "syncPod", isClient: false, endedAt: now() };
    options.export({ ...span, ...(error !== undefined && { error }) });
  }

  return {
    traceparent(uid, action) {
      const trace = startOf(uid);
      if (trace === undefined) return undefined;
      const spanId = randomHex(8);
      spanIds.set(action, spanId);
      return `00-${trace.traceId}-${spanId}-${trace.isSampled ? "01" : "00"}`;
    },
    onStatusDecided({ uid, desired, status }) {
      if (!traces.has(uid)) {
        const newTrace = () => createTrace(desired, random() * 1_000_000 < samplingRatePerMillion, randomHex);
        traces.set(uid, desired.isRestored === true ? "none" : newTrace());
      }
      const trace = startOf(uid);
      if (trace === undefined) return;
      const { phase, reason } = status;
      if (phase === "Succeeded" || isReady(status)) end(uid, trace);
      else if (phase === "Failed") end(uid, trace, reason ?? phase);
    },
    onActionFinished({ uid, action, startedAt, endedAt, result }) {
      const trace = startOf(uid);
      if (!trace?.isSampled || result === "cancelled") return;
      const method = runtimeMethods[action.kind];
      options.export({
        ...{ traceId: trace.traceId, spanId: spanIds.get(action) ?? randomHex(8), parentSpanId: trace.spanId },
        ...{ startedAt, endedAt },
        name: method ?? action.kind,
        isClient: method !== undefined,
        attributes: { "berth.action": describe(action) },
        ...(!result.ok && { error: `${result.reason}: ${result.message}` }),
      });
    },
    onPodFinished(uid) {
      const trace = startOf(uid);
      if (trace !== undefined) end(uid, trace, "the pod was removed before it was ready");
      traces.delete(uid);
    },
  };
}

function createTrace(
  { uid, pod, acceptedAt }: DesiredPod,
  isSampled: boolean,
  randomHex: PodStartTracesOptions["randomHex"],
): StartTrace {
  const ids = { traceId: randomHex(16), spanId: randomHex(8) };
  return { isSampled, ...ids, startedAt: acceptedAt, attributes: attributesOf(uid, pod) };
}

/** The attributes that the kubelet's spans have. */
function attributesOf(uid: PodUid, { metadata: { namespace = "", name = "" } }: Pod): StartTrace["attributes"] {
  return {
    "k8s.pod.uid": uid,
    "k8s.pod": `${namespace}/${name}`,
    "k8s.pod.name": name,
    "k8s.pod.namespace": namespace,
    "k8s.pod.update_type": "create",
  };
}

const isReady = ({ conditions = [] }: PodStatus) =>
  conditions.some(({ type, status }) => type === "Ready" && status === "True");
