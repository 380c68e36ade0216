/*
 * https://kubernetes.io/docs/concepts/workloads/pods/probes/ and, where it says more, the task "Configure Liveness, Readiness and Startup
 * Probes".
 *
 * What they say of others:
 *   Liveness probe, Readiness probe    what a deadlock is, what careless probes lead to: whoever writes them. Services and their traffic: the
 *                                      EndpointSlice controller, which goes by the condition `Ready`
 *   Configuration fields               the smallest values, and that of `successThreshold`: the API server's validation
 *   Probe-level termination…           none for readiness probes: the API server's validation
 *   gRPC probes                        a port by number alone, and no host: the API has no other
 *
 * Two sentences are not as the kubelet of 1.36 has it, which this agent follows:
 *   - After eleven redirects a probe is said to succeed with a warning. It fails.
 *   - The delays of liveness and readiness probes are said to begin when the startup probe has succeeded. They begin with the container.
 */
import { afterAll, describe, expect, setDefaultTimeout, test } from "bun:test";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import { createServer as createHttpsServer } from "node:https";
import { createServer as createTcpServer, type Server } from "node:net";
import type { Container, HTTPGetAction, PodSpec, Probe } from "../../proto/kubernetes/gen/types.ts";
import { until } from "../bed/poll-until.ts";
import type { Stage } from "../scenarios/harness.ts";
import { createAuthority } from "../upstream/pki.ts";
import { conditionOf, container, containerOf, happenings, runPod, sidecar } from "./pod-case.ts";

const byCommand = (command: string, more: Probe = {}): Probe => ({ exec: { command: [command] }, ...more });

/** What the command answers from now on. */
function answer(stage: Stage, command: string, exitCode: number): void {
  stage.runtime.commands.set(command, { exitCode, stderr: exitCode === 0 ? "" : "not well" });
}

/** A pod `web` of one container `a` with these probes, whose commands fail if they are named here. */
async function runProbed(probes: Partial<Container>, failing: readonly string[] = [], more: Partial<PodSpec> = {}) {
  const { stage } = await runPod({
    spec: { ...more, containers: [container("a", probes)] },
    before: (made) => {
      for (const command of failing) answer(made, command, 1);
    },
  });
  // The first try has a time of its own, which is now.
  await stage.advance("0s");
  return { stage, asked: () => askedOf(stage) };
}

/** The commands that were run in containers, in order. */
const askedOf = (stage: Stage) =>
  stage.runtime.calls.filter((call) => call.startsWith("execSync")).map((call) => call.replace(/^.*: /, ""));

/** Lets a second pass at a time, and says at which of them a command was run. */
async function secondsOf(stage: Stage, command: string, seconds: number): Promise<readonly number[]> {
  const count = () => askedOf(stage).filter((asked) => asked === command).length;
  const at: number[] = [];
  for (let second = 0; second <= seconds; second++) {
    const before = second === 0 ? 0 : count();
    if (second > 0) await stage.advance("1s");
    if (count() > before) at.push(second);
  }
  return at;
}

const readyOf = async (stage: Stage) => (await containerOf(stage, "a")).ready;
const restartsOf = async (stage: Stage) => (await containerOf(stage, "a")).restartCount;
const warningsOf = async (stage: Stage) =>
  (await stage.events("web")).filter((line) => /Unhealthy|ProbeWarning/.test(line));

describe("Liveness, Readiness, and Startup Probes", () => {
  test("a probe is a diagnosis of a container that is made again and again", async () => {
    const { stage } = await runProbed({ livenessProbe: byCommand("alive", { periodSeconds: 3 }) });
    expect(await secondsOf(stage, "alive", 12)).toEqual([0, 3, 6, 9, 12]);
  });

  test("a container that is not well is restarted, and one that is not ready says so", async () => {
    const sick = await runProbed({ livenessProbe: byCommand("alive", { failureThreshold: 1 }) }, ["alive"]);
    await sick.stage.advance("1s");
    expect(await restartsOf(sick.stage)).toBeGreaterThan(0);
    const busy = await runProbed({ readinessProbe: byCommand("ready") }, ["ready"]);
    await busy.stage.advance("1m");
    expect(await busy.stage.shown()).toEqual(["web Running: a running"]);
  });
});

