import { afterAll, beforeAll, expect, setDefaultTimeout, test } from "bun:test";
import { readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import type { PodSummary } from "../../agent/serve/local/pod-list.ts";
import type { Container, PodSpec, Probe } from "../../proto/kubernetes/gen/types.ts";
import { ifAbsent } from "../bed/if-absent.ts";
import { webImage } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { freePort } from "./free-port.ts";
import { serveHealth } from "./health-server.ts";
import { podOf, script, untilStopped } from "./manifest.ts";
import { startNode, type TestNode } from "./node.ts";

setDefaultTimeout(600_000);

let node: TestNode;
beforeAll(async () => {
  node = await startNode();
});
afterAll(() => node.tearDown());

/** An emptyDir volume that the test and the container share. */
const withNotes: Partial<PodSpec> = { volumes: [{ name: "notes", emptyDir: {} }] };
const notes = { volumeMounts: [{ name: "notes", mountPath: "/notes" }] };
const noteOf = ({ uid }: PodSummary, name: string) =>
  join(node.paths.agentRoot, "pods", uid, "volumes/kubernetes.io~empty-dir/notes", name);
/** Tolerates a busy machine, which starts a server late and answers slowly. */
const tolerant: Probe = { periodSeconds: 1, timeoutSeconds: 20, failureThreshold: 60 };
const everySecond: Probe = { periodSeconds: 1, failureThreshold: 2 };
/** A container that is healthy from 2 s to 4 s after its start. */
const healthyForAWhile = script("sleep 2; touch /tmp/ok; sleep 2; rm /tmp/ok; sleep 1000000");
const checkFile = { exec: { command: ["test", "-e", "/tmp/ok"] } };

test("an exec readiness probe makes the container ready and unready", async () => {
  const readinessProbe = { ...tolerant, exec: { command: ["test", "-e", "/notes/ok"] }, failureThreshold: 2 };
  await node.putManifest(podOf("by-command", { ...notes, command: untilStopped, readinessProbe }, withNotes));
  const isRunning = ({ phase, ready }: PodSummary) => phase === "Running" && ready === "0/1";
  const running = await node.waitForPod("by-command", "it runs, and is not ready", isRunning);
  await writeFile(noteOf(running, "ok"), "");
  await node.waitForPod("by-command", "it is ready", ({ ready }) => ready === "1/1");
  await rm(noteOf(running, "ok"));
  const pod = await node.waitForPod("by-command", "it is not ready any more", ({ ready }) => ready === "0/1");
  expect(pod.restarts).toBe(0);
});

test("a container that fails its liveness probe is restarted", async () => {
  const livenessProbe = { ...checkFile, ...everySecond, initialDelaySeconds: 3 };
  await node.putManifest(podOf("mortal", { command: healthyForAWhile, livenessProbe }));
  const pod = await node.waitForPod("mortal", "it was restarted", ({ restarts }) => restarts === 1);
  expect(pod.status.containerStatuses?.[0]?.lastState?.terminated?.exitCode).toBe(143);
  await node.waitForLogLine("Container main failed liveness probe, will be restarted");
});

test("HTTP and TCP probes reach the pod's address by a named port", async () => {
  const ports = [{ name: "web", containerPort: 8080 }];
  const { name: main } = podOf("").spec.containers[0]!;
  for (const [name, readinessProbe] of [
    ["by-http", { httpGet: { port: "web", path: "/" }, ...everySecond }],
    ["by-tcp", { tcpSocket: { port: "web" }, ...everySecond }],
  ] as const) {
    await node.putManifest(podOf(name, {}, { containers: [{ name: main, image: webImage, ports, readinessProbe }] }));
    await node.waitForPod(name, "it is ready", ({ ready }) => ready === "1/1");
  }
  await node.putManifest(
    podOf("by-nobody", { command: untilStopped, readinessProbe: { httpGet: { port: 8080 }, ...everySecond } }),
  );
  await node.waitForPod(
    "by-nobody",
    "it runs, and is not ready",
    (pod) => pod.phase === "Running" && pod.ready === "0/1",
  );
});

test("a container that is not ready within the first period of its probe says why", async () => {
  const readinessProbe: Probe = { httpGet: { port: 8080 }, periodSeconds: 600 };
  await node.putManifest(podOf("early", { command: untilStopped, readinessProbe }));
  const isExplained = ({ message }: PodSummary) => message !== "";
  const { ready, message } = await node.waitForPod("early", "it says why it is not ready", isExplained);
  expect(ready).toBe("0/1");
  expect(message).toMatch(/^main is not ready: Readiness probe failed: Get "http:.*refused/);
});

test("a gRPC probe of a hostNetwork pod reaches the node's address", async () => {
  const { port, end } = await serveHealth("0.0.0.0", () => true);
  await node.putManifest(
    podOf("by-grpc", { readinessProbe: { grpc: { port }, ...everySecond } }, { hostNetwork: true }),
  );
  await node.waitForPod("by-grpc", "it is ready", ({ ready }) => ready === "1/1");
  end();
  await node.waitForPod("by-grpc", "it is not ready any more", ({ ready }) => ready === "0/1");
});

/** A server that fails by the command `failing` once the test has written a note; its next instance is healthy. */
const failsOnce = (failing: string) =>
  script(
    `cp -r /www /tmp; test -e /notes/fail && exec httpd -f -p 8080 -h /tmp/www; httpd -f -p 8080 -h /tmp/www & until test -e /notes/fail; do sleep 0.1; done; ${failing}; exec sleep 1000000`,
  );

test("a container that fails its HTTP, TCP or gRPC liveness probe is restarted, and keeps running when it is healthy again", async () => {
  let isServing = true;
  const health = await serveHealth("0.0.0.0", () => isServing);
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
      const startupProbe = { ...asking, ...tolerant };
      const livenessProbe = { ...startupProbe, failureThreshold: 2 };
      await node.putManifest(
        podOf(name, { ...notes, ...container, startupProbe, livenessProbe }, { ...withNotes, ...spec }),
      );
    }
    const before = await node.waitUntilRunning(...ways.map(([name]) => name));
    expect(before.map(({ restarts }) => restarts)).toEqual([0, 0, 0]);
    isServing = false;
    for (const pod of before) await writeFile(noteOf(pod, "fail"), "");
    for (const [name] of ways) {
      const pod = await node.waitForPod(name, "it was restarted", ({ restarts }) => restarts === 1);
      expect(pod.status.containerStatuses?.[0]?.lastState?.terminated?.exitCode).toBe(143);
      await node.waitForLogLine(`${name}-berth`, "Container main failed liveness probe, will be restarted");
    }
    isServing = true;
    const again = await node.waitUntilRunning(...ways.map(([name]) => name));
    expect(again.map(({ restarts }) => restarts)).toEqual([1, 1, 1]);
  } finally {
    health.end();
  }
});

