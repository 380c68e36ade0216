// Startup probes over the network, against real servers on this machine: the next container waits for the first
// success, also after the agent dies after any of its calls.
import { afterAll, beforeAll, expect, test } from "bun:test";
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import { createServer as createTcpServer, type Server } from "node:net";
import type { Probe } from "../../proto/kubernetes/gen/types.ts";
import { pollUntil } from "../bed/poll-until.ts";
import { type AgentHarness, createHarness, makePod } from "./harness.ts";
import { filterLines, scenario } from "./scenario.ts";

/** Real servers answer in real time, also on a busy machine. */
const TIMEOUT_MS = 20_000;

function createGrpcServer() {
  const server = createHttp2Server();
  server.on("stream", (stream: ServerHttp2Stream) => {
    stream.once("data", () => {
      stream.respond({ ":status": 200, "content-type": "application/grpc" }, { waitForTrailers: true });
      stream.once("wantTrailers", () => stream.sendTrailers({ "grpc-status": "0" }));
      // SERVING
      stream.end(Buffer.from([0, 0, 0, 0, 2, 8, 1]));
    });
  });
  return server;
}

const kinds: readonly [
  kind: string,
  server: Pick<Server, "listen" | "close" | "address">,
  ask: (port: number) => Probe,
][] = [
  ["httpGet", createHttpServer((_, answer) => void answer.end()), (port) => ({ httpGet: { port, path: "/healthz" } })],
  ["tcpSocket", createTcpServer((socket) => void socket.end()), (port) => ({ tcpSocket: { port } })],
  ["grpc", createGrpcServer(), (port) => ({ grpc: { port } })],
];
beforeAll(async () => {
  for (const [, server] of kinds) await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
});
afterAll(() => {
  for (const [, server] of kinds) server.close();
});

/** Gives the pods the address of this machine. */
async function useThisMachine(harness: AgentHarness): Promise<void> {
  harness.hostIPs = ["127.0.0.1"];
  await harness.disk.at("/").makeFolder("etc", 0o755);
  await harness.disk.at("/").write("etc/hosts", "", 0o644);
}

for (const [kind, server, buildProbe] of kinds)
  scenario(
    `a sidecar with a ${kind} startup probe delays the next container until the probe succeeds`,
    {
      before: useThisMachine,
      async run(harness) {
        const { port } = server.address() as { readonly port: number };
        const image = "busybox:1";
        const startupProbe = { ...buildProbe(port), periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1000 };
        const initContainers = [{ name: "proxy", image, restartPolicy: "Always" as const, startupProbe }];
        await harness.setManifests(makePod("web", { hostNetwork: true, initContainers }));
        await pollUntil("the pod to run", TIMEOUT_MS, async () => {
          await harness.advance("250ms");
          return harness.podReports()[0]?.status.phase === "Running";
        });
        await harness.advance("5s");
      },
    },
    (log) => {
      const lines = filterLines(log, /: (create container|start|stop)|now returns/).replaceAll(/^\d+s web: /gm, "");
      expect(lines.split("\n")).toEqual([
        "create container proxy (attempt 0): it has not run yet",
        "start container proxy (attempt 0)",
        "the startup probe of container proxy now returns success",
        "create container a (attempt 0): it has not run yet",
        "start container a (attempt 0)",
      ]);
    },
  );

test("a probe that succeeds with a warning records an event, and is not reported as a failure", async () => {
  // A redirect without a Location.
  const server = createHttpServer((_, answer) => void answer.writeHead(302).end());
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const { port } = server.address() as { readonly port: number };
  const harness = await createHarness({ isInCluster: true });
  await useThisMachine(harness);
  await harness.start();
  const readinessProbe = { httpGet: { port, path: "/" }, periodSeconds: 1, timeoutSeconds: 60 };
  await harness.apply("web", { hostNetwork: true, containers: [{ name: "a", image: "busybox:1", readinessProbe }] });
  await pollUntil("the warning", TIMEOUT_MS, async () => {
    await harness.advance("250ms");
    return (await harness.events("web")).some((line) => line.includes("ProbeWarning"));
  });
  server.close();
  expect(harness.podReports().flatMap(({ probeFailures }) => probeFailures)).toEqual([]);
});
