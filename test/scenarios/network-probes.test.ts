// Probes that go over the network, asked of real servers of this machine: whatever call the agent dies after, what waits for an answer
// begins behind it, and once.
import { afterAll, beforeAll, expect } from "bun:test";
import { createServer as createHttpServer } from "node:http";
import { createServer as createHttp2Server, type ServerHttp2Stream } from "node:http2";
import { createServer as createTcpServer, type Server } from "node:net";
import type { Probe } from "../../proto/kubernetes/gen/types.ts";
import { until } from "../bed/poll-until.ts";
import { makePod, type Stage } from "./harness.ts";
import { linesOf, scenario } from "./scenario.ts";

/** Real servers answer in real time, and a machine may be busy with other things. */
const PATIENCE_MS = 20_000;

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
  ["httpGet", createHttpServer((_, answer) => void answer.end()), (port) => ({ httpGet: { port, path: "/well" } })],
  ["tcpSocket", createTcpServer((socket) => void socket.end()), (port) => ({ tcpSocket: { port } })],
  ["grpc", createGrpcServer(), (port) => ({ grpc: { port } })],
];
beforeAll(async () => {
  for (const [, server] of kinds) await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
});
afterAll(() => {
  for (const [, server] of kinds) server.close();
});

/** The node is this machine, as far as its pods are asked. */
async function onThisMachine(stage: Stage): Promise<void> {
  stage.hostIPs = ["127.0.0.1"];
  await stage.disk.at("/").makeFolder("etc", 0o755);
  await stage.disk.at("/").write("etc/hosts", "", 0o644);
}

for (const [kind, server, ask] of kinds)
  scenario(
    `a sidecar that is asked by ${kind} holds up those behind it until it has answered`,
    {
      before: onThisMachine,
      async run(stage) {
        const { port } = server.address() as { readonly port: number };
        const image = "busybox:1";
        const startupProbe = { ...ask(port), periodSeconds: 1, timeoutSeconds: 60, failureThreshold: 1000 };
        const initContainers = [{ name: "proxy", image, restartPolicy: "Always" as const, startupProbe }];
        await stage.offer(makePod("web", { hostNetwork: true, initContainers }));
        await until("the pod to run", PATIENCE_MS, async () => {
          await stage.advance("250ms");
          return stage.pods()[0]?.status.phase === "Running";
        });
        await stage.advance("5s");
      },
    },
    (story) => {
      const lines = linesOf(story, /: (create|start|stop)|says/).replaceAll(/^\d+s web: /gm, "");
      expect(lines.split("\n")).toEqual([
        "create container proxy (attempt 0): it has not run yet",
        "start container proxy (attempt 0)",
        "the startup probe of container proxy says success",
        "create container a (attempt 0): it has not run yet",
        "start container a (attempt 0)",
      ]);
    },
  );