describe("Startup probe", () => {
  test("it says whether the application has started", async () => {
    const { stage } = await runProbed({ startupProbe: byCommand("up", { failureThreshold: 30 }) }, ["up"]);
    expect((await containerOf(stage, "a")).started).toBe(false);
    answer(stage, "up", 0);
    await stage.advance("10s");
    expect((await containerOf(stage, "a")).started).toBe(true);
  });

  test("until it succeeds nobody asks for liveness and readiness", async () => {
    const startupProbe = byCommand("up", { failureThreshold: 30 });
    const probes = { startupProbe, livenessProbe: byCommand("alive"), readinessProbe: byCommand("ready") };
    const { stage, asked } = await runProbed(probes, ["up", "alive"]);
    await stage.advance("2m");
    expect(new Set(asked())).toEqual(new Set(["up"]));
    answer(stage, "up", 0);
    await stage.advance("10s");
    expect(new Set(asked())).toEqual(new Set(["up", "alive", "ready"]));
  });

  test("once it has succeeded it is asked no more, while the others are", async () => {
    const probes = { startupProbe: byCommand("up"), livenessProbe: byCommand("alive") };
    const { stage, asked } = await runProbed(probes);
    await stage.advance("1m");
    expect(asked().filter((command) => command === "up")).toHaveLength(1);
    expect(asked().filter((command) => command === "alive").length).toBeGreaterThan(5);
  });

  test.each([
    ["Always", "web Running: a waiting CrashLoopBackOff (restarts: 1)"],
    ["OnFailure", "web Running: a waiting CrashLoopBackOff (restarts: 1)"],
    ["Never", "web Failed: a terminated Error 143"],
  ] as const)(
    "when it has failed the container is killed, and restartPolicy %s says what follows",
    async (restartPolicy, shown) => {
      const startupProbe = byCommand("up", { periodSeconds: 1, failureThreshold: 3 });
      const { stage } = await runProbed({ startupProbe }, ["up"], { restartPolicy });
      await stage.advance("5s");
      expect(happenings(stage, / a (started|stopped)/).slice(0, 2)).toEqual(["0s a started", "2s a stopped"]);
      expect(await stage.shown()).toEqual([shown]);
    },
  );
});

describe("Liveness probe", () => {
  test("it restarts a container that runs and makes no progress", async () => {
    const { stage } = await runProbed({ livenessProbe: byCommand("alive") });
    await stage.advance("1m");
    answer(stage, "alive", 1);
    await stage.advance("29s");
    expect(await restartsOf(stage)).toBe(0);
    await stage.advance("2s");
    expect(await restartsOf(stage)).toBe(1);
  });

  test("failures within the tolerance restart nothing", async () => {
    const { stage } = await runProbed({ livenessProbe: byCommand("alive", { periodSeconds: 1 }) });
    for (let times = 0; times < 10; times++) {
      answer(stage, "alive", 1);
      await stage.advance("2s");
      answer(stage, "alive", 0);
      await stage.advance("1s");
    }
    expect(await restartsOf(stage)).toBe(0);
  });

  test("it does not wait for the readiness probe to succeed", async () => {
    const probes = { livenessProbe: byCommand("alive"), readinessProbe: byCommand("ready") };
    const { asked } = await runProbed(probes, ["ready"]);
    expect(asked()).toContain("alive");
  });

  test("initialDelaySeconds makes it wait", async () => {
    const { stage } = await runProbed({ livenessProbe: byCommand("alive", { initialDelaySeconds: 7 }) });
    expect(await secondsOf(stage, "alive", 20)).toEqual([7, 17]);
  });
});

