import { afterEach, expect, test } from "bun:test";
import { status } from "@grpc/grpc-js";
import type { PodUid } from "../../../proto/ids.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { TraceSpan } from "../../../proto/otlp/trace-request.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { startTraceCollector } from "../../../test/fakes/trace-collector.ts";
import type { Action } from "../../decide/pod/action.ts";
import type { DesiredPod } from "../../decide/pod/desired.ts";
import type { ActionResult } from "../../decide/pod/memory.ts";
import { createPodStartTraces } from "./pod-start-traces.ts";
import { createSpanExporter } from "./span-exporter.ts";

const uid = "u-1" as PodUid;
const pod: Pod = { metadata: { namespace: "shop", name: "web", uid }, spec: { containers: [{ name: "main" }] } };
const desired: DesiredPod = { uid, pod, source: { kind: "api" }, acceptedAt: 1_000, revision: 0 };
const ready = { phase: "Running", conditions: [{ type: "Ready", status: "True" }] } as const;

interface TraceOptions {
  readonly samplingRatePerMillion?: number;
  readonly random?: number;
  readonly hasApiServer?: boolean;
}

function startTraces({ samplingRatePerMillion = 1_000_000, random = 0.5, hasApiServer = true }: TraceOptions = {}) {
  const spans: TraceSpan[] = [];
  let ids = 0;
  let nowMs = 9_000;
  const traces = createPodStartTraces({
    export: (span) => void spans.push(span),
    now: () => nowMs,
    ...{ samplingRatePerMillion, hasApiServer },
    random: () => random,
    randomHex: (bytes) => String(++ids).padStart(2 * bytes, "0"),
  });
  const newAction = (): Action => ({ kind: "runSandbox", attempt: 0, crashes: 0, why: "it has none" });
  const pass = (ms: number) => {
    nowMs += ms;
  };
  const begin = (action = newAction()) => {
    traces.onActionStarted({ uid, action });
    return action;
  };
  const run = (result: ActionResult | "cancelled" = { ok: true }, action = begin()) => {
    pass(85);
    traces.onActionFinished({ uid, action, result });
  };
  const decide = (podStatus: Parameters<typeof traces.onStatusDecided>[0]["status"], other: Partial<DesiredPod> = {}) =>
    traces.onStatusDecided({ uid, desired: { ...desired, ...other }, status: podStatus });
  const lines = () =>
    spans.map(({ name, startedAt, endedAt, error = "" }) => `${name} ${startedAt}-${endedAt} ${error}`.trim());
  return { traces, spans, newAction, begin, run, decide, lines, pass };
}

test("the start of a pod is one trace, with a span for each call to the runtime, until it is ready", () => {
  const { spans, run, decide, lines } = startTraces();
  decide({ phase: "Pending" });
  run({ ok: false, reason: "CreatePodSandboxError", message: "no network", isOutage: false });
  run("cancelled");
  run();
  decide(ready);
  run();
  decide(ready);
  expect(lines()).toEqual([
    "runtime.v1.RuntimeService/RunPodSandbox 9000-9085 CreatePodSandboxError: no network",
    "runtime.v1.RuntimeService/RunPodSandbox 9170-9255",
    "syncPod 1000-9255",
  ]);
  const [first, , root] = spans;
  expect(first?.parentSpanId).toBe(root!.spanId);
  expect(new Set(spans.map(({ traceId }) => traceId)).size).toBe(1);
  expect(root?.attributes).toMatchObject({
    "k8s.pod.uid": "u-1",
    "k8s.pod": "shop/web",
    "k8s.pod.update_type": "create",
  });
});

test("a start that fails, or whose pod is removed, ends with its reason", () => {
  const rejected = startTraces();
  rejected.decide({ phase: "Failed", reason: "OutOfcpu" });
  expect(rejected.lines()).toEqual(["syncPod 1000-9000 OutOfcpu"]);
  const removed = startTraces();
  removed.decide({ phase: "Pending" });
  removed.traces.onPodFinished(uid);
  expect(removed.lines()).toEqual(["syncPod 1000-9000 the pod was removed before it was ready"]);
});

