import type { OnFileOperation } from "../../../host/fs/traced-files.ts";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod, PodStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { TraceSpan } from "../../../proto/otlp/trace-request.ts";
import type { Action, ActionKind } from "../../decide/pod/action.ts";
import { describe } from "../../decide/pod/action.ts";
import type { ActionFinished, ActionStarted } from "../../decide/pod/action-call.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ActionResult } from "../../decide/pod/memory.ts";
import type { ObservedPod } from "../../decide/pod/observed.ts";
import { createSyncSteps, type SyncStep } from "./sync-steps.ts";

export interface PodStartTracesOptions {
  readonly export: (span: TraceSpan) => void;
  /** Epoch milliseconds with their fraction: most steps of a start take less than one. */
  readonly now: () => number;
  /** Whether statuses are sent to an API server. On a standalone node a trace ends without a patch. */
  readonly hasApiServer: boolean;
  /** How many of a million starts are traced. */
  readonly samplingRatePerMillion: number;
  /** From 0 up to 1. */
  readonly random: () => number;
  /** Returns this number of random bytes, as hexadecimal digits. */
  readonly randomHex: (bytes: number) => string;
}

/** A call of a network plugin that has ended. */
export interface FinishedPluginCall {
  readonly verb: string;
  readonly plugin: string;
  readonly network: string;
  readonly durationMs: number;
  /** Undefined if it succeeded. */
  readonly error: Error | undefined;
}

/** Callbacks of one action, which make spans below its span. */
export interface ActionSpans {
  /** The action is about to call the runtime: its span `prepare` ends. Later calls have no effect. */
  onRuntimeCall(): void;
  /** The action begins an operation on files. */
  onFileOperation: OnFileOperation;
}

/**
 * One trace for each start of a pod: from when the node has accepted it until it is ready, or ends. It has a span for each action,
 * for each plugin of a network that the agent executes, for each step of a sync (observe, decide, report, act), and for each patch of the
 * status. `act` lasts until the results of its actions are recorded. Below an action are a span until it calls the runtime (`prepare`),
 * and one for each operation on the pod's own files, of which a trace has at most 200.
 */
export interface PodStartTraces {
  /**
   * The value of the header `traceparent` for the call of this action: its span is exported when the action has finished. With
   * the flag that nothing is sampled for a start that is not traced, so that the runtime does not trace its calls either.
   * Undefined for what belongs to no start.
   */
  traceparent(uid: PodUid, action: Action): string | undefined;
  /**
   * Reports what the action does until it calls the runtime, for spans below its own. Undefined if the start is not traced,
   * and for an action of no start.
   */
  actionSpans(uid: PodUid, action: Action): ActionSpans | undefined;
  onObserved(observed: Pick<ObservedPod, "uid">, desired: DesiredPod | undefined): void;
  onStatusDecided(decided: { readonly uid: PodUid; readonly desired: DesiredPod; readonly status: PodStatus }): void;
  onActionStarted(started: Pick<ActionStarted, "uid" | "action">): void;
  onActionFinished(finished: Pick<ActionFinished, "uid" | "action" | "result">): void;
  /** A call of a plugin has just ended. Its span is a child of the pod's RunPodSandbox under way. */
  onPluginCallFinished(uid: PodUid, call: FinishedPluginCall): void;
  /** The times are those of a monotonic clock. */
  onSynced(uid: PodUid, times: { readonly startedMs: number; readonly endedMs: number }): void;
  /** The API server has accepted a status, `waitedMs` after it began to differ. `pod` is the pod as it answered. */
  onStatusSaved(uid: PodUid, pod: Pod, waitedMs: number): void;
  onPodFinished(uid: PodUid): void;
}

interface StartTrace {
  readonly isSampled: boolean;
  readonly traceId: string;
  readonly spanId: string;
  readonly startedAt: number;
  readonly attributes: Readonly<Record<string, string>>;
  /**
   * starting ── a status ends the start ──► ended ── its sync ends ──► synced ── the API server accepts the status ──► no trace
   *
   * `ended`: the root span is exported, and the sync under way still gets its spans. `synced`: only the patch of the status is awaited.
   */
  state: "starting" | "ended" | "synced";
  /** How many patches after the end may still belong to the start: the one under way then, and the next, which has the latest status. */
  awaitedPatches: number;
  /** How many steps of syncs and patches of the status have been exported, or left out. */
  stepCount: number;
  /** The same for operations on files. */
  fileSpanCount: number;
}

/** A pod that crashes again and again does not start, and would add steps to its trace for days. Its actions stay in the trace. */
const MAX_STEPS = 200;
/** A volume may have many files. */
const MAX_FILE_SPANS = 200;
const AWAITED_PATCHES = 2;