describe("Readiness probe", () => {
  test("it says when a container is ready for traffic", async () => {
    const { stage } = await runProbed({ readinessProbe: byCommand("ready") }, ["ready"]);
    expect((await conditionOf(stage, "Ready"))?.status).toBe("False");
    answer(stage, "ready", 0);
    await stage.advance("10s");
    expect((await conditionOf(stage, "Ready"))?.status).toBe("True");
  });

  test("later in life too: a container that is overloaded for a while is not ready, and then is again", async () => {
    const { stage } = await runProbed({ readinessProbe: byCommand("ready", { periodSeconds: 1 }) });
    const seen: boolean[] = [];
    for (const exitCode of [0, 1, 0]) {
      answer(stage, "ready", exitCode);
      await stage.advance("5s");
      seen.push(await readyOf(stage));
    }
    expect(seen).toEqual([true, false, true]);
    expect(await restartsOf(stage)).toBe(0);
  });

  test("it is asked as long as the container lives, while that has to end too", async () => {
    const { stage, asked } = await runProbed({ readinessProbe: byCommand("ready", { periodSeconds: 1 }) });
    stage.runtime.programs.set("a", { onTerm: "ignores" });
    await stage.exit("a", 1);
    await stage.advance("1s");
    await stage.remove("web", 10);
    const before = asked().length;
    await stage.advance("5s");
    expect(asked().length - before).toBe(5);
  });
});

describe("When should you use a startup probe?", () => {
  test("it gives a container longer to start than liveness would, which stays as quick as it is", async () => {
    const probes = {
      startupProbe: byCommand("up", { failureThreshold: 30 }),
      livenessProbe: byCommand("up", { failureThreshold: 1 }),
    };
    const { stage } = await runProbed(probes, ["up"]);
    await stage.advance("280s");
    answer(stage, "up", 0);
    await stage.advance("15s");
    expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
    answer(stage, "up", 1);
    await stage.advance("10s");
    expect(await restartsOf(stage)).toBe(1);
  });

  test("one that never succeeds has its container killed after failureThreshold times periodSeconds", async () => {
    const { stage } = await runProbed({ startupProbe: byCommand("up", { failureThreshold: 30 }) }, ["up"]);
    await stage.advance("5m");
    // The first of thirty tries is at the start.
    expect(happenings(stage, /stopped/)).toEqual(["290s a stopped"]);
  });
});

describe("When should you use a liveness probe?", () => {
  test("a process that ends by itself needs none to be restarted", async () => {
    const { stage } = await runPod();
    await stage.advance("20s");
    await stage.exit("a", 1);
    await stage.advance("1s");
    expect(await stage.shown()).toEqual(["web Running, ready: a running (restarts: 1)"]);
  });

  test.each(["Always", "OnFailure"] as const)("with restartPolicy %s it kills and restarts", async (restartPolicy) => {
    const livenessProbe = byCommand("alive", { failureThreshold: 1 });
    const { stage } = await runProbed({ livenessProbe }, ["alive"], { restartPolicy });
    expect(happenings(stage, / a (started|stopped)/).slice(0, 3)).toEqual([
      "0s a started",
      "0s a stopped",
      "0s a started",
    ]);
  });

  test("with a higher threshold than that of readiness, the pod is not ready for a while before it is killed", async () => {
    const probes = {
      readinessProbe: byCommand("health", { failureThreshold: 1 }),
      livenessProbe: byCommand("health", { failureThreshold: 4 }),
    };
    const { stage } = await runProbed(probes);
    await stage.advance("5s");
    answer(stage, "health", 1);
    await stage.advance("10s");
    expect(await stage.shown()).toEqual(["web Running: a running"]);
    await stage.advance("30s");
    expect(await restartsOf(stage)).toBe(1);
  });
});

describe("When should you use a readiness probe?", () => {
  test("a pod with one starts unready, and is ready from its first success on", async () => {
    const { stage } = await runProbed({ readinessProbe: byCommand("ready", { initialDelaySeconds: 5 }) });
    expect(await readyOf(stage)).toBe(false);
    await stage.advance("5s");
    expect(await readyOf(stage)).toBe(true);
  });

  test("a container may take itself out of service, and is not restarted for it", async () => {
    const probes = { readinessProbe: byCommand("maintained"), livenessProbe: byCommand("alive") };
    const { stage } = await runProbed(probes);
    answer(stage, "maintained", 1);
    await stage.advance("10m");
    expect(await stage.shown()).toEqual(["web Running: a running"]);
  });
});

