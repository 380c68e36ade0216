import { afterAll, beforeAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createHash } from "node:crypto";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createSessionLimit } from "../../agent/serve/streaming/session-limit.ts";
import { createStreamingRoutes } from "../../agent/serve/streaming/streaming-routes.ts";
import { type CriRuntime, createRuntime } from "../../cri/client.ts";
import { createClock } from "../../host/clock.ts";
import {
  ContainerConfig,
  type LinuxSandboxSecurityContext,
  NamespaceMode,
  PodSandboxConfig,
} from "../../proto/cri/gen/api.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import { type Containerd, type ContainerdVersion, startContainerd } from "../bed/containerd/containerd.ts";
import { busyboxImage, importImages } from "../bed/images/images.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { FakeLog } from "../fakes/log.ts";
import { type RouteServer, startRouteServer } from "../fakes/route-server.ts";
import { forwardBySpdy, forwardByWebSocket, type OpenPortForward } from "./port-forward-client.ts";
import { type OpenSession, openBySpdy, openByWebSocket } from "./streaming-client.ts";

const MB = 1_000_000;
const NAMES: readonly string[] = ["main", "shell"];

/** The endpoints of streaming on a real containerd, with each protocol of clients. */
export function streamingContract(version: ContainerdVersion): void {
  if (process.getuid?.() !== 0) {
    test.skip(`streaming with containerd ${version}: a container runtime needs root`, () => {});
    return;
  }
  setDefaultTimeout(60_000);
  describe(`streaming with containerd ${version}`, () => {
    let fixture: StreamingFixture;
    beforeAll(async () => {
      fixture = await startFixture(version);
    });
    afterAll(() => fixture.end());

    describe("by SPDY", () => execContract(() => fixture, openBySpdy));
    describe("by WebSocket v5", () => execContract(() => fixture, openByWebSocket("v5.channel.k8s.io")));
    describe("port-forward by SPDY", () => portForwardContract(() => fixture, forwardBySpdy));
    describe("port-forward by WebSocket", () => portForwardContract(() => fixture, forwardByWebSocket));
    describe("by WebSocket v4", () => outputContract(() => fixture, openByWebSocket("v4.channel.k8s.io")));
  });
}

const exec = (command: readonly string[], flags: string) =>
  `/exec/default/web/main?${command.map((word) => `command=${encodeURIComponent(word)}&`).join("")}${flags}`;

function outputContract(fixture: () => StreamingFixture, open: OpenSession): void {
  test("exec returns output, errors and the exit code", async () => {
    const path = exec(["sh", "-c", "echo out; echo err >&2; exit 7"], "output=1&error=1");
    const { stdout, stderr, status } = await (await open(fixture().port, path)).result;
    expect([stdout.toString(), stderr.toString()]).toEqual(["out\n", "err\n"]);
    expect(status).toMatchObject({
      status: "Failure",
      reason: "NonZeroExitCode",
      details: { causes: [{ reason: "ExitCode", message: "7" }] },
    });
  });

  test("exec of a command that succeeds, and of one that does not exist", async () => {
    const { status } = await (await open(fixture().port, exec(["true"], "output=1"))).result;
    expect(status).toMatchObject({ status: "Success" });
    const missing = await (await open(fixture().port, exec(["/missing"], "output=1"))).result;
    expect(missing.status).toMatchObject({ status: "Failure", message: expect.stringContaining("no such file") });
  });

  test("a terminal has the size that the client sets, and changes it", async () => {
    const command = ["sh", "-c", "trap 'stty size' WINCH; echo ready; while true; do sleep 0.05; done"];
    const session = await open(fixture().port, exec(command, "input=1&output=1&tty=1"));
    await session.sees("ready");
    session.resize(97, 31);
    await session.sees("31 97");
    session.resize(50, 20);
    await session.sees("20 50");
    await session.write(Buffer.from("\u0003"));
    const { status } = await session.result;
    expect(status).toMatchObject({ details: { causes: [{ message: "130" }] } });
  });

  test("no descriptor is left behind by 200 sessions, ten at a time, nor by clients that vanish", async () => {
    const { port, server } = fixture();
    await (await open(port, exec(["true"], "output=1"))).result;
    const before = await descriptorCount();
    for (let round = 0; round < 20; round++)
      await Promise.all(
        Array.from({ length: 10 }, async (_, index) => {
          const session = await open(port, exec(["sh", "-c", `echo ${index}; exec cat`], "input=1&output=1"));
          await session.sees(`${index}`);
          session.vanish();
        }),
      );
    await pollUntil("the end of all sessions", 10_000, () => server.openUpgrades() === 0);
    await pollUntil("no descriptor more", 10_000, async () => (await descriptorCount()) <= before + 2);
  });
}

function execContract(fixture: () => StreamingFixture, open: OpenSession): void {
  outputContract(fixture, open);

  test("100 MB of stdin arrive, and their checksum comes back after stdin has ended", async () => {
    const session = await open(fixture().port, exec(["md5sum"], "input=1&output=1"));
    const hash = createHash("md5");
    for (let index = 0; index < 100; index++) {
      const part = Buffer.alloc(MB, `${index} `);
      hash.update(part);
      await session.write(part);
    }
    session.endStdin();
    const { stdout, status } = await session.result;
    expect(stdout.toString()).toBe(`${hash.digest("hex")}  -\n`);
    expect(status).toMatchObject({ status: "Success" });
  });

  test("20 MB go through cat unchanged", async () => {
    const session = await open(fixture().port, exec(["cat"], "input=1&output=1"));
    const sent = Buffer.alloc(20 * MB, "0123456789abcdefghijklmnop\n");
    for (let start = 0; start < sent.length; start += MB) await session.write(sent.subarray(start, start + MB));
    session.endStdin();
    const { stdout } = await session.result;
    expect(stdout.equals(sent)).toBe(true);
  });

  test("attach reads and writes the main process", async () => {
    const session = await open(fixture().port, "/attach/default/web/shell?input=1&output=1&error=1");
    await session.write(Buffer.from("hello\n"));
    await session.sees("got hello");
    session.vanish();
  });
}

