import type { ProcessStreams, Runtime } from "../../../cri/runtime.ts";
import type { ContainerId } from "../../../proto/ids.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { ApiError } from "../api/api-error.ts";
import type { ApiRequest, ApiResponse, Route, UpgradeRequest } from "../api/route.ts";
import { WEBSOCKET_PROTOCOL } from "./exec-websocket.ts";
import { isWebSocket, proxyUpgrade, type SessionDeps, tunnelUpgrade, upgradeExecWebSocket } from "./proxy.ts";
import { type FindPod, findReadySandbox, findRunningContainer, fullNameOf, requirePod } from "./running-pod.ts";
import { proxyError, throwAsApiError, throwAsServerError } from "./runtime-error.ts";
import type { SessionLimit } from "./session-limit.ts";
import { parsePorts, parseStreams } from "./stream-options.ts";
import { tunneledProtocols } from "./tunnel.ts";
import { offeredProtocols } from "./websocket/handshake.ts";

export interface StreamingDeps extends SessionDeps {
  readonly runtime: Pick<Runtime, "exec" | "attach" | "portForward" | "execSync" | "listContainers" | "listPodSandbox">;
  readonly findPod: FindPod;
  readonly sessionLimit: SessionLimit;
  /** The gate `ExtendWebSocketsToKubelet`: this agent, not the API server, translates what runtimes do not speak. */
  readonly translatesWebSockets: boolean;
}

/** What exec and attach differ in. */
interface ProcessSession {
  /** The text of the error if no such container runs. */
  readonly notFound: (pod: Pod, container: string) => string;
  /** Asks the runtime for a session. Resolves with the URL at its streaming server. */
  readonly prepare: (id: ContainerId, request: SessionRequest, streams: ProcessStreams) => Promise<string>;
}

type SessionRequest = Pick<ApiRequest, "params" | "query" | "signal"> & { readonly pod: Pod };

/** A route for sessions. */
export interface StreamingRoute extends Route {
  readonly upgrade: NonNullable<Route["upgrade"]>;
}

/** The endpoint exec, with `{container}` in its pattern. The text for a container that does not run is the kubelet's by default. */
export function execRoute(
  pattern: string,
  deps: StreamingDeps,
  notFound: ProcessSession["notFound"] = (_pod, container) => `container not found (${JSON.stringify(container)})`,
): StreamingRoute {
  const { runtime } = deps;
  const exec: ProcessSession = {
    notFound,
    prepare: (id, { query, signal }, streams) => runtime.exec(id, query.getAll("command"), streams, { signal }),
  };
  return processRoute(pattern, exec, deps);
}

/** The endpoints exec, attach, portForward and run. */
export function createStreamingRoutes(deps: StreamingDeps): readonly Route[] {
  const { runtime } = deps;
  const attach: ProcessSession = {
    notFound: (pod, container) => `container ${container} not found in pod ${fullNameOf(pod)}`,
    prepare: (id, { pod, params, signal }, streams) =>
      // A process that has started keeps its kind of terminal.
      runtime.attach(id, { ...streams, tty: hasTerminal(pod, params["container"]) }, { signal }),
  };
  return [
    ...withUid("/exec/{namespace}/{pod}", "/{container}", (pattern) => execRoute(pattern, deps)),
    ...withUid("/attach/{namespace}/{pod}", "/{container}", (pattern) => processRoute(pattern, attach, deps)),
    ...withUid("/portForward/{namespace}/{pod}", "", (pattern) => portForwardRoute(pattern, deps)),
    ...withUid("/run/{namespace}/{pod}", "/{container}", (pattern) => runRoute(pattern, deps)),
  ];
}

function withUid(pod: string, rest: string, route: (pattern: string) => Route): readonly Route[] {
  return [route(`${pod}${rest}`), route(`${pod}/{uid}${rest}`)];
}

const SESSION_METHODS = ["GET", "POST"];

