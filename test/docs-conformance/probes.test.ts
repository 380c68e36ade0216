/*
 * https://kubernetes.io/docs/concepts/workloads/pods/probes/ and, for more detail, the task "Configure Liveness,
 * Readiness and Startup Probes".
 *
 * Not tested, since it concerns others:
 *   Liveness probe, Readiness probe    deadlocks and careless probes: their authors. Services and their traffic: the
 *                                      EndpointSlice controller, which uses the condition `Ready`
 *   Configuration fields               minimum values, and that of `successThreshold`: the API server's validation
 *   Probe-level termination…           not for readiness probes: the API server's validation
 *   gRPC probes                        only numeric ports, and no host: the API has no other
 *
 * A probe counts from one period after the start on, so that a container has the whole time of the documentation; readiness
 * and startup are tried before, without effect until the first success (docs/decisions/0094).
 *
 * Two statements differ from the kubelet 1.36, which this agent follows:
 *   - Docs: a probe succeeds with a warning after eleven redirects. Kubelet: it fails.
 *   - Docs: the delays of liveness and readiness probes start after the startup probe. Kubelet: they start with the
 *     container.
 */
import { afterAll, expect, setDefaultTimeout, test } from "bun:test";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import { createServer as createHttpsServer } from "node:https";
import { createServer as createTcpServer, type Server } from "node:net";
import type { Container, HTTPGetAction, PodSpec, Probe } from "../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../bed/poll-until.ts";
import type { HarnessOptions } from "../scenarios/harness/harness-options.ts";
import type { AgentHarness } from "../scenarios/harness.ts";
import { createCertificateAuthority } from "../upstream/pki.ts";
import {
  conditionOf,
  container,
  containerOf,
  type DocsPod,
  describeSection,
  runPod,
  runTimedPod,
  sidecar,
  type TimedPodRun,
  unreadyByProbe,
} from "./pod-case.ts";

const execProbe = (command: string, more: Probe = {}): Probe => ({ exec: { command: [command] }, ...more });

/** Sets the exit code of a probe's command from now on. */
function setExitCode(harness: AgentHarness, command: string, exitCode: number): void {
  harness.runtime.commands.set(command, { exitCode, stderr: exitCode === 0 ? "" : "unhealthy" });
}

/** A pod of one container `a` with these probes; the commands in `failing` exit with 1. */
const probedPod = (
  probes: Partial<Container>,
  failing: readonly string[] = [],
  more: Partial<PodSpec> = {},
  options: HarnessOptions = {},
): DocsPod => ({
  options,
  spec: { ...more, containers: [container("a", probes)] },
  before: (made) => {
    for (const command of failing) setExitCode(made, command, 1);
  },
});

/** Runs it until the first early tries. */
async function runProbed(...pod: Parameters<typeof probedPod>) {
  const { harness } = await runPod(probedPod(...pod));
  await harness.advance("100ms");
  return { harness, commands: () => probeCommandsOf(harness) };
}

/** The same where times are compared. */
async function runTimedProbed(...pod: Parameters<typeof probedPod>): Promise<TimedPodRun> {
  const run = await runTimedPod(probedPod(...pod));
  await run.harness.advance("100ms");
  return run;
}

/** The commands that were run in containers, in order. */
const probeCommandsOf = (harness: AgentHarness) =>
  harness.runtime.calls.filter((call) => call.startsWith("execSync")).map((call) => call.replace(/^.*: /, ""));

/** Advances second by second, and returns the seconds in which a command was run. */
async function probedSeconds(harness: AgentHarness, command: string, seconds: number): Promise<readonly number[]> {
  const count = () => probeCommandsOf(harness).filter((ran) => ran === command).length;
  const at: number[] = [];
  for (let second = 0; second <= seconds; second++) {
    const before = second === 0 ? 0 : count();
    if (second > 0) await harness.advance("1s");
    if (count() > before) at.push(second);
  }
  return at;
}

const readinessOf = async (harness: AgentHarness) => (await containerOf(harness, "a")).ready;
const restartCountOf = async (harness: AgentHarness) => (await containerOf(harness, "a")).restartCount;
const warningsOf = async (harness: AgentHarness) =>
  (await harness.events("web")).filter((line) => /Unhealthy|ProbeWarning/.test(line));