test("only the configured part of the starts is traced, and no pod of an earlier agent", () => {
  const unlucky = startTraces({ samplingRatePerMillion: 400_000 });
  unlucky.decide({ phase: "Pending" });
  unlucky.run();
  const restored = startTraces();
  restored.decide({ phase: "Running" }, { isRestored: true });
  restored.decide(ready);
  expect([...unlucky.lines(), ...restored.lines()]).toEqual([]);
});

test("the call of an action carries the span that is exported for it", () => {
  const { traces, spans, begin, run, decide } = startTraces();
  decide({ phase: "Pending" });
  const [first, second] = [begin(), begin()];
  const sent = [first, second].map((action) => traces.traceparent(uid, action));
  run({ ok: true }, second);
  run({ ok: true }, first);
  const contextOf = ({ traceId, spanId }: TraceSpan) => `00-${traceId}-${spanId}-01`;
  expect(spans.map(contextOf)).toEqual(sent.toReversed() as string[]);
  expect(sent[0]).toMatch(/^00-[\da-f]{32}-[\da-f]{16}-01$/);
});

test("the calls of a start that is not traced carry the flag that nothing is sampled", () => {
  const { traces, spans, begin, run, decide } = startTraces({ samplingRatePerMillion: 400_000 });
  decide({ phase: "Pending" });
  const action = begin();
  expect(traces.traceparent(uid, action)).toMatch(/^00-[\da-f]{32}-[\da-f]{16}-00$/);
  run({ ok: true }, action);
  decide(ready);
  expect(spans).toEqual([]);
});

test("each call of a plugin is a span below RunPodSandbox, as long as that is under way", () => {
  const { traces, spans, begin, run, decide, pass } = startTraces();
  const call = { verb: "ADD", network: "pods", plugin: "bridge", durationMs: 20, error: undefined } as const;
  traces.onPluginCallFinished(uid, call);
  decide({ phase: "Pending" });
  traces.onPluginCallFinished(uid, call);
  const action = begin();
  pass(30);
  traces.onPluginCallFinished(uid, call);
  pass(5);
  const error = new Error("host-local: no address is left");
  traces.onPluginCallFinished(uid, { ...call, plugin: "host-local", durationMs: 5, error });
  run({ ok: true }, action);
  traces.onPluginCallFinished(uid, call);
  const sandbox = spans.find(({ name }) => name === "runtime.v1.RuntimeService/RunPodSandbox");
  const ofPlugins = spans.filter(({ name }) => name.startsWith("CNI "));
  expect(ofPlugins.map(({ name, startedAt, endedAt, error = "" }) => [name, startedAt, endedAt, error])).toEqual([
    ["CNI ADD bridge", 9_010, 9_030, ""],
    ["CNI ADD host-local", 9_030, 9_035, error.message],
  ]);
  for (const { traceId, parentSpanId, attributes } of ofPlugins) {
    expect({ traceId, parentSpanId }).toEqual({ traceId: sandbox?.traceId ?? "", parentSpanId: sandbox?.spanId });
    expect(attributes).toEqual({ "cni.network": "pods" });
  }
});

test("what an action does before its call, and each operation on files, is a span below the action", () => {
  const { traces, spans, begin, run, decide, pass } = startTraces();
  decide({ phase: "Pending" });
  const action = begin();
  const below = traces.actionSpans(uid, action);
  pass(1);
  const [onHostsWritten, onLogMade] = ["etc-hosts", "log"].map((path) => below?.onFileOperation("makeFile", path));
  pass(2);
  onLogMade?.();
  pass(3);
  onHostsWritten?.();
  below?.onRuntimeCall();
  pass(4);
  below?.onRuntimeCall();
  run({ ok: true }, action);
  const call = spans.find(({ name }) => name === "runtime.v1.RuntimeService/RunPodSandbox");
  const parts = spans.filter(({ parentSpanId }) => parentSpanId === call?.spanId);
  expect(parts.map(({ name, startedAt, endedAt, attributes }) => [name, startedAt, endedAt, attributes])).toEqual([
    ["makeFile", 9_001, 9_003, { "file.path": "log" }],
    ["makeFile", 9_001, 9_006, { "file.path": "etc-hosts" }],
    ["prepare", 9_000, 9_006, {}],
  ]);
});

