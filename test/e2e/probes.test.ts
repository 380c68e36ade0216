import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { createServer } from "node:net";
import { Server, ServerCredentials, type ServerUnaryCall, type sendUnaryData } from "@grpc/grpc-js";
import type { Probe } from "../../proto/kubernetes/gen/types.ts";
import { webImage } from "../bed/images.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { type Node, startNode } from "./node.ts";

setDefaultTimeout(60_000);

let node: Node;
beforeAll(async () => {
  node = await startNode();
});
afterAll(() => node.end());

const everySecond: Probe = { periodSeconds: 1, failureThreshold: 2 };
/** Well from the second second to the fourth. */
const forAWhile = script("sleep 2; touch /tmp/ok; sleep 2; rm /tmp/ok; sleep 1000000");
const looking = { exec: { command: ["test", "-e", "/tmp/ok"] } };

test("a command says when the container is ready, and when it is not any more", async () => {
  await node.put(podOf("by-command", { command: forAWhile, readinessProbe: { ...looking, ...everySecond } }));
  await node.pod("by-command", "it runs, and is not ready", (pod) => pod.phase === "Running" && pod.ready === "0/1");
  await node.pod("by-command", "it is ready", ({ ready }) => ready === "1/1");
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

test("a pod on the node's network is asked there, by gRPC too", async () => {
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
  const serving = (_: ServerUnaryCall<Buffer, Buffer>, done: sendUnaryData<Buffer>) => done(null, Buffer.from([8, 1]));
  server.addService({ check }, { check: serving });
  const port = await new Promise<number>((resolve, reject) =>
    server.bindAsync("0.0.0.0:0", ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    ),
  );
  await node.put(podOf("by-grpc", { readinessProbe: { grpc: { port }, ...everySecond } }, { hostNetwork: true }));
  await node.pod("by-grpc", "it is ready", ({ ready }) => ready === "1/1");
  server.forceShutdown();
  await node.pod("by-grpc", "it is not ready any more", ({ ready }) => ready === "0/1");
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