describeSection("Liveness, Readiness, and Startup Probes", () => {
  test("a probe runs periodically", async () => {
    const { harness } = await runProbed({ livenessProbe: execProbe("alive", { periodSeconds: 3 }) });
    expect(await probedSeconds(harness, "alive", 12)).toEqual([3, 6, 9, 12]);
  });

  test("a container that fails liveness is restarted, and one that fails readiness is not ready", async () => {
    const sick = await runProbed({ livenessProbe: execProbe("alive", { failureThreshold: 1 }) }, ["alive"]);
    await sick.harness.advance("10s");
    expect(await restartCountOf(sick.harness)).toBeGreaterThan(0);
    const busy = await runProbed({ readinessProbe: execProbe("ready") }, ["ready"]);
    await busy.harness.advance("1m");
    expect(await busy.harness.apiPods()).toEqual(["web Running: a running"]);
  });
});

describeSection("Startup probe", () => {
  test("the startup probe sets `started`", async () => {
    const { harness } = await runProbed({ startupProbe: execProbe("up", { failureThreshold: 30 }) }, ["up"]);
    expect((await containerOf(harness, "a")).started).toBe(false);
    setExitCode(harness, "up", 0);
    await harness.advance("10s");
    expect((await containerOf(harness, "a")).started).toBe(true);
  });

  test("liveness and readiness probes do not run until the startup probe succeeds", async () => {
    const startupProbe = execProbe("up", { failureThreshold: 30 });
    const probes = { startupProbe, livenessProbe: execProbe("alive"), readinessProbe: execProbe("ready") };
    const { harness, commands } = await runProbed(probes, ["up", "alive"]);
    await harness.advance("2m");
    expect(new Set(commands())).toEqual(new Set(["up"]));
    setExitCode(harness, "up", 0);
    await harness.advance("20s");
    expect(new Set(commands())).toEqual(new Set(["up", "alive", "ready"]));
  });

  test("the startup probe does not run again after its success, unlike the liveness probe", async () => {
    const probes = { startupProbe: execProbe("up"), livenessProbe: execProbe("alive") };
    const { harness, commands } = await runProbed(probes);
    await harness.advance("2m");
    expect(commands().filter((command) => command === "up")).toHaveLength(1);
    expect(commands().filter((command) => command === "alive").length).toBeGreaterThan(5);
  });

  test.each([
    ["Always", "web Running: a waiting CrashLoopBackOff (restarts: 1)"],
    ["OnFailure", "web Running: a waiting CrashLoopBackOff (restarts: 1)"],
    ["Never", "web Failed: a terminated Error 143"],
  ] as const)(
    "a failed startup probe kills the container, and restartPolicy %s decides about a restart",
    async (restartPolicy, shown) => {
      const startupProbe = execProbe("up", { periodSeconds: 1, failureThreshold: 3 });
      const { harness, expectTimeline } = await runTimedProbed({ startupProbe }, ["up"], { restartPolicy });
      await harness.advance("7s");
      await expectTimeline(/ a (started|stopped)/, ["0s a started", "3s a stopped"], { to: 2 });
      expect(await harness.apiPods()).toEqual([shown]);
    },
  );
});

describeSection("Liveness probe", () => {
  test("a running container is restarted after three failures of its liveness probe", async () => {
    const { harness } = await runProbed({ livenessProbe: execProbe("alive") });
    await harness.advance("1m");
    setExitCode(harness, "alive", 1);
    await harness.advance("29s");
    expect(await restartCountOf(harness)).toBe(0);
    await harness.advance("2s");
    expect(await restartCountOf(harness)).toBe(1);
  });

  test("fewer failures than failureThreshold restart nothing", async () => {
    const { harness } = await runProbed({ livenessProbe: execProbe("alive", { periodSeconds: 1 }) });
    for (let times = 0; times < 10; times++) {
      setExitCode(harness, "alive", 1);
      await harness.advance("2s");
      setExitCode(harness, "alive", 0);
      await harness.advance("1s");
    }
    expect(await restartCountOf(harness)).toBe(0);
  });

  test("the liveness probe does not wait for the readiness probe", async () => {
    const probes = { livenessProbe: execProbe("alive"), readinessProbe: execProbe("ready") };
    const { harness, commands } = await runProbed(probes, ["ready"]);
    await harness.advance("10s");
    expect(commands()).toContain("alive");
  });

  test("initialDelaySeconds delays the liveness probe", async () => {
    const { harness } = await runProbed({ livenessProbe: execProbe("alive", { initialDelaySeconds: 7 }) });
    expect(await probedSeconds(harness, "alive", 30)).toEqual([17, 27]);
  });
});

