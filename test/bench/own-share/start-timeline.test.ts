import { expect, test } from "bun:test";
import {
  ContainerStatusRequest,
  CreateContainerRequest,
  CreateContainerResponse,
  ImageStatusRequest,
  ListContainersRequest,
  RunPodSandboxRequest,
  RunPodSandboxResponse,
  StartContainerRequest,
} from "../../../proto/cri/gen/api.ts";
import { ownSegments } from "./own-segments.ts";
import type { PassedCall } from "./runtime-proxy.ts";
import { drawOwnSteps, drawTimeline, middleStart, ownShareMs, runtimeSteps } from "./start-timeline.ts";
import type { StartTimeline, Step } from "./step.ts";
import { tracedSteps } from "./traced-steps.ts";

const nothing: Uint8Array = new Uint8Array();
const sandbox = (name: string) => RunPodSandboxRequest.fromPartial({ config: { metadata: { name } } });
const call = (
  method: string,
  from: number,
  until: number,
  request: Uint8Array = nothing,
  response: Uint8Array = nothing,
): PassedCall => ({
  ...{ method, from, until, request, response },
});
const run = (name: string, id: string, from: number, until: number) =>
  call(
    "RunPodSandbox",
    from,
    until,
    RunPodSandboxRequest.encode(sandbox(name)).finish(),
    RunPodSandboxResponse.encode({ podSandboxId: id }).finish(),
  );
const create = (podSandboxId: string, containerId: string, from: number, until: number) =>
  call(
    "CreateContainer",
    from,
    until,
    CreateContainerRequest.encode(CreateContainerRequest.fromPartial({ podSandboxId })).finish(),
    CreateContainerResponse.encode({ containerId }).finish(),
  );

const calls = [
  call("ImageStatus", 900, 901, ImageStatusRequest.encode(ImageStatusRequest.fromPartial({})).finish()),
  run("other", "s0", 1002, 1020),
  run("web", "s1", 1010, 1090),
  create("s0", "c0", 1091, 1099),
  create("s1", "c1", 1100, 1110),
  call("ListContainers", 1105, 1115, ListContainersRequest.encode({ filter: undefined }).finish()),
  call("StartContainer", 1112, 1150, StartContainerRequest.encode({ containerId: "c1" }).finish()),
  call("ContainerStatus", 1140, 1155, ContainerStatusRequest.encode({ containerId: "c1", verbose: false }).finish()),
  call("ContainerStatus", 1156, 1157, ContainerStatusRequest.encode({ containerId: "c0", verbose: false }).finish()),
];
const steps = runtimeSteps(calls, "web", { createdAt: 1000, readyAt: 1170 });
const start: StartTimeline = {
  shownMs: 4,
  readyMs: 170,
  steps: [...steps, { of: "api", what: "patch pods status", from: 158, until: 166 }],
};

test("the calls of a pod are found by the ids in their messages", () => {
  expect(steps.map(({ what, from, until }) => [what, from, until])).toEqual([
    ["RunPodSandbox", 10, 90],
    ["CreateContainer", 100, 110],
    ["StartContainer", 112, 150],
    ["ContainerStatus", 140, 155],
  ]);
});

test("an agent's own share is the time without a call for the pod, and two calls at once count once", () => {
  expect(ownShareMs(start)).toBe(170 - 80 - 10 - 43);
});

test("the time line shows each step and the agent's work in between", () => {
  expect(drawTimeline("berth", start)).toMatchInlineSnapshot(`
    "berth: created → Ready 170.0 ms, of them 37.0 ms without a CRI call for the pod
        0.0 →    4.0     4.0 ms  the API server stores the pod and sends it to watches
        4.0 →   10.0     6.0 ms  (berth)
       10.0 →   90.0    80.0 ms  RunPodSandbox
       90.0 →  100.0    10.0 ms  (berth)
      100.0 →  110.0    10.0 ms  CreateContainer
      110.0 →  112.0     2.0 ms  (berth)
      112.0 →  150.0    38.0 ms  StartContainer
      140.0 →  155.0    15.0 ms  ContainerStatus
      155.0 →  158.0     3.0 ms  (berth)
      158.0 →  166.0     8.0 ms  patch pods status
      166.0 →  170.0     4.0 ms  the watch shows the pod Ready"
  `);
});

