import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import type { Container, PodSpec, Probe } from "../../proto/kubernetes/gen/types.ts";
import { webImage } from "../bed/images/images.ts";
import { until } from "../bed/poll-until.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

let node: Node;
beforeAll(async () => {
  node = await startNode();
});
afterAll(() => node.end());

/** A folder that the test and the container share. */
const withNotes: Partial<PodSpec> = { volumes: [{ name: "notes", emptyDir: {} }] };
const notes = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const noteOf = ({ uid }: PodSummary, name: string) =>
  join(node.paths.agentRoot, "pods", uid, "volumes/kubernetes.io~empty-dir/notes", name);
/** A busy machine takes its time to begin a server, and to answer. */
const patiently: Probe = { periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 60 };
const everySecond: Probe = { periodSeconds: 1, failureThreshold: 2 };
/** Well from the second second to the fourth. */
const forAWhile = script("sleep 2; touch /tmp/ok; sleep 2; rm /tmp/ok; sleep 1000000");
const looking = { exec: { command: ["test", "-e", "/tmp/ok"] } };

test("a command says when the container is ready, and when it is not any more", async () => {
  const readinessProbe = { ...patiently, exec: { command: ["test", "-e", "/notes/ok"] }, failureThreshold: 2 };
  await node.put(podOf("by-command", { ...notes, command: untilStopped, readinessProbe }, withNotes));
  const isRunning = ({ phase, ready }: PodSummary) => phase === "Running" && ready === "0/1";
  const running = await node.pod("by-command", "it runs, and is not ready", isRunning);
  await writeFile(noteOf(running, "ok"), "");
  await node.pod("by-command", "it is ready", ({ ready }) => ready === "1/1");
  await rm(noteOf(running, "ok"));
  const pod = await node.pod("by-command", "it is not ready any more", ({ ready }) => ready === "0/1");
  expect(pod.restarts).toBe(0);
});

test("a container that fails its liveness probe is restarted", async () => {
  const livenessProbe = { ...looking, ...everySecond, initialDelaySeconds: 3 };
  await node.put(podOf("mortal", { command: forAWhile, livenessProbe }));
  const pod = await node.pod("mortal", "it was restarted", ({ restarts }) => restarts === 1);
  expect(pod.status.containerStatuses?.[0]?.lastState?.terminated?.exitCode).toBe(143);
  await node.logged("Container main failed liveness probe, will be restarted");
});

test("an HTTP server and a socket are asked at the pod's address, by a port's name", async () => {
  const ports = [{ name: "web", containerPort: 8080 }];
  const { name: main } = podOf("").spec.containers[0]!;
  for (const [name, readinessProbe] of [
    ["by-http", { httpGet: { port: "web", path: "/" }, ...everySecond }],
    ["by-tcp", { tcpSocket: { port: "web" }, ...everySecond }],
  ] as const) {
    await node.put(podOf(name, {}, { containers: [{ name: main, image: webImage, ports, readinessProbe }] }));
    await node.pod(name, "it is ready", ({ ready }) => ready === "1/1");
  }
  await node.put(
    podOf("by-nobody", { command: untilStopped, readinessProbe: { httpGet: { port: 8080 }, ...everySecond } }),
  );
  await node.pod("by-nobody", "it runs, and is not ready", (pod) => pod.phase === "Running" && pod.ready === "0/1");
});

