import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { pollUntil } from "../bed/poll-until.ts";
import { type ReceivedSpan, startTraceCollector, type TraceCollector } from "../fakes/trace-collector.ts";
import { podOf } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let collector: TraceCollector;
let node: TestNode;
beforeAll(async () => {
  collector = await startTraceCollector();
  node = await startNode({
    ...{ version: "2.1", traceCollector: collector.endpoint, network: "builtin" },
    configuration: { tracing: { endpoint: collector.endpoint, samplingRatePerMillion: 1_000_000 } },
  });
});
afterAll(async () => {
  await node.tearDown();
  collector.stop();
});

const isPlugin = ({ name }: ReceivedSpan) => name.startsWith("CNI ");

test("the start of a pod is one trace, with the calls to the runtime as its spans", async () => {
  await node.putManifest(podOf("traced"));
  await node.waitUntilRunning("traced");
  await pollUntil("the spans", 30_000, async () => collector.spans().some(({ name }) => name === "syncPod"));
  const spans = collector.spans();
  const root = spans.find(({ name }) => name === "syncPod");
  expect(root?.attributes["k8s.pod.name"]).toStartWith("traced-");
  const children = spans.filter(
    ({ traceId, parentSpanId }) => traceId === root?.traceId && parentSpanId === root.spanId,
  );
  const calls = ["RunPodSandbox", "CreateContainer", "StartContainer"].map(
    (name) => `runtime.v1.RuntimeService/${name}`,
  );
  expect(children.map(({ name }) => name).filter((name) => calls.includes(name))).toEqual(calls);
});

test("the spans of the runtime join the trace, below the calls that they answer", async () => {
  const isCall = ({ name }: ReceivedSpan) => name === "runtime.v1.RuntimeService/RunPodSandbox";
  await pollUntil("the runtime's spans", 30_000, async () => collector.spans().filter(isCall).length >= 2);
  const spans = collector.spans();
  const sent = spans.find((span) => isCall(span) && "berth.action" in span.attributes);
  const received = spans.filter((span) => span.parentSpanId === sent?.spanId && isCall(span));
  expect(received.map(({ traceId, name }) => [traceId, name])).toEqual([[sent?.traceId ?? "", sent?.name ?? ""]]);
});

test("the plugins of the network that the agent executes are spans below RunPodSandbox", () => {
  const spans = collector.spans();
  const sandbox = spans.find(({ name, attributes }) => name.endsWith("/RunPodSandbox") && "berth.action" in attributes);
  const plugins = spans.filter(isPlugin);
  expect(plugins.map(({ name, traceId, parentSpanId }) => [name, traceId, parentSpanId])).toEqual([
    ["CNI ADD berth", sandbox?.traceId ?? "", sandbox?.spanId ?? ""],
  ]);
});

test("what comes before a call is below it: the translation, and each file that the container needs", () => {
  const spans = collector.spans();
  const partsOf = (method: string) => {
    const call = spans.find(({ name, attributes }) => name.endsWith(`/${method}`) && "berth.action" in attributes);
    return spans.filter((span) => span.parentSpanId === call?.spanId && !span.name.startsWith("runtime."));
  };
  expect(partsOf("RunPodSandbox").filter((span) => !isPlugin(span))).toMatchObject([{ name: "prepare" }]);
  const parts = partsOf("CreateContainer");
  const paths = parts.filter(({ name }) => name === "makeFile").map(({ attributes }) => attributes["file.path"]);
  expect(paths.some((path) => path?.endsWith("/etc-hosts"))).toBe(true);
  expect(parts.filter(({ name }) => name === "prepare")).toHaveLength(1);
});
