import { mkdtemp, rm } from "node:fs/promises";
import { type AddressInfo, createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
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
import type { ContainerId } from "../../proto/ids.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { podUidLabel } from "../../proto/kubernetes/well-known-names.ts";
import { type Containerd, type ContainerdVersion, startContainerd } from "../bed/containerd/containerd.ts";
import { busyboxImage, importImages } from "../bed/images/images.ts";
import { FakeLog } from "../fakes/log.ts";
import { type RouteServer, startRouteServer } from "../fakes/route-server.ts";

const NAMES: readonly string[] = ["main", "shell"];

/** The routes of streaming on a containerd that runs the pods `default/web` and `default/host`. */
export interface StreamingFixture {
  readonly port: number;
  readonly echoPort: number;
  readonly server: RouteServer;
  readonly runtime: CriRuntime;
  readonly containerdPid: number;
  /** The open connections of the echo server. */
  echoConnections(): Promise<number>;
  /** The command lines of the processes of the pod `web`, sorted. */
  processes(): Promise<readonly string[]>;
  end(): Promise<void>;
}

/** Starts containerd and the pods, an echo server, and a server of the routes. */
export async function startStreamingFixture(version: ContainerdVersion): Promise<StreamingFixture> {
  const stateDir = await mkdtemp(join(tmpdir(), "berth-streaming-"));
  const containerd = await startContainerd({ version, stateDir });
  await importImages(containerd);
  const clock = createClock();
  const runtimeOptions = { endpoint: containerd.endpoint, requestTimeoutMs: 120_000, random: Math.random };
  const runtime = createRuntime({ ...runtimeOptions, clock, log: new FakeLog() });
  const mainId = await runPod(runtime, stateDir);
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
    containerdPid: containerd.pid,
    echoConnections: () => promisify(echo.getConnections.bind(echo))(),
    async processes() {
      const command = ["ps", "-o", "args"];
      const { stdout } = await runtime.execSync(mainId, command, 60);
      const lines = Buffer.from(stdout).toString().split("\n").slice(1);
      return lines.filter((line) => line !== command.join(" ")).toSorted();
    },
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

/** Runs the pod `default/web`, and returns the id of its container `main`. */
async function runPod(runtime: CriRuntime, stateDir: string): Promise<ContainerId> {
  const config = sandboxConfig("web", stateDir, {});
  const sandbox = await runtime.runPodSandbox(config, "");
  const ids: ContainerId[] = [];
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
    const id = await runtime.createContainer(sandbox, container, config);
    await runtime.startContainer(id);
    ids.push(id);
  }
  const [mainId] = ids;
  if (mainId === undefined) throw new Error("the pod has no container main");
  return mainId;
}