/** Whoever is asked over the network: real servers on 127.0.0.1, which answer in real time while the stage's clock stands still. */
const ends: (() => void)[] = [];
afterAll(() => {
  for (const end of ends) end();
});

async function listen(server: Pick<Server, "listen" | "address" | "close">): Promise<number> {
  ends.push(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  return (server.address() as { readonly port: number }).port;
}

const authority = createAuthority("somebody else");

/** An HTTP server, with what it was asked. */
async function serveHttp(treat: (request: IncomingMessage, response: ServerResponse) => void, isTls = false) {
  const seen: IncomingMessage[] = [];
  const take = (request: IncomingMessage, response: ServerResponse) => {
    seen.push(request);
    treat(request, response);
  };
  const tls = () => authority.issue({ commonName: "elsewhere.example", organizations: [] });
  return { port: await listen(isTls ? createHttpsServer(tls(), take) : createServer(take)), seen };
}

const withStatus = (status: number) => (_: IncomingMessage, response: ServerResponse) =>
  void response.writeHead(status).end("words");

/** Real servers answer in real time, and a machine may be busy with other things. */
const PATIENCE_MS = 20_000;
const patient: Probe = { timeoutSeconds: 20 };
setDefaultTimeout(2 * PATIENCE_MS);

/** A node that is this machine, as far as its pods are asked. */
async function onThisMachine(stage: Stage): Promise<void> {
  stage.hostIPs = ["127.0.0.1"];
  await stage.disk.at("/").makeFolder("etc", 0o755);
  await stage.disk.at("/").write("etc/hosts", "", 0o644);
}

/** A pod on the node's network, which is this machine's, asked once for its readiness. */
async function runOnNode(readinessProbe: Probe, more: Partial<Container> = {}) {
  const { stage } = await runPod({
    spec: {
      hostNetwork: true,
      containers: [container("a", { ...more, readinessProbe: { failureThreshold: 1, ...patient, ...readinessProbe } })],
    },
    before: onThisMachine,
  });
  await stage.advance("0s");
  return stage;
}

const ready = (stage: Stage) =>
  until("the pod to be ready", PATIENCE_MS, async () => (await conditionOf(stage, "Ready"))?.status === "True");
const firstWarning = (stage: Stage) =>
  until("a probe to be told of", PATIENCE_MS, async () => {
    // Events are told in turns of their own.
    await stage.advance("1ms");
    return (await warningsOf(stage))[0];
  });

/** Asks an HTTP server once, and waits until it is well. */
async function askHttp(httpGet: Omit<HTTPGetAction, "port">, isTls = false) {
  const { port, seen } = await serveHttp(withStatus(200), isTls);
  const stage = await runOnNode({ httpGet: { port, ...httpGet } });
  await ready(stage);
  return seen[0];
}

const grpcHead = { ":status": 200, "content-type": "application/grpc" };

/** A server of gRPC that says this status of each service. */
async function serveGrpc(statusOf: (service: string) => number): Promise<number> {
  const server = createHttp2Server();
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.once("data", (chunk: Buffer) => {
      stream.respond(grpcHead, { waitForTrailers: true });
      stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      stream.end(Buffer.from([0, 0, 0, 0, 2, 8, statusOf(chunk.subarray(7).toString())]));
    });
  });
  return await listen(server);
}