function portForwardContract(fixture: () => StreamingFixture, open: OpenPortForward): void {
  test("100 connections at once get back what they send, and the end of the pod after their own", async () => {
    const session = await open(fixture().port, "/portForward/default/host");
    const texts = Array.from({ length: 100 }, (_, index) => `${index} `.repeat(1_000 + index));
    const answers = await Promise.all(texts.map((text) => session.exchange(fixture().echoPort, Buffer.from(text))));
    expect(answers.map(({ received }) => received.toString())).toEqual(texts);
    expect(answers.map(({ error }) => error).join("")).toBe("");
    session.close();
  });

  test("a port that nothing listens on fails with an error, and others go on to work", async () => {
    const session = await open(fixture().port, "/portForward/default/host/uid-host");
    const { error } = await session.exchange(81, Buffer.from("lost"));
    expect(error).toContain("connection refused");
    const { received } = await session.exchange(fixture().echoPort, Buffer.from("again"));
    expect(received.toString()).toBe("again");
    session.close();
    await pollUntil("the end of the session", 10_000, () => fixture().server.openUpgrades() === 0);
  });
}

/** The open descriptors of this process, in which the server runs. */
async function descriptorCount(): Promise<number> {
  return (await readdir("/proc/self/fd")).length;
}

export interface StreamingFixture {
  readonly port: number;
  readonly echoPort: number;
  readonly server: RouteServer;
  readonly runtime: CriRuntime;
  end(): Promise<void>;
}

/** A containerd with a pod `default/web`, and a server of the routes. */
async function startFixture(version: ContainerdVersion): Promise<StreamingFixture> {
  const stateDir = await mkdtemp(join(tmpdir(), "berth-streaming-"));
  const containerd = await startContainerd({ version, stateDir });
  await importImages(containerd);
  const clock = createClock();
  const runtimeOptions = { endpoint: containerd.endpoint, requestTimeoutMs: 30_000, random: Math.random };
  const runtime = createRuntime({ ...runtimeOptions, clock, log: new FakeLog() });
  await runPod(runtime, stateDir);
  await runHostPod(runtime, stateDir);
  const echo = await startEchoServer();
  const routes = createStreamingRoutes({
    ...{ runtime, clock, idleTimeoutMs: 0, translatesWebSockets: true },
    sessionLimit: createSessionLimit(100, () => {}),
    findPod: (_namespace, name) => PODS.find(({ metadata }) => metadata.name === name),
  });
  const server = await startRouteServer(routes);
  return {
    port: server.port,
    echoPort: (echo.address() as AddressInfo).port,
    server,
    runtime,
    async end() {
      echo.close();
      await endFixture(server, runtime, containerd, stateDir);
    },
  };
}

async function endFixture(server: RouteServer, runtime: CriRuntime, containerd: Containerd, stateDir: string) {
  server.close();
  runtime.close();
  await containerd.stop();
  await rm(stateDir, { recursive: true });
}

const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  main: ["sleep", "3600"],
  shell: ["sh", "-c", "while read line; do echo got $line; done"],
};
const PODS = ["web", "host"].map(
  (name): Pod => ({
    metadata: { namespace: "default", name, uid: `uid-${name}` },
    spec: { containers: NAMES.map((container) => ({ name: container, image: busyboxImage })) },
  }),
);

function sandboxConfig(
  name: string,
  stateDir: string,
  securityContext: Parameters<typeof LinuxSandboxSecurityContext.fromPartial>[0],
) {
  return PodSandboxConfig.fromPartial({
    metadata: { name, uid: `uid-${name}`, namespace: "default" },
    labels: { [podUidLabel]: `uid-${name}` },
    logDirectory: join(stateDir, "logs"),
    linux: { securityContext },
  });
}

/** A pod `default/host` in the network of this machine, where the echo server of the tests listens. */
async function runHostPod(runtime: CriRuntime, stateDir: string): Promise<void> {
  const namespaceOptions = { network: NamespaceMode.NODE };
  await runtime.runPodSandbox(sandboxConfig("host", stateDir, { namespaceOptions }), "");
}

/** Sends back what it receives, and ends each connection when its client has ended its half. */
async function startEchoServer(): Promise<Server> {
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    socket.on("error", () => undefined);
    socket.pipe(socket);
  });
  await new Promise<void>((resolve) => server.listen({ port: 0, host: "127.0.0.1", backlog: 511 }, resolve));
  return server;
}

async function runPod(runtime: CriRuntime, stateDir: string): Promise<void> {
  const config = sandboxConfig("web", stateDir, {});
  const sandbox = await runtime.runPodSandbox(config, "");
  for (const name of NAMES) {
    const container = ContainerConfig.fromPartial({
      metadata: { name },
      image: { image: busyboxImage },
      command: [...(COMMANDS[name] ?? [])],
      labels: { [podUidLabel]: "uid-web" },
      logPath: `${name}.log`,
      stdin: name === "shell",
      linux: {},
    });
    await runtime.startContainer(await runtime.createContainer(sandbox, container, config));
  }
}
