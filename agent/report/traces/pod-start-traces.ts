import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { TraceSpan } from "../../../proto/otlp/trace-request.ts";
import type { ActionKind } from "../../decide/pod/action.ts";
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
  onStatusDecided(decided: { readonly uid: PodUid; readonly desired: DesiredPod; readonly status: PodStatus }): void;
  onActionFinished(finished: ActionFinished): void;
  onPodFinished(uid: PodUid): void;
}

interface StartTrace {
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
  /** The starts that are traced, and the pods whose start is not, or is over. */
  const traces = new Map<PodUid, StartTrace | "none">();

  function end(uid: PodUid, trace: StartTrace, error?: string): void {
    traces.set(uid, "none");
    const span = { ...trace, name: "syncPod", isClient: false, endedAt: now() };
    options.export({ ...span, ...(error !== undefined && { error }) });
  }

  return {
    onStatusDecided({ uid, desired, status }) {
      const known = traces.get(uid);
      if (known === undefined) {
        const isTraced = desired.isRestored !== true && random() * 1_000_000 < samplingRatePerMillion;
        traces.set(uid, isTraced ? newTrace(desired, randomHex) : "none");
      }
      const trace = traces.get(uid);
      if (trace === undefined || trace === "none") return;
      const { phase, reason } = status;
      if (phase === "Succeeded" || isReady(status)) end(uid, trace);
      else if (phase === "Failed") end(uid, trace, reason ?? phase);
    },
    onActionFinished({ uid, action, startedAt, endedAt, result }) {
      const trace = traces.get(uid);
      if (trace === undefined || trace === "none" || result === "cancelled") return;
      const method = runtimeMethods[action.kind];
      options.export({
        ...{ traceId: trace.traceId, spanId: randomHex(8), parentSpanId: trace.spanId, startedAt, endedAt },
        name: method ?? action.kind,
        isClient: method !== undefined,
        attributes: { "berth.action": describe(action) },
        ...(!result.ok && { error: `${result.reason}: ${result.message}` }),
      });
    },
    onPodFinished(uid) {
      const trace = traces.get(uid);
      if (trace !== undefined && trace !== "none") end(uid, trace, "the pod was removed before it was ready");
      traces.delete(uid);
    },
  };
}

function newTrace({ uid, pod, acceptedAt }: DesiredPod, randomHex: PodStartTracesOptions["randomHex"]): StartTrace {
  return { traceId: randomHex(16), spanId: randomHex(8), startedAt: acceptedAt, attributes: attributesOf(uid, pod) };
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