describe("Check mechanisms", () => {
  test.each([
    [0, true],
    [1, false],
    [126, false],
  ])("exec: a command that exits with %d", async (exitCode, isReady) => {
    const { stage } = await runPod({
      spec: { containers: [container("a", { readinessProbe: byCommand("ready") })] },
      before: (made) => answer(made, "ready", exitCode),
    });
    await stage.advance("0s");
    expect(await readyOf(stage)).toBe(isReady);
  });

  test("grpc: a status of SERVING is a success, and any other is none", async () => {
    await ready(await runOnNode({ grpc: { port: await serveGrpc(() => 1) } }));
    const stage = await runOnNode({ grpc: { port: await serveGrpc(() => 2) } });
    expect(await firstWarning(stage)).toBe(
      '1x Warning Unhealthy: Readiness probe failed: service unhealthy (responded with "NOT_SERVING")',
    );
  });

  test.each([200, 204, 399])("httpGet: status %d is a success", async (status) => {
    const { port } = await serveHttp(withStatus(status));
    await ready(await runOnNode({ httpGet: { port } }));
  });

  test.each([400, 404, 500])("httpGet: status %d is none", async (status) => {
    const { port } = await serveHttp(withStatus(status));
    const stage = await runOnNode({ httpGet: { port } });
    expect(await firstWarning(stage)).toBe(
      `1x Warning Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: ${status}`,
    );
  });

  test("tcpSocket: an open port is a success, a closed one is none", async () => {
    const server = createTcpServer();
    const port = await listen(server);
    await ready(await runOnNode({ tcpSocket: { port } }));
    await new Promise((resolve) => server.close(resolve));
    const stage = await runOnNode({ tcpSocket: { port } });
    expect(await firstWarning(stage)).toBe(
      `1x Warning Unhealthy: Readiness probe failed: dial tcp 127.0.0.1:${port}: connect: connection refused`,
    );
  });

  test("tcpSocket: a server that hangs up at once is well", async () => {
    const port = await listen(createTcpServer((socket) => socket.on("error", () => undefined).destroy()));
    await ready(await runOnNode({ tcpSocket: { port } }));
  });
});

describe("Probe results", () => {
  test("what could not be asked leads to nothing, and is asked again", async () => {
    const { stage, asked } = await runProbed({ livenessProbe: byCommand("alive", { failureThreshold: 1 }) });
    stage.runtime.before.execSync = () => Promise.reject(new Error("no such thing"));
    await stage.advance("1m");
    delete stage.runtime.before.execSync;
    expect(await restartsOf(stage)).toBe(0);
    const before = asked().length;
    await stage.advance("10s");
    expect(asked().length).toBe(before + 1);
    expect((await warningsOf(stage))[0]).toMatch(/Liveness probe errored and resulted in unknown state: /);
  });

  test("httpGet: an answer that breaks off leads to nothing either, whatever its status", async () => {
    const port = await listen(
      createTcpServer((socket) => {
        socket.on("error", () => undefined);
        socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"));
      }),
    );
    const stage = await runOnNode({ httpGet: { port } });
    expect(await firstWarning(stage)).toBe(
      "1x Warning Unhealthy: Readiness probe errored and resulted in failure state: unexpected EOF",
    );
  });

  test("a container without a probe passes it", async () => {
    const { stage } = await runPod();
    expect(await stage.shown()).toEqual(["web Running, ready: a running"]);
  });

  test("before its initial delay a readiness probe counts as failed", async () => {
    const { stage } = await runProbed({ readinessProbe: byCommand("ready", { initialDelaySeconds: 30 }) });
    await stage.advance("29s");
    expect((await conditionOf(stage, "Ready"))?.status).toBe("False");
  });
});