/** The pod was deleted, or the node has ended it, before it was ready. */
const REMOVED = "the pod was removed before it was ready";

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
  const { now, randomHex } = options;
  const traces = createTraces(options);
  const { startOf, sampledOf } = traces;
  const [steps, calls, childExports] = [createSyncSteps(now), createCallSpans(options), createChildExports(options)];
  const { exportChild, exportStep } = childExports;

  function end(trace: StartTrace, error?: string): void {
    trace.state = "ended";
    if (trace.isSampled) options.export(rootSpan(trace, now(), error));
  }

  function endStep(uid: PodUid, name: SyncStep["name"]): void {
    if (sampledOf(uid) !== undefined) steps.end(uid, name);
  }

  return {
    traceparent(uid, action) {
      const trace = startOf(uid);
      if (trace === undefined) return undefined;
      const spanId = calls.of(action)?.spanId ?? randomHex(8);
      return `00-${trace.traceId}-${spanId}-${trace.isSampled ? "01" : "00"}`;
    },
    actionSpans(uid, action) {
      const [trace, call] = [startOf(uid), calls.of(action)];
      return trace?.isSampled && call ? spansBelow(call, trace, now, childExports) : undefined;
    },
    onObserved({ uid }, desired) {
      if (desired !== undefined) traces.begin(desired);
      endStep(uid, "observe");
    },
    onStatusDecided({ uid, desired, status }) {
      traces.begin(desired);
      endStep(uid, "decide");
      const trace = startOf(uid);
      if (trace === undefined) return;
      const ended = endOf(desired, status);
      if (ended !== undefined) end(trace, ended.error);
    },
    onActionStarted({ uid, action }) {
      endStep(uid, "report");
      if (startOf(uid) !== undefined) calls.begin(uid, action);
    },
    onActionFinished({ uid, action, result }) {
      const trace = startOf(uid);
      const call = calls.finish(uid, action);
      if (!trace?.isSampled || call === undefined || result === "cancelled") return;
      exportChild(trace, { ...call, endedAt: now(), ...actionSpan(action, result) });
    },
    onPluginCallFinished(uid, call) {
      const trace = startOf(uid);
      const parent = calls.sandboxOf(uid);
      if (trace?.isSampled && parent !== undefined) exportStep(trace, pluginSpan(call, parent, now()));
    },
    onSynced(uid, times) {
      const trace = sampledOf(uid);
      if (trace === undefined) return;
      for (const step of steps.endSync(uid, times)) exportStep(trace, step);
      if (trace.state !== "ended") return;
      if (options.hasApiServer) trace.state = "synced";
      else traces.close(uid);
    },
    onStatusSaved(uid, { status }, waitedMs) {
      const trace = traces.get(uid);
      if (trace === undefined) return;
      const endedAt = now();
      if (trace.isSampled) exportStep(trace, { name: "patchStatus", startedAt: endedAt - waitedMs, endedAt });
      // The API server never gets a status that another one has replaced before it was sent.
      if (trace.state !== "starting") trace.awaitedPatches -= 1;
      if (status?.phase === "Failed" || hasStarted(status) || trace.awaitedPatches === 0) traces.close(uid);
    },
    onPodFinished(uid) {
      const trace = startOf(uid);
      if (trace !== undefined) end(trace, REMOVED);
      traces.forget(uid);
      steps.forget(uid);
    },
  };
}

/** Exports spans below the root span, or below another parent. */
function createChildExports(options: Pick<PodStartTracesOptions, "export" | "randomHex">) {
  const exportChild = ({ traceId, spanId: parentSpanId }: StartTrace, span: ChildSpan) =>
    options.export({ traceId, parentSpanId, spanId: options.randomHex(8), isClient: false, attributes: {}, ...span });
  return {
    exportChild,
    exportStep(trace: StartTrace, span: ChildSpan): void {
      if (++trace.stepCount <= MAX_STEPS) exportChild(trace, span);
    },
    exportFileSpan(trace: StartTrace, span: ChildSpan): void {
      if (++trace.fileSpanCount <= MAX_FILE_SPANS) exportChild(trace, span);
    },
  };
}

function spansBelow(
  call: CallSpan,
  trace: StartTrace,
  now: () => number,
  { exportChild, exportFileSpan }: ReturnType<typeof createChildExports>,
): ActionSpans {
  const { spanId: parentSpanId, startedAt } = call;
  let isPrepared = false;
  return {
    onRuntimeCall() {
      if (!isPrepared) exportChild(trace, { parentSpanId, name: "prepare", startedAt, endedAt: now() });
      isPrepared = true;
    },
    onFileOperation(name, path) {
      const began = now();
      return () =>
        exportFileSpan(trace, {
          parentSpanId,
          name,
          startedAt: began,
          endedAt: now(),
          attributes: { "file.path": path },
        });
    },
  };
}