describeSection("Readiness probe", () => {
  test("the readiness probe sets the pod's condition Ready", async () => {
    const { harness } = await runProbed({ readinessProbe: execProbe("ready") }, ["ready"]);
    expect((await conditionOf(harness, "Ready"))?.status).toBe("False");
    setExitCode(harness, "ready", 0);
    await harness.advance("10s");
    expect((await conditionOf(harness, "Ready"))?.status).toBe("True");
  });

  test("a container that is overloaded for a while is not ready, and then ready again", async () => {
    const { harness } = await runProbed(
      { readinessProbe: execProbe("ready", { periodSeconds: 1 }) },
      [],
      {},
      { regressions: unreadyByProbe },
    );
    const seen: boolean[] = [];
    for (const exitCode of [0, 1, 0]) {
      setExitCode(harness, "ready", exitCode);
      await harness.advance("5s");
      seen.push(await readinessOf(harness));
    }
    expect(seen).toEqual([true, false, true]);
    expect(await restartCountOf(harness)).toBe(0);
  });

  test("the readiness probe runs for the container's whole lifetime, also during termination", async () => {
    const { harness, commands } = await runProbed({ readinessProbe: execProbe("ready", { periodSeconds: 1 }) });
    harness.runtime.programs.set("a", { onTerm: "ignores" });
    await harness.exit("a", 1);
    await harness.advance("2s");
    await harness.deletePod("web", 10);
    const before = commands().length;
    await harness.advance("5s");
    expect(commands().length - before).toBe(5);
  });
});

/** Sets when the command of a probe begins to succeed, counted from now. */
const succeedAfter = (harness: AgentHarness, command: string, ms: number) =>
  void harness.clock.wakeAt(harness.clock.now() + ms, () => setExitCode(harness, command, 0));

describeSection("How long a container may take to start", () => {
  test.each(["startupProbe", "livenessProbe"] as const)(
    "%s: a container has failureThreshold times periodSeconds after its start and initial delay",
    async (kind) => {
      for (const [initialDelaySeconds, neededMs, restarts] of [
        [0, 2_900, 0],
        [0, 3_100, 1],
        [4, 6_900, 0],
        [4, 7_100, 1],
      ] as const) {
        const probe = execProbe("up", { periodSeconds: 1, failureThreshold: 3, initialDelaySeconds });
        const { harness } = await runPod({
          spec: { containers: [container("a", { [kind]: probe })] },
          before: (made) => setExitCode(made, "up", 1),
        });
        succeedAfter(harness, "up", neededMs);
        await harness.advance("20s");
        expect([neededMs, await restartCountOf(harness)]).toEqual([neededMs, restarts]);
      }
    },
  );

  test.each([
    ["early tries find it after 0.8 s", true, 800],
    ["without them it waits for a period, as with the kubelet", false, 10_000],
  ] as const)("a container that is up after 0.7 s: %s", async (_, earlyProbes, readyAfterMs) => {
    const { harness } = await runPod({
      spec: { containers: [container("a", { readinessProbe: execProbe("ready") })] },
      options: { earlyProbes },
      before: (made) => setExitCode(made, "ready", 1),
    });
    succeedAfter(harness, "ready", 700);
    await harness.advance(`${readyAfterMs - 1}ms`);
    expect(await readinessOf(harness)).toBe(false);
    await harness.advance("1ms");
    expect([await readinessOf(harness), await warningsOf(harness)]).toEqual([true, []]);
  });
});