test("the drawn start is the one in the middle", () => {
  const of = (readyMs: number): StartTimeline => ({ shownMs: 1, readyMs, steps: [] });
  expect(middleStart([of(9), of(1), of(5)])?.readyMs).toBe(5);
});

const span = (name: string, startedAt: number, endedAt: number, action?: string) => ({
  ...{ traceId: "t", parentSpanId: "root", spanId: `${name}${startedAt}`, name, startedAt, endedAt },
  attributes: action === undefined ? {} : { "berth.action": action },
});
const part = (name: string, startedAt: number, endedAt: number, path?: string) => ({
  ...span(name, startedAt, endedAt),
  parentSpanId: `${runSandbox}1009`,
  attributes: path === undefined ? {} : { "file.path": path },
});
const runSandbox = "runtime.v1.RuntimeService/RunPodSandbox";
const spans = [
  { ...span("syncPod", 1005, 1158), spanId: "root", attributes: { "k8s.pod.name": "web", "k8s.pod.uid": "u-1" } },
  span("observe", 1006, 1007),
  span("decide", 1007, 1008),
  span("act", 1008.5, 1094),
  span("makeResource", 1009.5, 1015, "create the pod's directories"),
  span(runSandbox, 1009, 1092, "run the sandbox"),
  part("prepare", 1009, 1009.7),
  part("readLink", 1009.2, 1009.6, "/node/root/pods/u-1/web"),
  part("CNI ADD bridge", 1040, 1050),
  span("patchStatus", 1011, 1093),
  span("observe", 1094, 1096),
  span("patchStatus", 1094.5, 1167),
  { ...span("observe", 1111, 1112), traceId: "another pod's" },
];
const dirs = ["/node/root", "/node/logs"];

test("a trace names what the agent does between the calls, and shows what it does not name", () => {
  const firstPatch: Step = { of: "api", what: "patch pods status", from: 14, until: 19 };
  const traced: StartTimeline = {
    ...start,
    steps: [...start.steps, firstPatch, ...tracedSteps({ spans, dirs }, "web", { createdAt: 1000, shownAt: 1004 })],
  };
  expect(drawTimeline("berth", traced)).toMatchInlineSnapshot(`
    "berth: created → Ready 170.0 ms, of them 37.0 ms without a CRI call for the pod, 82 % of it with a name
        0.0 →    4.0     4.0 ms  the API server stores the pod and sends it to watches
        4.0 →    5.0     1.0 ms  (berth) receive and decode the pod
        5.0 →    6.0     1.0 ms  (berth) wait for the first sync
        6.0 →    7.0     1.0 ms  (berth) observe
        7.0 →    8.0     1.0 ms  (berth) decide
        8.0 →    8.5     0.5 ms  (berth)
        8.5 →    9.0     0.5 ms  (berth) act, before RunPodSandbox
        9.0 →    9.2     0.2 ms  (berth) RunPodSandbox: translate the pod
        9.2 →    9.6     0.4 ms  (berth) RunPodSandbox: readLink pods/UID/POD
        9.5 →   15.0     5.5 ms  (berth) create the pod's directories
        9.6 →    9.7     0.1 ms  (berth) RunPodSandbox: translate the pod
        9.7 →   10.0     0.3 ms  (berth) RunPodSandbox: send the request
       10.0 →   90.0    80.0 ms  RunPodSandbox
       14.0 →   19.0     5.0 ms  patch pods status
       90.0 →   92.0     2.0 ms  (berth) RunPodSandbox: receive the answer
       92.0 →   94.0     2.0 ms  (berth) act, after RunPodSandbox
       94.0 →   96.0     2.0 ms  (berth) observe
       96.0 →  100.0     4.0 ms  (berth)
      100.0 →  110.0    10.0 ms  CreateContainer
      110.0 →  112.0     2.0 ms  (berth)
      112.0 →  150.0    38.0 ms  StartContainer
      140.0 →  155.0    15.0 ms  ContainerStatus
      155.0 →  158.0     3.0 ms  (berth) patch pods status: send the request
      158.0 →  166.0     8.0 ms  patch pods status
      166.0 →  170.0     4.0 ms  the watch shows the pod Ready"
  `);
  expect(drawOwnSteps("berth", [traced, start])).toMatchInlineSnapshot(`
    "berth: the time without a CRI call for the pod, the mean of 2 starts
       13.8 ms  (berth)
        8.0 ms  patch pods status
        4.0 ms  the API server stores the pod and sends it to watches
        4.0 ms  the watch shows the pod Ready
        1.5 ms  (berth) observe
        1.5 ms  (berth) patch pods status: send the request
        1.0 ms  (berth) RunPodSandbox: receive the answer
        1.0 ms  (berth) act, after RunPodSandbox
        0.5 ms  (berth) receive and decode the pod
        0.5 ms  (berth) wait for the first sync
        0.5 ms  (berth) decide
        0.3 ms  (berth) act, before RunPodSandbox
        0.2 ms  (berth) RunPodSandbox: readLink pods/UID/POD
        0.2 ms  (berth) RunPodSandbox: translate the pod
        0.1 ms  (berth) RunPodSandbox: send the request
       37.0 ms  together"
  `);
});