test("of operations on many files the trace has 200, and all of its other spans", () => {
  const { traces, begin, decide, lines } = startTraces();
  decide({ phase: "Pending" });
  const actions = [begin(), begin()];
  const [below, next] = actions.map((action) => traces.actionSpans(uid, action));
  for (let count = 0; count < 300; count++) below?.onFileOperation("makeFile", "key")();
  for (const spansBelow of [below, next]) spansBelow?.onRuntimeCall();
  traces.onSynced(uid, { startedMs: 0, endedMs: 0 });
  expect(lines().filter((line) => line.startsWith("makeFile"))).toHaveLength(200);
  expect(lines().filter((line) => line.startsWith("prepare"))).toHaveLength(2);
  expect(lines().at(-1)).toStartWith("observe ");
});

test("an action of a start that is not traced, or of none, has no spans below it", () => {
  const unlucky = startTraces({ samplingRatePerMillion: 400_000 });
  unlucky.decide({ phase: "Pending" });
  expect(unlucky.traces.actionSpans(uid, unlucky.begin())).toBeUndefined();
  const { traces, newAction } = startTraces();
  expect(traces.actionSpans(uid, newAction())).toBeUndefined();
});

test("calls that belong to no start carry no span", () => {
  const { traces, newAction, decide } = startTraces();
  expect(traces.traceparent(uid, newAction())).toBeUndefined();
  decide({ phase: "Pending" });
  decide(ready);
  expect(traces.traceparent(uid, newAction())).toBeUndefined();
  const restored = startTraces();
  restored.decide({ phase: "Running" }, { isRestored: true });
  expect(restored.traces.traceparent(uid, newAction())).toBeUndefined();
});

test("each step of a sync is a span, up to the patch that shows the API server that the pod is ready", () => {
  const { traces, spans, begin, run, decide, lines, pass } = startTraces();
  const sync = (startedMs: number, endedMs: number) => traces.onSynced(uid, { startedMs, endedMs });
  pass(2);
  traces.onObserved({ uid }, desired);
  pass(1);
  decide({ phase: "Pending" });
  pass(0.5);
  run({ ok: true }, begin());
  run({ ok: true }, begin());
  pass(3);
  sync(100, 276.5);
  traces.onStatusSaved(uid, { ...pod, status: { phase: "Pending" } }, 20);
  pass(4);
  traces.onObserved({ uid }, desired);
  decide(ready);
  pass(1);
  sync(300, 305);
  pass(6);
  traces.onStatusSaved(uid, { ...pod, status: ready }, 7);
  expect(lines()).toEqual([
    "runtime.v1.RuntimeService/RunPodSandbox 9003.5-9088.5",
    "runtime.v1.RuntimeService/RunPodSandbox 9088.5-9173.5",
    "observe 9000-9002",
    "decide 9002-9003",
    "report 9003-9003.5",
    "act 9003.5-9176.5",
    "patchStatus 9156.5-9176.5",
    "syncPod 1000-9180.5",
    "observe 9176.5-9180.5",
    "decide 9180.5-9180.5",
    "report 9180.5-9181.5",
    "patchStatus 9180.5-9187.5",
  ]);
  const root = spans.find(({ name }) => name === "syncPod");
  expect(new Set(spans.filter((each) => each !== root).map(({ parentSpanId }) => parentSpanId))).toEqual(
    new Set([root?.spanId]),
  );
});

test("after its start a pod has no spans, and a sync that could not observe is one step", () => {
  const { traces, decide, lines, pass } = startTraces();
  decide({ phase: "Pending" });
  traces.onSynced(uid, { startedMs: 0, endedMs: 0 });
  pass(5);
  traces.onSynced(uid, { startedMs: 10, endedMs: 14 });
  expect(lines().at(-1)).toBe("observe 9001-9005");
  decide(ready);
  traces.onSynced(uid, { startedMs: 20, endedMs: 21 });
  const count = lines().length;
  traces.onObserved({ uid }, desired);
  decide(ready);
  traces.onSynced(uid, { startedMs: 30, endedMs: 31 });
  traces.onStatusSaved(uid, { ...pod, status: ready }, 1);
  traces.onStatusSaved(uid, { ...pod, status: ready }, 1);
  expect(lines().slice(count)).toEqual(["patchStatus 9004-9005"]);
});