describeSection("When should you use a startup probe?", () => {
  test("a startup probe gives a container more time to start without slowing down its liveness probe", async () => {
    const probes = {
      startupProbe: execProbe("up", { failureThreshold: 30 }),
      livenessProbe: execProbe("up", { failureThreshold: 1 }),
    };
    const { harness } = await runProbed(probes, ["up"]);
    await harness.advance("280s");
    setExitCode(harness, "up", 0);
    await harness.advance("15s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
    setExitCode(harness, "up", 1);
    await harness.advance("10s");
    expect(await restartCountOf(harness)).toBe(1);
  });

  test("a startup probe that never succeeds kills the container after failureThreshold times periodSeconds", async () => {
    const { harness, expectTimeline } = await runTimedProbed(
      { startupProbe: execProbe("up", { failureThreshold: 30 }) },
      ["up"],
    );
    await harness.advance("5m");
    await expectTimeline(/stopped/, ["300s a stopped"]);
  });
});

describeSection("When should you use a liveness probe?", () => {
  test("a process that crashes is restarted without a liveness probe", async () => {
    const { harness } = await runPod();
    await harness.advance("20s");
    await harness.exit("a", 1);
    await harness.advance("1s");
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running (restarts: 1)"]);
  });

  test.each(["Always", "OnFailure"] as const)("with %s a liveness failure restarts", async (restartPolicy) => {
    const livenessProbe = execProbe("alive", { failureThreshold: 1 });
    const { harness, expectTimeline } = await runTimedProbed({ livenessProbe }, ["alive"], { restartPolicy });
    await harness.advance("10s");
    await expectTimeline(/ a (started|stopped)/, ["0s a started", "10s a stopped", "10s a started"], {
      to: 3,
    });
  });

  test("with a higher failureThreshold for liveness the pod is not ready for a while before it is killed", async () => {
    const probes = {
      readinessProbe: execProbe("health", { failureThreshold: 1 }),
      livenessProbe: execProbe("health", { failureThreshold: 4 }),
    };
    const { harness } = await runProbed(probes, [], {}, { regressions: unreadyByProbe });
    await harness.advance("5s");
    setExitCode(harness, "health", 1);
    await harness.advance("10s");
    expect(await harness.apiPods()).toEqual(["web Running: a running"]);
    await harness.advance("30s");
    expect(await restartCountOf(harness)).toBe(1);
  });
});

describeSection("When should you use a readiness probe?", () => {
  test("a pod with a readiness probe starts unready and is ready after the first success", async () => {
    const { harness } = await runProbed({ readinessProbe: execProbe("ready", { initialDelaySeconds: 5 }) });
    expect(await readinessOf(harness)).toBe(false);
    await harness.advance("5s");
    expect(await readinessOf(harness)).toBe(true);
  });

  test("a container can make itself unready for maintenance without being restarted", async () => {
    const probes = { readinessProbe: execProbe("maintained"), livenessProbe: execProbe("alive") };
    const { harness } = await runProbed(probes, [], {}, { regressions: unreadyByProbe });
    setExitCode(harness, "maintained", 1);
    await harness.advance("10m");
    expect(await harness.apiPods()).toEqual(["web Running: a running"]);
  });
});

/** Closes the real servers on 127.0.0.1, which answer in real time while the harness's clock stands still. */
const cleanups: (() => void)[] = [];
afterAll(() => {
  for (const end of cleanups) end();
});

async function listen(server: Pick<Server, "listen" | "address" | "close">): Promise<number> {
  cleanups.push(() => server.close());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  return (server.address() as { readonly port: number }).port;
}

const authority = createCertificateAuthority("unknown authority");

/** Starts an HTTP server; `requests` collects its requests. */
async function serveHttp(respond: (request: IncomingMessage, response: ServerResponse) => void, isTls = false) {
  const requests: IncomingMessage[] = [];
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    requests.push(request);
    respond(request, response);
  };
  const tls = () => authority.issue({ commonName: "elsewhere.example", organizations: [] });
  return { port: await listen(isTls ? createHttpsServer(tls(), onRequest) : createServer(onRequest)), requests };
}

const withStatus = (status: number) => (_: IncomingMessage, response: ServerResponse) =>
  void response.writeHead(status).end("body");

/** Real servers answer in real time, also on a busy machine. */
const TIMEOUT_MS = 20_000;
const longTimeout: Probe = { timeoutSeconds: 20 };
setDefaultTimeout(2 * TIMEOUT_MS);

/** Gives the pods the address of this machine. */
async function useThisMachine(harness: AgentHarness): Promise<void> {
  harness.hostIPs = ["127.0.0.1"];
  await harness.disk.at("/").makeFolder("etc", 0o755);
  await harness.disk.at("/").write("etc/hosts", "", 0o644);
}

/** Runs a pod on the host network of this machine and starts its first readiness probe. */
async function runOnNode(readinessProbe: Probe, more: Partial<Container> = {}) {
  const { harness } = await runPod({
    spec: {
      hostNetwork: true,
      containers: [
        container("a", { ...more, readinessProbe: { failureThreshold: 1, ...longTimeout, ...readinessProbe } }),
      ],
    },
    before: useThisMachine,
  });
  await harness.advance("100ms");
  return harness;
}