test("no other probe runs before the startup probe has succeeded, and a container whose startup probe fails is restarted", async () => {
  const asking = (name: string) => ({
    exec: { command: ["sh", "-c", `echo asked >>/notes/${name}; test -e /notes/up`] },
  });
  const probes: Partial<Container> = {
    startupProbe: { ...tolerant, ...asking("startup") },
    livenessProbe: { ...tolerant, ...asking("liveness"), failureThreshold: 1 },
    readinessProbe: { ...tolerant, ...asking("readiness") },
  };
  const startupProbe = { exec: { command: ["false"] }, ...tolerant, failureThreshold: 2 };
  await node.putManifest(podOf("slow", { ...notes, ...probes }, withNotes));
  await node.putManifest(podOf("never-up", { startupProbe }));
  const waiting = await node.waitForPod("slow", "it runs", ({ phase }) => phase === "Running");
  const countProbes = async (name: string) =>
    (await readFile(noteOf(waiting, name), "utf8").catch(ifAbsent(""))).split("\n").length - 1;
  await pollUntil("it to be asked three times", 30_000, async () => (await countProbes("startup")) >= 3);
  expect([await countProbes("liveness"), await countProbes("readiness")]).toEqual([0, 0]);
  const { status } = await node.waitForPod("slow", "it is shown", () => true);
  expect(status.containerStatuses?.[0]).toMatchObject({ started: false, ready: false, restartCount: 0 });
  await writeFile(noteOf(waiting, "up"), "");
  const up = await node.waitForPod("slow", "it is ready", ({ ready }) => ready === "1/1");
  expect(up.restarts).toBe(0);
  const atUp = await countProbes("startup");
  await pollUntil("it to be asked whether it lives", 30_000, async () => (await countProbes("liveness")) >= 2);
  expect(await countProbes("startup")).toBe(atUp);

  await node.waitForPod("never-up", "it was restarted", ({ restarts }) => restarts >= 1);
  await node.waitForLogLine("never-up-berth", "Container main failed startup probe, will be restarted");
});

test("a restart of the agent leaves a pod ready and started until its slow probes have run again", async () => {
  const slowly = (seconds: number, note: string): Probe => ({
    exec: { command: ["sh", "-c", `sleep ${seconds}; echo asked >>/notes/${note}`] },
    ...tolerant,
  });
  const probes = { startupProbe: slowly(2, "startup"), readinessProbe: slowly(3, "readiness") };
  await node.putManifest(podOf("slow-probes", { ...notes, ...probes }, withNotes));
  const pod = await node.waitForPod("slow-probes", "it is ready", ({ ready }) => ready === "1/1");
  const count = async (note: string) => (await readFile(noteOf(pod, note), "utf8")).split("\n").length - 1;
  // The agent shows the pod as ready some milliseconds before that is on disk for the next agent.
  await pollUntil("the marks to be on disk", 10_000, async () => {
    const files = await readdir(join(node.paths.agentRoot, "pods", pod.uid, "containers/main"));
    return ["started-00000000", "ready-00000000"].every((mark) => files.includes(mark));
  });
  await node.agent.kill9();
  const before = await count("readiness");
  await node.startAgent();
  const seen = new Set<string>();
  const stopWatching = await node.watch((pods) => {
    const { containerStatuses: [shown] = [] } = pods.find(({ uid }) => uid === pod.uid)?.status ?? {};
    if (shown !== undefined) seen.add(`started ${shown.started}, ready ${shown.ready}`);
  });
  // A command of the last agent may still end.
  await pollUntil("it to be asked twice", 30_000, async () => (await count("readiness")) >= before + 2);
  stopWatching();
  expect([[...seen], await count("startup")]).toEqual([["started true, ready true"], 1]);
  await node.removeFile("slow-probes.yaml");
});

test("a new agent takes over a pod's readiness and continues its probes", async () => {
  const listening = createServer();
  const port = await freePort();
  await new Promise<void>((resolve) => listening.listen(port, "0.0.0.0", resolve));
  await node.putManifest(
    podOf("asked-again", { readinessProbe: { tcpSocket: { port }, ...everySecond } }, { hostNetwork: true }),
  );
  await node.waitForPod("asked-again", "it is ready", ({ ready }) => ready === "1/1");
  await node.agent.kill9();
  await node.startAgent();
  await node.waitForPod("asked-again", "it is ready", ({ ready }) => ready === "1/1");
  await new Promise((resolve) => listening.close(resolve));
  const pod = await node.waitForPod("asked-again", "it is not ready any more", ({ ready }) => ready === "0/1");
  expect(pod.restarts).toBe(0);
});