interface CallSpan {
  readonly spanId: string;
  readonly startedAt: number;
}

/** The spans of the calls under way. */
function createCallSpans({ now, randomHex }: Pick<PodStartTracesOptions, "now" | "randomHex">) {
  const spans = new WeakMap<Action, CallSpan>();
  const ofSandboxes = new Map<PodUid, CallSpan>();
  return {
    begin(uid: PodUid, action: Action): void {
      const span = { spanId: randomHex(8), startedAt: now() };
      spans.set(action, span);
      if (action.kind === "runSandbox") ofSandboxes.set(uid, span);
    },
    of: (action: Action) => spans.get(action),
    /** The span of the pod's RunPodSandbox. */
    sandboxOf: (uid: PodUid) => ofSandboxes.get(uid),
    /** Returns the span of the action; from now on it has no plugin spans. */
    finish(uid: PodUid, action: Action): CallSpan | undefined {
      if (action.kind === "runSandbox") ofSandboxes.delete(uid);
      return spans.get(action);
    },
  };
}

/** The traces of the starts under way. The pods that were there already, or have started, have none. */
function createTraces({ samplingRatePerMillion, random, randomHex }: PodStartTracesOptions) {
  const traces = new Map<PodUid, StartTrace | "none">();
  const get = (uid: PodUid) => {
    const trace = traces.get(uid);
    return trace === "none" ? undefined : trace;
  };
  return {
    get,
    begin(desired: DesiredPod): void {
      if (traces.has(desired.uid)) return;
      const newTrace = () => createTrace(desired, random() * 1_000_000 < samplingRatePerMillion, randomHex);
      traces.set(desired.uid, desired.isRestored === true ? "none" : newTrace());
    },
    /** The trace of a pod that has not started yet. */
    startOf(uid: PodUid): StartTrace | undefined {
      const trace = get(uid);
      return trace?.state === "starting" ? trace : undefined;
    },
    /** The trace of a pod whose syncs are spans. */
    sampledOf(uid: PodUid): StartTrace | undefined {
      const trace = get(uid);
      return trace?.isSampled === true && trace.state !== "synced" ? trace : undefined;
    },
    close: (uid: PodUid) => void traces.set(uid, "none"),
    forget: (uid: PodUid) => void traces.delete(uid),
  };
}

type ChildSpan = Pick<TraceSpan, "name" | "startedAt" | "endedAt"> & Partial<TraceSpan>;

function rootSpan({ traceId, spanId, startedAt, attributes }: StartTrace, endedAt: number, error?: string): TraceSpan {
  const span = { traceId, spanId, startedAt, endedAt, attributes, name: "syncPod", isClient: false };
  return { ...span, ...(error !== undefined && { error }) };
}

function actionSpan(action: Action, result: ActionResult) {
  const method = runtimeMethods[action.kind];
  return {
    ...{ name: method ?? action.kind, isClient: method !== undefined },
    attributes: { "berth.action": describe(action) },
    ...(!result.ok && { error: `${result.reason}: ${result.message}` }),
  };
}

function pluginSpan(
  { verb, plugin, network, durationMs, error }: FinishedPluginCall,
  parent: CallSpan,
  endedAt: number,
): ChildSpan {
  return {
    ...{ name: `CNI ${verb} ${plugin}`, isClient: true, attributes: { "cni.network": network } },
    ...{ parentSpanId: parent.spanId, startedAt: endedAt - durationMs, endedAt },
    ...(error !== undefined && { error: error.message }),
  };
}

function createTrace(
  { uid, pod, acceptedAt }: DesiredPod,
  isSampled: boolean,
  randomHex: PodStartTracesOptions["randomHex"],
): StartTrace {
  const ids = { traceId: randomHex(16), spanId: randomHex(8) };
  const attributes = attributesOf(uid, pod);
  return {
    isSampled,
    ...ids,
    startedAt: acceptedAt,
    attributes,
    state: "starting",
    awaitedPatches: AWAITED_PATCHES,
    stepCount: 0,
    fileSpanCount: 0,
  };
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

/** How the start ends by this status; undefined as long as it goes on. */
function endOf({ termination }: DesiredPod, status: PodStatus): { readonly error: string | undefined } | undefined {
  const { phase, reason } = status;
  // A container that a deletion stops may exit with code 0: the pod has not completed all the same.
  const removed = termination === undefined ? undefined : REMOVED;
  if (phase === "Failed") return { error: reason ?? removed ?? phase };
  if (phase === "Succeeded") return { error: removed };
  return hasStarted(status) ? { error: undefined } : undefined;
}

/** Whether the pod is ready, or has completed. */
const hasStarted = ({ phase, conditions = [] }: PodStatus = {}) =>
  phase === "Succeeded" || conditions.some(({ type, status }) => type === "Ready" && status === "True");