const waitUntilReady = (harness: AgentHarness) =>
  pollUntil("the pod to be ready", TIMEOUT_MS, async () => (await conditionOf(harness, "Ready"))?.status === "True");
const firstWarning = (harness: AgentHarness) =>
  pollUntil("the event of a probe", TIMEOUT_MS, async () => {
    // Only the tries after the first period cause events, which are sent asynchronously.
    await harness.advance("1s");
    return (await warningsOf(harness))[0];
  });

/** Runs a pod with an HTTP readiness probe, and returns the first request when the pod is ready. */
async function probeHttp(httpGet: Omit<HTTPGetAction, "port">, isTls = false) {
  const { port, requests } = await serveHttp(withStatus(200), isTls);
  const harness = await runOnNode({ httpGet: { port, ...httpGet } });
  await waitUntilReady(harness);
  return requests[0];
}

const grpcHead = { ":status": 200, "content-type": "application/grpc" };

/** Starts a gRPC health server that answers with a status for each service. */
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

describeSection("Check mechanisms", () => {
  test.each([
    [0, true],
    [1, false],
    [126, false],
  ])("exec: exit code %d means success: %p", async (exitCode, isReady) => {
    const { harness } = await runPod({
      spec: { containers: [container("a", { readinessProbe: execProbe("ready") })] },
      before: (made) => setExitCode(made, "ready", exitCode),
    });
    await harness.advance("100ms");
    expect(await readinessOf(harness)).toBe(isReady);
  });

  test("grpc: SERVING is a success, any other status a failure", async () => {
    await waitUntilReady(await runOnNode({ grpc: { port: await serveGrpc(() => 1) } }));
    const harness = await runOnNode({ grpc: { port: await serveGrpc(() => 2) } });
    expect(await firstWarning(harness)).toBe(
      '1x Warning Unhealthy: Readiness probe failed: service unhealthy (responded with "NOT_SERVING")',
    );
  });

  test.each([200, 204, 399])("httpGet: status %d is a success", async (status) => {
    const { port } = await serveHttp(withStatus(status));
    await waitUntilReady(await runOnNode({ httpGet: { port } }));
  });

  test.each([400, 404, 500])("httpGet: status %d is a failure", async (status) => {
    const { port } = await serveHttp(withStatus(status));
    const harness = await runOnNode({ httpGet: { port } });
    expect(await firstWarning(harness)).toBe(
      `1x Warning Unhealthy: Readiness probe failed: HTTP probe failed with statuscode: ${status}`,
    );
  });

  test("tcpSocket: an open port is a success, a closed one a failure", async () => {
    const port = await listen(createTcpServer());
    await waitUntilReady(await runOnNode({ tcpSocket: { port } }));
    const harness = await runOnNode({ tcpSocket: { port: 1 } });
    expect(await firstWarning(harness)).toBe(
      "1x Warning Unhealthy: Readiness probe failed: dial tcp 127.0.0.1:1: connect: connection refused",
    );
  });

  test("tcpSocket: a server that closes the connection at once is a success", async () => {
    const port = await listen(createTcpServer((socket) => socket.on("error", () => undefined).destroy()));
    await waitUntilReady(await runOnNode({ tcpSocket: { port } }));
  });
});

describeSection("Probe results", () => {
  test("a probe that could not be executed has no effect and is repeated", async () => {
    const { harness, commands } = await runProbed({
      livenessProbe: execProbe("alive", { failureThreshold: 1 }),
    });
    harness.runtime.before.execSync = () => Promise.reject(new Error("no such thing"));
    await harness.advance("1m");
    delete harness.runtime.before.execSync;
    expect(await restartCountOf(harness)).toBe(0);
    const before = commands().length;
    await harness.advance("10s");
    expect(commands().length).toBe(before + 1);
    expect((await warningsOf(harness))[0]).toMatch(/Liveness probe errored and resulted in unknown state: /);
  });

  test("httpGet: a truncated response is an error, whatever its status", async () => {
    const port = await listen(
      createTcpServer((socket) => {
        socket.on("error", () => undefined);
        socket.once("data", () => socket.end("HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nabc"));
      }),
    );
    const harness = await runOnNode({ httpGet: { port } });
    expect(await firstWarning(harness)).toBe(
      "1x Warning Unhealthy: Readiness probe errored and resulted in failure state: unexpected EOF",
    );
  });

  test("a container without probes is ready", async () => {
    const { harness } = await runPod();
    expect(await harness.apiPods()).toEqual(["web Running, ready: a running"]);
  });

  test("a container is not ready before the initial delay of its readiness probe", async () => {
    const { harness } = await runProbed({ readinessProbe: execProbe("ready", { initialDelaySeconds: 30 }) });
    await harness.advance("29s");
    expect((await conditionOf(harness, "Ready"))?.status).toBe("False");
  });
});