describe("Configuration fields", () => {
  test("initialDelaySeconds: the first try is so long after the start, and at once if it is not given", async () => {
    for (const [delay, first] of [
      [undefined, 0],
      [4, 4],
    ] as const) {
      const probe = byCommand("ready", delay === undefined ? {} : { initialDelaySeconds: delay });
      const { stage } = await runProbed({ readinessProbe: probe });
      expect((await secondsOf(stage, "ready", 8))[0]).toBe(first);
    }
  });

  test("initialDelaySeconds: liveness and readiness do not begin before the startup probe has succeeded, however short their delay", async () => {
    const probes = {
      startupProbe: byCommand("up", { periodSeconds: 5, failureThreshold: 10 }),
      livenessProbe: byCommand("alive", { initialDelaySeconds: 2 }),
    };
    const { stage } = await runProbed(probes, ["up"]);
    await stage.advance("12s");
    answer(stage, "up", 0);
    expect(await secondsOf(stage, "alive", 5)).toEqual([3]);
  });

  test("initialDelaySeconds: it is kept where the period is longer", async () => {
    const probe = byCommand("ready", { initialDelaySeconds: 3, periodSeconds: 20 });
    const { stage } = await runProbed({ readinessProbe: probe });
    expect(await secondsOf(stage, "ready", 30)).toEqual([3, 23]);
  });

  test("periodSeconds: ten seconds if it is not given", async () => {
    const { stage } = await runProbed({ readinessProbe: byCommand("ready") });
    expect(await secondsOf(stage, "ready", 25)).toEqual([0, 10, 20]);
  });

  test("periodSeconds: a container that has just started up is asked at once whether it is ready, whatever the period", async () => {
    const probes = {
      startupProbe: byCommand("up", { periodSeconds: 1, failureThreshold: 60 }),
      readinessProbe: byCommand("ready", { periodSeconds: 60 }),
    };
    const { stage } = await runProbed(probes, ["up"]);
    await stage.advance("5s");
    answer(stage, "up", 0);
    await stage.advance("1s");
    expect(await readyOf(stage)).toBe(true);
  });

  test("timeoutSeconds: one second if it is not given; what takes longer has failed", async () => {
    for (const [timeout, seconds] of [
      [{}, 1],
      [{ timeoutSeconds: 3 }, 3],
    ] as const) {
      const { stage } = await runPod({
        spec: {
          containers: [container("a", { livenessProbe: byCommand("slow", { ...timeout, failureThreshold: 1 }) })],
        },
        before: (made) => void made.runtime.commands.set("slow", { lastsMs: 60_000 }),
      });
      await stage.advance(`${seconds}s`);
      expect(await warningsOf(stage)).toEqual([
        `1x Warning Unhealthy: Liveness probe failed: command timed out: "slow" timed out after ${seconds}s`,
      ]);
    }
  });

  test("successThreshold: so many successes in a row make a container ready again; one if it is not given", async () => {
    const probe = byCommand("ready", { periodSeconds: 1, successThreshold: 3, failureThreshold: 1 });
    const { stage } = await runProbed({ readinessProbe: probe }, ["ready"]);
    answer(stage, "ready", 0);
    await stage.advance("2s");
    expect(await readyOf(stage)).toBe(false);
    await stage.advance("1s");
    expect(await readyOf(stage)).toBe(true);
  });

  test("failureThreshold: three failures in a row if it is not given", async () => {
    const { stage } = await runProbed({ readinessProbe: byCommand("ready", { periodSeconds: 1 }) });
    answer(stage, "ready", 1);
    await stage.advance("2s");
    expect(await readyOf(stage)).toBe(true);
    await stage.advance("1s");
    expect(await readyOf(stage)).toBe(false);
  });

  test("failureThreshold: of liveness and startup, that container alone is restarted", async () => {
    const { stage } = await runPod({
      spec: {
        containers: [container("a", { livenessProbe: byCommand("alive", { failureThreshold: 1 }) }), container("b")],
      },
      before: (made) => answer(made, "alive", 1),
    });
    await stage.advance("1m");
    expect((await containerOf(stage, "b")).restartCount).toBe(0);
    expect(await restartsOf(stage)).toBeGreaterThan(0);
  });

  test("failureThreshold: of readiness, the container runs on, is asked on, and the pod's condition Ready is False", async () => {
    const { stage, asked } = await runProbed({ readinessProbe: byCommand("ready", { periodSeconds: 1 }) }, ["ready"]);
    await stage.advance("1m");
    expect(asked().length).toBe(61);
    expect(await stage.shown()).toEqual(["web Running: a running"]);
    expect(await conditionOf(stage, "Ready")).toMatchObject({ status: "False", reason: "ContainersNotReady" });
  });

  test("terminationGracePeriodSeconds: the pod's own if the probe has none, and thirty seconds if that has none either", async () => {
    for (const [pod, seconds] of [
      [{}, 30],
      [{ terminationGracePeriodSeconds: 12 }, 12],
    ] as const) {
      const livenessProbe = byCommand("alive", { failureThreshold: 1 });
      const { stage } = await runProbed({ livenessProbe }, ["alive"], pod);
      expect(stage.runtime.calls).toContain(`stopContainer default/web/a #0 within ${seconds}s`);
    }
  });
});

