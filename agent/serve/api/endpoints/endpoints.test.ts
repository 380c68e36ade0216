import { afterEach, expect, test } from "bun:test";
import { CriError } from "../../../../cri/error.ts";
import { createClock } from "../../../../host/clock.ts";
import { createProfiler } from "../../../../host/profiler.ts";
import { type Container, ContainerState, type PodSandbox, PodSandboxState } from "../../../../proto/cri/gen/api.ts";
import type { Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { FakeClock } from "../../../../test/fakes/clock.ts";
import { FakeLog } from "../../../../test/fakes/log.ts";
import { createPlainApi, type PlainApi } from "../../../../test/fakes/plain-api.ts";
import type { Route } from "../route.ts";
import { createCheckpointRoutes } from "./checkpoint.ts";
import { createConfigRoutes } from "./configz.ts";
import { createDisabledRoutes } from "./disabled.ts";
import { createHealthRoutes } from "./health.ts";
import { createPodRoutes, createRunningPodRoutes } from "./pods.ts";
import { createProfilingRoutes } from "./profiling.ts";
import { createFlagPage, createStatusPage } from "./zpages.ts";

let api: PlainApi | undefined;
afterEach(() => api?.stop());

async function serve(routes: readonly Route[]): Promise<PlainApi> {
  api = await createPlainApi(routes, new FakeLog());
  return api;
}

const pod: Pod = {
  apiVersion: "v1",
  kind: "Pod",
  metadata: { name: "web", namespace: "shop", uid: "u-1" },
  spec: { containers: [{ name: "app", image: "app:1" }] },
};
const labels = {
  "io.kubernetes.pod.uid": "u-1",
  "io.kubernetes.pod.name": "web",
  "io.kubernetes.pod.namespace": "shop",
};
const sandbox = (state: PodSandboxState) => ({ id: "s", labels, state }) as unknown as PodSandbox;
const container = (state: ContainerState, own = labels) =>
  ({ id: "c", labels: own, state, metadata: { name: "app" }, image: { image: "sha256:1" } }) as unknown as Container;

test("/pods is a PodList as the kubelet encodes it: items without a type, null without items", async () => {
  const { get } = await serve(createPodRoutes({ all: () => [pod, { ...pod, status: { phase: "Running" } }] }));
  const answer = await get("/pods");
  const { metadata, spec } = pod;
  expect(JSON.parse(answer.text)).toEqual({
    kind: "PodList",
    apiVersion: "v1",
    metadata: {},
    items: [
      { metadata, spec, status: {} },
      { metadata, spec, status: { phase: "Running" } },
    ],
  });
  expect(answer.headers["content-type"]).toBe("application/json");
  await api?.stop();
  const empty = await serve(createPodRoutes({ all: () => [] }));
  expect(JSON.parse((await empty.get("/pods")).text)).toMatchObject({ items: null });
});

test("a client that accepts no JSON gets 406 from the endpoints that have nothing else", async () => {
  const { send } = await serve(createPodRoutes({ all: () => [pod] }));
  const refused = await send("GET", "/pods", { accept: "text/plain" });
  expect([refused.status, refused.text]).toEqual([
    406,
    "406: Not Acceptable\n\nAvailable representations: application/json",
  ]);
  expect((await send("GET", "/pods", { accept: "text/html, application/json;q=0.5" })).status).toBe(200);
});

test("/runningpods/ has the running containers of pods, and an error of the runtime is a 500", async () => {
  let containers = [
    container(ContainerState.CONTAINER_RUNNING),
    container(ContainerState.CONTAINER_EXITED),
    container(ContainerState.CONTAINER_RUNNING, {} as typeof labels),
  ];
  const routes = createRunningPodRoutes({
    listPodSandbox: async () => [sandbox(PodSandboxState.SANDBOX_READY)],
    async listContainers() {
      if (containers.length === 0) throw new CriError("UNAVAILABLE", "ListContainers", "no socket");
      return containers;
    },
  });
  const { get } = await serve(routes);
  expect(JSON.parse((await get("/runningpods/")).text).items).toEqual([
    {
      metadata: { name: "web", namespace: "shop", uid: "u-1" },
      spec: { containers: [{ name: "app", image: "sha256:1", resources: {} }] },
      status: {},
    },
  ]);
  containers = [];
  const failed = await get("/runningpods/");
  expect([failed.status, failed.text]).toEqual([500, "rpc error: code = Unavailable desc = no socket"]);
});

const checkpoints: string[] = [];
const checkpointRoutes = (error?: Error) =>
  createCheckpointRoutes({
    findPod: (namespace, name) => (namespace === "shop" && name === "web" ? pod : undefined),
    runtime: {
      listContainers: async () => [container(ContainerState.CONTAINER_RUNNING)],
      async checkpointContainer(id, location, timeoutSeconds) {
        if (error !== undefined) throw error;
        checkpoints.push(`${id} ${location} ${timeoutSeconds}`);
      },
    },
    root: { makeFolder: async () => {}, path: (...parts) => ["/root-dir", ...parts].join("/") },
    clock: new FakeClock(),
  });

test("a checkpoint is a file of the node, named as the kubelet names it", async () => {
  const { send } = await serve(checkpointRoutes());
  const answer = await send("POST", "/checkpoint/shop/web/app?timeout=1&timeout=300");
  const location = "/root-dir/checkpoints/checkpoint-web_shop-app-2026-01-01T00:00:00Z.tar";
  expect([answer.status, answer.text]).toEqual([200, `{"items":["${location}"]}`]);
  expect(checkpoints).toEqual([`c ${location} 300`]);
});

test.each([
  ["POST", "/checkpoint/shop/nothing/app", 404, "pod does not exist"],
  ["POST", "/checkpoint/shop/web/nothing", 404, "container nothing does not exist"],
  ["POST", "/checkpoint/shop/web/app?timeout=soon", 404, "cannot parse value of timeout parameter"],
  ["GET", "/checkpoint/shop/web/app", 405, "405: Method Not Allowed"],
  [
    "POST",
    "/checkpoint/shop/web/app",
    500,
    "checkpointing of shop/web/app failed (rpc error: code = Unimplemented desc = method CheckpointContainer not implemented)",
  ],
])("%s %s is answered with %i", async (method, path, status, text) => {
  const error = new CriError("UNIMPLEMENTED", "CheckpointContainer", "method CheckpointContainer not implemented");
  const { send } = await serve(checkpointRoutes(error));
  const answer = await send(method, path);
  expect([answer.status, answer.text]).toEqual([status, text]);
});

test("/configz has the configuration without the headers of staticPodURL, which may be credentials", async () => {
  const config = { port: 10250, staticPodURLHeader: { Authorization: ["Bearer secret"] } };
  const { get } = await serve(createConfigRoutes(config as never));
  expect((await get("/configz")).text).toBe(
    '{"kubeletconfig":{"port":10250,"staticPodURLHeader":{"Authorization":["<masked>"]}}}',
  );
});

test("what is turned off is answered with 405 and the kubelet's text, whatever the method", async () => {
  const { send } = await serve(createDisabledRoutes(["/exec/{path...}"], "Debug endpoints are disabled."));
  for (const method of ["GET", "POST"]) {
    const answer = await send(method, "/exec/a/b/c");
    expect([answer.status, answer.text]).toEqual([405, "Debug endpoints are disabled.\n"]);
  }
});

test("a failing health check shows its reason only at its own path", async () => {
  const failing = {
    name: "syncloop",
    check() {
      throw new Error("sync Loop took longer than expected");
    },
  };
  const { get } = await serve(createHealthRoutes([{ name: "ping", check() {} }, failing], () => {}));
  const all = await get("/healthz");
  expect([all.status, all.text]).toEqual([
    500,
    "[+]ping ok\n[-]syncloop failed: reason withheld\nhealthz check failed\n",
  ]);
  const one = await get("/healthz/syncloop");
  expect([one.status, one.text]).toEqual([500, "internal server error: sync Loop took longer than expected\n"]);
  expect((await get("/healthz?exclude=syncloop")).text).toBe("ok");
});

const pages = () =>
  serve([
    createStatusPage({
      builtWith: "bun 1.4.5",
      version: "1.36.3",
      startedAt: Date.parse("2026-01-01T00:00:00Z") - 3_725_000,
      patterns: ["/pods", "/metrics/cadvisor", "/metrics"],
      clock: new FakeClock(),
    }),
    createFlagPage({ "root-dir": "/var/lib/kubelet", "manifest-url": "CLASSIFIED" }),
  ]);

test("/statusz and /flagz are text for people, and JSON where its version is named", async () => {
  const { send } = await pages();
  const status = await send("GET", "/statusz", { accept: "*/*" });
  expect(status.text).toContain("\nUp: 1 hr 02 min 05 sec\n");
  expect(status.text).toContain("\nPaths: /metrics /pods\n");
  expect((await send("GET", "/flagz")).text).toContain("\nmanifest-url=CLASSIFIED\nroot-dir=/var/lib/kubelet\n");
  const accept = "application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
  expect(JSON.parse((await send("GET", "/statusz", { accept })).text)).toEqual({
    kind: "Statusz",
    apiVersion: "config.k8s.io/v1beta1",
    metadata: { name: "kubelet" },
    startTime: "2025-12-31T22:57:55Z",
    uptimeSeconds: 3725,
    goVersion: "bun 1.4.5",
    binaryVersion: "1.36.3",
    emulationVersion: "1.36",
    paths: ["/metrics", "/pods"],
  });
  expect((await send("GET", "/flagz", { accept: "application/json" })).status).toBe(406);
});

test("a CPU profile has the format of Chrome's developer tools, and one is taken at a time; a heap snapshot is the profiler's", async () => {
  const snapshot = '{"snapshot":{}}';
  const { get } = await serve(
    createProfilingRoutes({ ...createProfiler(createClock()), heapSnapshot: () => snapshot }),
  );
  const [first, second] = await Promise.all([
    get("/debug/pprof/profile?seconds=1"),
    Bun.sleep(200).then(() => get("/debug/pprof/profile?seconds=1")),
  ]);
  expect(Object.keys(JSON.parse(first.text))).toContain("nodes");
  expect([second.status, second.text]).toEqual([429, "another CPU profile is being taken"]);
  expect(await get("/debug/pprof/heap")).toMatchObject({ status: 200, text: snapshot });
  for (const seconds of ["0", "1.5", "121", "x"])
    expect((await get(`/debug/pprof/profile?seconds=${seconds}`)).status).toBe(400);
  expect((await get("/debug/pprof/")).text).toContain("heap");
});

test("a heap snapshot is refused where it could exhaust the memory", async () => {
  const availableBytes = 300 * 2 ** 20;
  const statusWith = async (heapBytes: number) => {
    const profiler = { ...createProfiler(createClock()), heapSnapshot: () => "{}" };
    const { get } = await serve(createProfilingRoutes({ ...profiler, memory: () => ({ heapBytes, availableBytes }) }));
    const { status, text } = await get("/debug/pprof/heap");
    return [status, text];
  };
  expect(await statusWith(100 * 2 ** 20)).toEqual([200, "{}"]);
  expect(await statusWith(110 * 2 ** 20)).toEqual([
    503,
    "a heap snapshot needs 330 MiB of memory, and the node has 300 MiB left",
  ]);
});