describeSection("Configuration fields", () => {
  test("initialDelaySeconds: the first probe runs this long after the start, by default at once", async () => {
    for (const [delay, first] of [
      [undefined, 0],
      [4, 4],
    ] as const) {
      const probe = execProbe("ready", delay === undefined ? {} : { initialDelaySeconds: delay });
      const { harness } = await runProbed({ readinessProbe: probe });
      expect((await probedSeconds(harness, "ready", 8))[0]).toBe(first);
    }
  });

  test("initialDelaySeconds: liveness starts only after the startup probe succeeded, also with a shorter delay", async () => {
    const probes = {
      startupProbe: execProbe("up", { periodSeconds: 5, failureThreshold: 10 }),
      livenessProbe: execProbe("alive", { initialDelaySeconds: 2 }),
    };
    const { harness } = await runProbed(probes, ["up"]);
    await harness.advance("12s");
    setExitCode(harness, "up", 0);
    expect(await probedSeconds(harness, "alive", 15)).toEqual([13]);
  });

  test("initialDelaySeconds: the delay holds also if the period is longer", async () => {
    const probe = execProbe("ready", { initialDelaySeconds: 3, periodSeconds: 20 });
    const { harness } = await runProbed({ readinessProbe: probe });
    expect(await probedSeconds(harness, "ready", 30)).toEqual([3, 23]);
  });

  test("periodSeconds: the default is ten seconds", async () => {
    const { harness } = await runProbed({ readinessProbe: execProbe("ready") });
    expect(await probedSeconds(harness, "ready", 25)).toEqual([0, 10, 20]);
  });

  test("periodSeconds: readiness is probed at once after the startup probe succeeded, whatever the period", async () => {
    const probes = {
      startupProbe: execProbe("up", { periodSeconds: 1, failureThreshold: 60 }),
      readinessProbe: execProbe("ready", { periodSeconds: 60 }),
    };
    const { harness } = await runProbed(probes, ["up"]);
    await harness.advance("5s");
    setExitCode(harness, "up", 0);
    await harness.advance("1s");
    expect(await readinessOf(harness)).toBe(true);
  });

  test("timeoutSeconds: a longer probe fails; the default is one second", async () => {
    for (const [timeout, seconds] of [
      [{}, 1],
      [{ timeoutSeconds: 3 }, 3],
    ] as const) {
      const { harness } = await runPod({
        spec: {
          containers: [container("a", { livenessProbe: execProbe("slow", { ...timeout, failureThreshold: 1 }) })],
        },
        before: (made) => void made.runtime.commands.set("slow", { lastsMs: 60_000 }),
      });
      await harness.advance(`${10 + seconds}s`);
      expect(await warningsOf(harness)).toEqual([
        `1x Warning Unhealthy: Liveness probe failed: command timed out: "slow" timed out after ${seconds}s`,
      ]);
    }
  });

  test("successThreshold: a container is ready again after this many successes in a row", async () => {
    const probe = execProbe("ready", { periodSeconds: 1, successThreshold: 3, failureThreshold: 1 });
    const { harness } = await runProbed({ readinessProbe: probe }, ["ready"]);
    await harness.advance("5s");
    setExitCode(harness, "ready", 0);
    await harness.advance("2s");
    expect(await readinessOf(harness)).toBe(false);
    await harness.advance("1s");
    expect(await readinessOf(harness)).toBe(true);
  });

  test("failureThreshold: the default is three failures in a row", async () => {
    const { harness } = await runProbed(
      { readinessProbe: execProbe("ready", { periodSeconds: 1 }) },
      [],
      {},
      { regressions: unreadyByProbe },
    );
    setExitCode(harness, "ready", 1);
    await harness.advance("2s");
    expect(await readinessOf(harness)).toBe(true);
    await harness.advance("1s");
    expect(await readinessOf(harness)).toBe(false);
  });

  test("failureThreshold: a liveness failure restarts only the failing container", async () => {
    const { harness } = await runPod({
      spec: {
        containers: [container("a", { livenessProbe: execProbe("alive", { failureThreshold: 1 }) }), container("b")],
      },
      before: (made) => setExitCode(made, "alive", 1),
    });
    await harness.advance("1m");
    expect((await containerOf(harness, "b")).restartCount).toBe(0);
    expect(await restartCountOf(harness)).toBeGreaterThan(0);
  });

  test("failureThreshold: a readiness failure keeps the container running and probed, with Ready False", async () => {
    const { harness, commands } = await runProbed({ readinessProbe: execProbe("ready", { periodSeconds: 1 }) }, [
      "ready",
    ]);
    await harness.advance("1m");
    expect(commands().length).toBeGreaterThanOrEqual(60);
    expect(await harness.apiPods()).toEqual(["web Running: a running"]);
    expect(await conditionOf(harness, "Ready")).toMatchObject({ status: "False", reason: "ContainersNotReady" });
  });

  test("terminationGracePeriodSeconds: the default is the pod's, or thirty seconds", async () => {
    for (const [pod, seconds] of [
      [{}, 30],
      [{ terminationGracePeriodSeconds: 12 }, 12],
    ] as const) {
      const livenessProbe = execProbe("alive", { failureThreshold: 1 });
      const { harness } = await runProbed({ livenessProbe }, ["alive"], pod);
      await harness.advance("10s");
      expect(harness.runtime.calls).toContain(`stopContainer default/web/a #0 within ${seconds}s`);
    }
  });
});