function processRoute(pattern: string, session: ProcessSession, deps: StreamingDeps): StreamingRoute {
  /** Checks the request in the kubelet's order. */
  async function findContainer(request: ApiRequest | UpgradeRequest) {
    const streams = parseStreams(request.query);
    const pod = requirePod(deps.findPod, request.params);
    const id = await findRunningContainer(deps.runtime, pod, request.params).catch(throwAsApiError);
    if (id === undefined) throw new ApiError(500, session.notFound(pod, request.params["container"] ?? ""));
    return { id, streams, pod };
  }
  return {
    pattern,
    methods: SESSION_METHODS,
    async handle(request) {
      await findContainer(request);
      throw upgradeRequired();
    },
    async upgrade(request) {
      requireConnectionUpgrade(request);
      const { id, streams, pod } = await findContainer(request);
      await deps.sessionLimit.run(async () => {
        const url = await session.prepare(id, { ...request, pod }, streams).catch(throwAsApiError);
        const isTranslated = deps.translatesWebSockets && isWebSocket(request) && offersV5(request);
        if (isTranslated) await upgradeExecWebSocket(request, url, streams, deps);
        else await proxyUpgrade(request, url, deps);
      });
    },
  };
}

/** A request whose header `Upgrade` is not part of its `Connection` asks for nothing. */
function requireConnectionUpgrade({ headers }: UpgradeRequest): void {
  if (!(headers.connection ?? "").toLowerCase().includes("upgrade")) throw upgradeRequired();
}

const upgradeRequired = () => proxyError("Upgrade request required");

function hasTerminal({ spec }: Pod, name: string | undefined): boolean {
  return allContainers(spec).find((container) => container.name === name)?.tty === true;
}

const offersV5 = (request: UpgradeRequest) => offeredProtocols(request).includes(WEBSOCKET_PROTOCOL);

function portForwardRoute(pattern: string, deps: StreamingDeps): Route {
  async function findSandbox({ params }: ApiRequest | UpgradeRequest) {
    const pod = requirePod(deps.findPod, params);
    if (params["uid"] !== undefined && params["uid"] !== pod.metadata.uid) throw new ApiError(404, "pod not found");
    const id = await findReadySandbox(deps.runtime, pod).catch(throwAsApiError);
    if (id === undefined) throw new ApiError(500, `pod not found (${JSON.stringify(fullNameOf(pod))})`);
    return id;
  }
  return {
    pattern,
    methods: SESSION_METHODS,
    async handle(request) {
      await findSandbox(request);
      throw upgradeRequired();
    },
    async upgrade(request) {
      requireConnectionUpgrade(request);
      const tunneled = isWebSocket(request) ? tunneledProtocols(offeredProtocols(request)) : [];
      const isTunnel = deps.translatesWebSockets && tunneled.length > 0;
      const ports = isWebSocket(request) && !isTunnel ? parsePorts(request.query) : [];
      const id = await findSandbox(request);
      await deps.sessionLimit.run(async () => {
        const url = await deps.runtime.portForward(id, ports, { signal: request.signal }).catch(throwAsApiError);
        if (isTunnel) await tunnelUpgrade(request, url, tunneled, deps);
        else await proxyUpgrade(request, url, deps);
      });
    },
  };
}

/** Runs a command to its end, and answers with its output. Rule: getRun, with the words of `cmd` separated by spaces. */
function runRoute(pattern: string, { runtime, findPod, sessionLimit }: StreamingDeps): Route {
  async function handle(request: ApiRequest, response: ApiResponse): Promise<void> {
    const { params, query, signal } = request;
    const pod = requirePod(findPod, params);
    const id = await findRunningContainer(runtime, pod, params).catch(throwAsApiError);
    if (id === undefined) throw new ApiError(500, `container not found (${JSON.stringify(params["container"] ?? "")})`);
    const cmd = (query.get("cmd") ?? "").split(" ");
    const noDeadline = { signal, deadlineMs: Number.POSITIVE_INFINITY };
    const { stdout, stderr, exitCode } = await sessionLimit.run(() =>
      runtime.execSync(id, cmd, 0, noDeadline).catch(throwAsServerError),
    );
    // The kubelet's text for an exit code.
    if (exitCode !== 0)
      throw new ApiError(500, `command '${cmd.join(" ")}' exited with ${exitCode}: ${Buffer.from(stderr).toString()}`);
    response.start(200, { "content-type": "application/json" });
    response.end(Buffer.concat([stdout, stderr]));
  }
  return { pattern, methods: ["POST"], handle };
}