test("a pod that is deleted before it is ready has not started, also if its containers then exit with code 0", () => {
  const termination = { requestedAt: 2_000, gracePeriodSeconds: 30, why: "the pod was deleted" };
  const removed = "syncPod 1000-9000 the pod was removed before it was ready";
  for (const phase of ["Succeeded", "Failed"] as const) {
    const { traces, decide, lines, newAction } = startTraces();
    decide({ phase: "Pending" });
    decide({ phase }, { termination });
    traces.onPodFinished(uid);
    expect([lines(), traces.traceparent(uid, newAction())]).toEqual([[removed], undefined]);
  }
  const evicted = startTraces();
  evicted.decide({ phase: "Pending" });
  evicted.decide({ phase: "Failed", reason: "Evicted" }, { termination });
  expect(evicted.lines()).toEqual(["syncPod 1000-9000 Evicted"]);
});

test("the trace of a pod that is no longer ready when its status is sent ends with that patch", () => {
  const { traces, decide, lines } = startTraces();
  decide(ready);
  traces.onSynced(uid, { startedMs: 0, endedMs: 0 });
  const count = lines().length;
  const notReady = { ...pod, status: { phase: "Running" } as const };
  // The first patch was under way when the pod became ready.
  for (let patches = 0; patches < 5; patches++) traces.onStatusSaved(uid, notReady, 1);
  expect(lines().slice(count)).toEqual(["patchStatus 8999-9000", "patchStatus 8999-9000"]);
});

test("the trace of a pod of a standalone node ends with the sync that has found it ready", () => {
  const { traces, decide, lines } = startTraces({ hasApiServer: false });
  decide(ready);
  traces.onSynced(uid, { startedMs: 0, endedMs: 0 });
  const count = lines().length;
  traces.onStatusSaved(uid, { ...pod, status: ready }, 1);
  expect(lines().slice(count)).toEqual([]);
});

const cleanUps: (() => void)[] = [];
afterEach(() => {
  for (const cleanUp of cleanUps.splice(0)) cleanUp();
});

async function startCollector(...failures: readonly number[]) {
  const collector = await startTraceCollector(...failures);
  cleanUps.push(collector.stop);
  return collector;
}

const span: TraceSpan = {
  ...{ traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331", name: "syncPod", isClient: false },
  ...{ startedAt: 0, endedAt: 1, attributes: {} },
};
const until = async (condition: () => boolean) => {
  while (!condition()) await new Promise((resolve) => setImmediate(resolve));
};

test("spans are sent together after five seconds, and what is left at the end; nothing is scheduled without a span", async () => {
  const { endpoint, received } = await startCollector();
  const [clock, log] = [new FakeClock(), new FakeLog()];
  const exporter = createSpanExporter({ endpoint, resource: { "service.name": "kubelet" }, clock, log });
  await clock.advance(60_000);
  expect(received).toEqual([]);
  for (const name of ["first", "second"]) exporter.export({ ...span, name });
  await clock.advance(4_999);
  expect(received).toEqual([]);
  await clock.advance(1);
  await until(() => received.length === 1);
  expect(received[0]?.includes("first") && received[0].includes("second")).toBe(true);
  exporter.export({ ...span, name: "third" });
  await exporter.stop();
  expect(received).toHaveLength(2);
  expect(received[1]?.includes("kubelet")).toBe(true);
});

test("512 spans are sent at once, and spans above 2048 without an answer are dropped", async () => {
  const { endpoint, received } = await startCollector();
  const exporter = createSpanExporter({ endpoint, resource: {}, clock: new FakeClock(), log: new FakeLog() });
  // No answer can arrive in between.
  for (let count = 0; count < 3_000; count++) exporter.export(span);
  await until(() => received.length === 4);
  await exporter.stop();
  expect(received).toHaveLength(4);
});

test("a collector that refuses is reported once, until it accepts again", async () => {
  const { endpoint, received } = await startCollector(status.UNAVAILABLE, status.UNAVAILABLE);
  const [clock, log] = [new FakeClock(), new FakeLog()];
  const exporter = createSpanExporter({ endpoint, resource: {}, clock, log });
  for (const count of [1, 2, 3]) {
    exporter.export(span);
    await clock.advance(5_000);
    await until(() => received.length === count);
  }
  await exporter.stop();
  expect(log.lines.filter((line) => JSON.stringify(line).includes("cannot send traces to the collector"))).toHaveLength(
    1,
  );
});