describeSection("Probe-level terminationGracePeriodSeconds", () => {
  test.each(["livenessProbe", "startupProbe"] as const)(
    "%s: its own grace period overrides the pod's",
    async (kind) => {
      const probe = execProbe("well", { failureThreshold: 1, terminationGracePeriodSeconds: 60 });
      const { harness } = await runProbed({ [kind]: probe }, ["well"], { terminationGracePeriodSeconds: 3600 });
      await harness.advance("10s");
      expect(harness.runtime.calls).toContain("stopContainer default/web/a #0 within 60s");
    },
  );
});

describeSection("HTTP probes", () => {
  test("the request is a GET to the pod's address with the two standard headers; the default path is /", async () => {
    const request = await probeHttp({});
    expect([request?.method, request?.url]).toEqual(["GET", "/"]);
    expect(request?.headers).toEqual({
      host: expect.stringMatching(/^127\.0\.0\.1:\d+$/),
      "user-agent": "kube-probe/1.36",
      accept: "*/*",
      connection: "close",
    });
  });

  test("host, path and a named port come from the spec", async () => {
    const { port, requests } = await serveHttp(withStatus(200));
    const httpGet = { host: "localhost", path: "/healthz?full=1", port: "web" };
    const harness = await runOnNode({ httpGet }, { ports: [{ name: "web", containerPort: port }] });
    await waitUntilReady(harness);
    expect([requests[0]?.url, requests[0]?.headers.host]).toEqual(["/healthz?full=1", `localhost:${port}`]);
  });

  test("an HTTPS probe does not verify the certificate", async () => {
    expect((await probeHttp({ scheme: "HTTPS" }, true))?.url).toBe("/");
  });

  test("a header can be repeated", async () => {
    const httpHeaders = ["one", "two"].map((value) => ({ name: "X-Asked", value }));
    expect((await probeHttp({ httpHeaders }))?.headers["x-asked"]).toBe("one, two");
  });

  test("a Host header selects a virtual host", async () => {
    const httpHeaders = [{ name: "Host", value: "shop.example" }];
    expect((await probeHttp({ httpHeaders }))?.headers.host).toBe("shop.example");
  });

  test("the standard headers can be overridden and removed", async () => {
    const other = await probeHttp({ httpHeaders: [{ name: "Accept", value: "application/json" }] });
    expect(other?.headers).toMatchObject({ accept: "application/json", "user-agent": "kube-probe/1.36" });
    const none = await probeHttp({
      httpHeaders: [
        { name: "Accept", value: "" },
        { name: "User-Agent", value: "" },
      ],
    });
    expect(Object.keys(none?.headers ?? {}).toSorted()).toEqual(["connection", "host"]);
  });
});