describe("Probe-level terminationGracePeriodSeconds", () => {
  test.each(["livenessProbe", "startupProbe"] as const)("%s: it goes before the pod's", async (kind) => {
    const probe = byCommand("well", { failureThreshold: 1, terminationGracePeriodSeconds: 60 });
    const { stage } = await runProbed({ [kind]: probe }, ["well"], { terminationGracePeriodSeconds: 3600 });
    expect(stage.runtime.calls).toContain("stopContainer default/web/a #0 within 60s");
  });
});

describe("HTTP probes", () => {
  test("the request is a GET to the pod's address, for / if no path is given, with the two standard headers", async () => {
    const request = await askHttp({});
    expect([request?.method, request?.url]).toEqual(["GET", "/"]);
    expect(request?.headers).toEqual({
      host: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
      "user-agent": "kube-probe/1.36",
      accept: "*/*",
      connection: "close",
    });
  });

  test("another host, a path and a port's name are as the spec has them", async () => {
    const { port, seen } = await serveHttp(withStatus(200));
    const httpGet = { host: "localhost", path: "/healthz?full=1", port: "web" };
    const stage = await runOnNode({ httpGet }, { ports: [{ name: "web", containerPort: port }] });
    await ready(stage);
    expect([seen[0]?.url, seen[0]?.headers.host]).toEqual(["/healthz?full=1", `localhost:${port}`]);
  });

  test("over HTTPS nobody looks at the certificate", async () => {
    expect((await askHttp({ scheme: "HTTPS" }, true))?.url).toBe("/");
  });

  test("a header may be given more than once", async () => {
    const httpHeaders = ["one", "two"].map((value) => ({ name: "X-Asked", value }));
    expect((await askHttp({ httpHeaders }))?.headers["x-asked"]).toBe("one, two");
  });

  test("a header Host asks for one of several hosts of a server", async () => {
    const httpHeaders = [{ name: "Host", value: "shop.example" }];
    expect((await askHttp({ httpHeaders }))?.headers.host).toBe("shop.example");
  });

  test("the standard headers may be others, and be left out", async () => {
    const other = await askHttp({ httpHeaders: [{ name: "Accept", value: "application/json" }] });
    expect(other?.headers).toMatchObject({ accept: "application/json", "user-agent": "kube-probe/1.36" });
    const none = await askHttp({
      httpHeaders: [
        { name: "Accept", value: "" },
        { name: "User-Agent", value: "" },
      ],
    });
    expect(Object.keys(none?.headers ?? {}).toSorted()).toEqual(["connection", "host"]);
  });
});

describe("Redirect handling", () => {
  test("a redirect to the same host is followed, to HTTPS too", async () => {
    const tls = await serveHttp(withStatus(200), true);
    const { port } = await serveHttp((_, response) =>
      response.writeHead(302, { location: `https://127.0.0.1:${tls.port}/secure` }).end(),
    );
    await ready(await runOnNode({ httpGet: { port } }));
    expect(tls.seen.map(({ url }) => url)).toEqual(["/secure"]);
  });

  test("one to another host is not, is a success, and a warning tells of it", async () => {
    const { port, seen } = await serveHttp((_, response) =>
      response.writeHead(302, { location: `http://localhost:1/` }).end("gone there"),
    );
    const stage = await runOnNode({ httpGet: { port } });
    await ready(stage);
    expect(await firstWarning(stage)).toBe(
      "1x Warning ProbeWarning: Readiness probe warning: Probe terminated redirects, Response body: gone there",
    );
    expect(seen).toHaveLength(1);
  });

  test("a probe that is led on without end comes to an end", async () => {
    const { port } = await serveHttp((_, response) => response.writeHead(302, { location: "/" }).end());
    const stage = await runOnNode({ httpGet: { port } });
    expect(await firstWarning(stage)).toBe(
      `1x Warning Unhealthy: Readiness probe failed: Get "http://127.0.0.1:${port}/": stopped after 10 redirects`,
    );
  });

  test("of a long body no more than 10 KiB is read, and the status alone counts", async () => {
    const body = "x".repeat(1_000_000);
    const { port } = await serveHttp((_, response) => response.writeHead(200).end(body));
    await ready(await runOnNode({ httpGet: { port } }));
  });
});