test("a patch during the start is not awaited, and the last one is", () => {
  const patches: readonly Step[] = [
    { of: "api", what: "patch pods status", from: 92, until: 97 },
    { of: "step", what: "patch pods status", from: 91, until: 98 },
  ];
  const children = tracedSteps({ spans, dirs }, "web", { createdAt: 1000, shownAt: 1004 });
  const segments = ownSegments({ ...start, steps: [...start.steps, ...patches, ...children] });
  const between = segments.filter(({ from, until }) => from >= 90 && until <= 100).map(({ what }) => what);
  expect(between).toEqual(["RunPodSandbox: receive the answer", "act, after RunPodSandbox", "observe", undefined]);
  expect(segments.filter(({ isRequest }) => isRequest)).toEqual([
    { what: "patch pods status", isRequest: true, from: 158, until: 166 },
  ]);
});

test("a pod that Berth has received before another watch shows it has no time of receiving", () => {
  const names = tracedSteps({ spans, dirs }, "web", { createdAt: 1000, shownAt: 1008 }).map(({ what }) => what);
  expect(names).not.toContain("receive and decode the pod");
  expect(names).toContain("wait for the first sync");
});

test.each([
  { path: "/node/logs/default_web_u-1", shown: "default_POD_UID" },
  { path: "/srv/web", shown: "/srv/POD" },
  { path: "/node/rootless/u-1", shown: "/node/rootless/UID" },
])("the file $path is shown as $shown", ({ path, shown }) => {
  const withFile = { spans: [...spans, part("readLink", 1009, 1009.5, path)], dirs };
  const names = tracedSteps(withFile, "web", { createdAt: 1000, shownAt: 1004 }).map(({ what }) => what);
  expect(names).toContain(`RunPodSandbox: readLink ${shown}`);
});

test("without the pod's uid in the trace, a path keeps its text", () => {
  const root = { ...span("syncPod", 1005, 1158), spanId: "root", attributes: { "k8s.pod.name": "web" } };
  const trace = { spans: [root, ...spans.slice(1)], dirs };
  const names = tracedSteps(trace, "web", { createdAt: 1000, shownAt: 1004 }).map(({ what }) => what);
  expect(names).toContain("RunPodSandbox: readLink pods/u-1/POD");
});

test("a start without a trace has no steps, and one with a trace does not wait for events", () => {
  expect(tracedSteps({ spans, dirs }, "other", { createdAt: 1000, shownAt: 1004 })).toEqual([]);
  const event: Step = { of: "api", what: "create events", from: 94, until: 99 };
  const steps = [...start.steps, event];
  const traced = [...steps, ...tracedSteps({ spans, dirs }, "web", { createdAt: 1000, shownAt: 1004 })];
  expect(drawTimeline("berth", { ...start, steps: traced })).toContain("96.0 →  100.0     4.0 ms  (berth)\n");
  expect(drawTimeline("berth", { ...start, steps })).toContain("99.0 →  100.0     1.0 ms  (berth)\n");
});