describeSection("Redirect handling", () => {
  test("a redirect to the same host is followed, also to HTTPS", async () => {
    const tls = await serveHttp(withStatus(200), true);
    const { port } = await serveHttp((_, response) =>
      response.writeHead(302, { location: `https://127.0.0.1:${tls.port}/secure` }).end(),
    );
    await waitUntilReady(await runOnNode({ httpGet: { port } }));
    expect(tls.requests.map(({ url }) => url)).toEqual(["/secure"]);
  });

  test("a redirect to another host is not followed and is a success with a warning event", async () => {
    const { port, requests } = await serveHttp((_, response) =>
      response.writeHead(302, { location: `http://localhost:1/` }).end("gone there"),
    );
    const harness = await runOnNode({ httpGet: { port } });
    await waitUntilReady(harness);
    expect(await firstWarning(harness)).toBe(
      "1x Warning ProbeWarning: Readiness probe warning: Probe terminated redirects, Response body: gone there",
    );
    expect(requests).toHaveLength(1);
  });

  test("an endless redirect fails after ten redirects", async () => {
    const { port } = await serveHttp((_, response) => response.writeHead(302, { location: "/" }).end());
    const harness = await runOnNode({ httpGet: { port } });
    expect(await firstWarning(harness)).toBe(
      `1x Warning Unhealthy: Readiness probe failed: Get "http://127.0.0.1:${port}/": stopped after 10 redirects`,
    );
  });

  test("a long body does not affect the result: only the status counts", async () => {
    const body = "x".repeat(1_000_000);
    const { port } = await serveHttp((_, response) => response.writeHead(200).end(body));
    await waitUntilReady(await runOnNode({ httpGet: { port } }));
  });
});

describeSection("TCP probes", () => {
  test("the node opens the connection: it resolves localhost, but not the name of a Service", async () => {
    const port = await listen(createTcpServer());
    await waitUntilReady(await runOnNode({ tcpSocket: { host: "localhost", port } }));
    const harness = await runOnNode({
      tcpSocket: { host: "shop.default.svc.cluster.invalid", port },
      timeoutSeconds: 1,
    });
    expect(await firstWarning(harness)).toMatch(/^1x Warning Unhealthy: Readiness probe failed: dial tcp/);
  });
});

describeSection("gRPC probes", () => {
  test.each(["startupProbe", "livenessProbe", "readinessProbe"] as const)("%s can be a gRPC probe", async (kind) => {
    const port = await serveGrpc(() => 1);
    const { harness } = await runPod({
      spec: { hostNetwork: true, containers: [container("a", { [kind]: { grpc: { port }, ...longTimeout } })] },
      before: useThisMachine,
    });
    await harness.advance("100ms");
    await waitUntilReady(harness);
  });

  test("one server can answer differently for each service", async () => {
    const port = await serveGrpc((service) => (service === "web-readiness" ? 1 : 2));
    await waitUntilReady(await runOnNode({ grpc: { port, service: "web-readiness" } }));
    const harness = await runOnNode({ grpc: { port, service: "web-liveness" } });
    expect(await firstWarning(harness)).toContain('responded with "NOT_SERVING"');
  });

  test("a server without the health protocol or the service is a failure", async () => {
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

describeSection("Define a liveness command", () => {
  test("the pod's events report the failure and the kill", async () => {
    const { harness } = await runProbed({
      livenessProbe: execProbe("alive", { failureThreshold: 1, initialDelaySeconds: 5 }),
    });
    expect(await warningsOf(harness)).toEqual([]);
    setExitCode(harness, "alive", 1);
    await harness.advance("16s");
    expect((await harness.events("web")).filter((line) => /Unhealthy|Killing/.test(line))).toEqual([
      "1x Warning Unhealthy: Liveness probe failed: unhealthy",
      "1x Normal Killing: Container a failed liveness probe, will be restarted",
    ]);
  });
});

describeSection("Define readiness probes", () => {
  test("a pod is ready when all its containers are, including sidecars", async () => {
    const { harness } = await runPod({
      spec: {
        initContainers: [sidecar("proxy", { readinessProbe: execProbe("proxied") })],
        containers: [container("a", { readinessProbe: execProbe("ready") }), container("b")],
      },
      before: (made) => {
        setExitCode(made, "ready", 1);
        setExitCode(made, "proxied", 1);
      },
    });
    const seen: (string | undefined)[] = [];
    for (const command of ["", "ready", "proxied"]) {
      setExitCode(harness, command, 0);
      await harness.advance("10s");
      seen.push((await conditionOf(harness, "Ready"))?.status);
    }
    expect(seen).toEqual(["False", "False", "True"]);
  });
});