/** A server of gRPC's health checks on all addresses of this machine. */
async function serveHealth(isServing: () => boolean): Promise<{ readonly port: number; readonly end: () => void }> {
  const server = new Server();
  const asIs = (value: Buffer) => value;
  const check = {
    path: "/grpc.health.v1.Health/Check",
    requestStream: false,
    responseStream: false,
    requestSerialize: asIs,
    requestDeserialize: asIs,
    responseSerialize: asIs,
    responseDeserialize: asIs,
  } as const;
  const answer = (_: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) =>
    done(null, Buffer.from([8, isServing() ? 1 : 2]));
  server.addService({ check }, { check: answer });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("0.0.0.0:0", ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  return { port, end: () => server.forceShutdown() };
}

test("a pod on the node's network is asked there, by gRPC too", async () => {
  const { port, end } = await serveHealth(() => true);
  await node.put(podOf("by-grpc", { readinessProbe: { grpc: { port }, ...everySecond } }, { hostNetwork: true }));
  await node.pod("by-grpc", "it is ready", ({ ready }) => ready === "1/1");
  end();
  await node.pod("by-grpc", "it is not ready any more", ({ ready }) => ready === "0/1");
});

/** Serves well until the test has left its note, fails then as `failing` says, and is well again as the next instance. */
const failsOnce = (failing: string) =>
  script(
    `cp -r /www /tmp; test -e /notes/fail && exec httpd -f -p 8080 -h /tmp/www; httpd -f -p 8080 -h /tmp/www & until test -e /notes/fail; do sleep 0.1; done; ${failing}; exec sleep 1000000`,
  );

test("by HTTP, TCP and gRPC alike: a container whose server is well no more is restarted, and goes on when it is well again", async () => {
  let isServing = true;
  const health = await serveHealth(() => isServing);
  type Way = readonly [name: string, asking: Probe, container: Partial<Container>, spec: Partial<PodSpec>];
  const ways: readonly Way[] = [
    [
      "dead-by-http",
      { httpGet: { port: 8080 } },
      { image: webImage, command: failsOnce("rm /tmp/www/index.html") },
      {},
    ],
    ["dead-by-tcp", { tcpSocket: { port: 8080 } }, { image: webImage, command: failsOnce("kill $!") }, {}],
    ["dead-by-grpc", { grpc: { port: health.port } }, {}, { hostNetwork: true }],
  ];
  try {
    for (const [name, asking, container, spec] of ways) {
      const startupProbe = { ...asking, ...patiently };
      const livenessProbe = { ...startupProbe, failureThreshold: 2 };
      await node.put(podOf(name, { ...notes, ...container, startupProbe, livenessProbe }, { ...withNotes, ...spec }));
    }
    const well = await node.running(...ways.map(([name]) => name));
    expect(well.map(({ restarts }) => restarts)).toEqual([0, 0, 0]);
    isServing = false;
    for (const pod of well) await writeFile(noteOf(pod, "fail"), "");
    for (const [name] of ways) {
      const pod = await node.pod(name, "it was restarted", ({ restarts }) => restarts === 1);
      expect(pod.status.containerStatuses?.[0]?.lastState?.terminated?.exitCode).toBe(143);
      await node.logged(`${name}-berth`, "Container main failed liveness probe, will be restarted");
    }
    isServing = true;
    const again = await node.running(...ways.map(([name]) => name));
    expect(again.map(({ restarts }) => restarts)).toEqual([1, 1, 1]);
  } finally {
    health.end();
  }
});

test("until its startup probe has succeeded a container is not asked anything else, and one that never succeeds is restarted", async () => {
  const asking = (name: string) => ({
    exec: { command: ["sh", "-c", `echo asked >>/notes/${name}; test -e /notes/up`] },
  });
  const probes: Partial<Container> = {
    startupProbe: { ...patiently, ...asking("startup") },
    livenessProbe: { ...patiently, ...asking("liveness"), failureThreshold: 1 },
    readinessProbe: { ...patiently, ...asking("readiness") },
  };
  const startupProbe = { exec: { command: ["false"] }, ...patiently, failureThreshold: 2 };
  await node.put(podOf("slow", { ...notes, ...probes }, withNotes));
  await node.put(podOf("never-up", { startupProbe }));
  const waiting = await node.pod("slow", "it runs", ({ phase }) => phase === "Running");
  const asked = async (name: string) =>
    (await readFile(noteOf(waiting, name), "utf8").catch(() => "")).split("\n").length - 1;
  await until("it to be asked three times", 30_000, async () => (await asked("startup")) >= 3);
  expect([await asked("liveness"), await asked("readiness")]).toEqual([0, 0]);
  const { status } = await node.pod("slow", "it is shown", () => true);
  expect(status.containerStatuses?.[0]).toMatchObject({ started: false, ready: false, restartCount: 0 });
  await writeFile(noteOf(waiting, "up"), "");
  const up = await node.pod("slow", "it is ready", ({ ready }) => ready === "1/1");
  expect(up.restarts).toBe(0);
  const atUp = await asked("startup");
  await until("it to be asked whether it lives", 30_000, async () => (await asked("liveness")) >= 2);
  expect(await asked("startup")).toBe(atUp);

  await node.pod("never-up", "it was restarted", ({ restarts }) => restarts >= 1);
  await node.logged("never-up-berth", "Container main failed startup probe, will be restarted");
});

test("a new agent takes a pod for what its probes say, and goes on asking", async () => {
  const listening = createServer();
  const port = await new Promise<number>((resolve) =>
    listening.listen(0, "0.0.0.0", () => resolve((listening.address() as { readonly port: number }).port)),
  );
  await node.put(
    podOf("asked-again", { readinessProbe: { tcpSocket: { port }, ...everySecond } }, { hostNetwork: true }),
  );
  await node.pod("asked-again", "it is ready", ({ ready }) => ready === "1/1");
  await node.agent.kill9();
  await node.startAgent();
  await node.pod("asked-again", "it is ready", ({ ready }) => ready === "1/1");
  await new Promise((resolve) => listening.close(resolve));
  const pod = await node.pod("asked-again", "it is not ready any more", ({ ready }) => ready === "0/1");
  expect(pod.restarts).toBe(0);
});