describe("TCP probes", () => {
  test("the connection is the node's: a name of its own leads somewhere, and one of a Service nowhere", async () => {
    const port = await listen(createTcpServer());
    await ready(await runOnNode({ tcpSocket: { host: "localhost", port } }));
    const stage = await runOnNode({ tcpSocket: { host: "shop.default.svc.cluster.invalid", port }, timeoutSeconds: 1 });
    expect(await firstWarning(stage)).toMatch(/^1x Warning Unhealthy: Readiness probe failed: dial tcp/);
  });
});

describe("gRPC probes", () => {
  test.each(["startupProbe", "livenessProbe", "readinessProbe"] as const)("%s may be one", async (kind) => {
    const port = await serveGrpc(() => 1);
    const { stage } = await runPod({
      spec: { hostNetwork: true, containers: [container("a", { [kind]: { grpc: { port }, ...patient } })] },
      before: onThisMachine,
    });
    await stage.advance("0s");
    await ready(stage);
  });

  test("one server may answer each service otherwise", async () => {
    const port = await serveGrpc((service) => (service === "web-readiness" ? 1 : 2));
    await ready(await runOnNode({ grpc: { port, service: "web-readiness" } }));
    const stage = await runOnNode({ grpc: { port, service: "web-liveness" } });
    expect(await firstWarning(stage)).toContain('responded with "NOT_SERVING"');
  });

  test("a server that does not know the protocol, or the service, has failed", async () => {
    const refuse = (code: string, message: string) => {
      const server = createHttp2Server();
      server.on("stream", (stream: ServerHttp2Stream) =>
        stream.respond({ ...grpcHead, "grpc-status": code, "grpc-message": message }, { endStream: true }),
      );
      return listen(server);
    };
    const unknown = await runOnNode({ grpc: { port: await refuse("12", "unknown service grpc.health.v1.Health") } });
    expect(await firstWarning(unknown)).toBe(
      "1x Warning Unhealthy: Readiness probe failed: error: this server does not implement the grpc health protocol (grpc.health.v1.Health): unknown service grpc.health.v1.Health",
    );
    const missing = await runOnNode({ grpc: { port: await refuse("5", "unknown service"), service: "x" } });
    expect(await firstWarning(missing)).toBe(
      "1x Warning Unhealthy: Readiness probe failed: error: health rpc probe failed: rpc error: code = NotFound desc = unknown service",
    );
  });
});

describe("Define a liveness command", () => {
  test("the pod's events tell of the failure, and of what follows", async () => {
    const { stage } = await runProbed({
      livenessProbe: byCommand("alive", { failureThreshold: 1, initialDelaySeconds: 5 }),
    });
    expect(await warningsOf(stage)).toEqual([]);
    answer(stage, "alive", 1);
    await stage.advance("8s");
    expect((await stage.events("web")).filter((line) => /Unhealthy|Killing/.test(line))).toEqual([
      "1x Warning Unhealthy: Liveness probe failed: not well",
      "1x Normal Killing: Container a failed liveness probe, will be restarted",
    ]);
  });
});

describe("Define readiness probes", () => {
  test("a pod is ready when all its containers are, its sidecars among them", async () => {
    const { stage } = await runPod({
      spec: {
        initContainers: [sidecar("proxy", { readinessProbe: byCommand("proxied") })],
        containers: [container("a", { readinessProbe: byCommand("ready") }), container("b")],
      },
      before: (made) => {
        answer(made, "ready", 1);
        answer(made, "proxied", 1);
      },
    });
    const seen: (string | undefined)[] = [];
    for (const command of ["", "ready", "proxied"]) {
      answer(stage, command, 0);
      await stage.advance("10s");
      seen.push((await conditionOf(stage, "Ready"))?.status);
    }
    expect(seen).toEqual(["False", "False", "True"]);
  });
});
