import { onAbort } from "../../../host/async/abort.ts";
import type { Clock } from "../../../host/clock.ts";
import { toFilesError } from "../../../host/fs/files.ts";
import { ApiError } from "../api/api-error.ts";
import type { AgentCommandLine } from "./agent-command-line.ts";
import type { AgentStatus } from "./agent-status.ts";
import type { PodExplanation } from "./explain/pod-explanation.ts";
import type { LocalLogsRequest } from "./local-logs.ts";
import type { PodListing } from "./pod-list.ts";
import { listenForRoot } from "./root-socket.ts";
import type { VolumeListing } from "./volume-list.ts";

export interface LocalServerOptions {
  /** The path of the socket. */
  readonly path: string;
  readonly clock: Clock;
  readonly pods: () => PodListing;
  readonly status: () => AgentStatus;
  readonly commandLine: AgentCommandLine;
  /** Explains a pod. Throws `ApiError` 404 with what is wrong if there is none. */
  readonly explain: (namespace: string, name: string) => PodExplanation;
  /** Measures the volumes of all pods. Never rejects. */
  readonly volumes: () => Promise<VolumeListing>;
  /** Answers `berth logs`. */
  readonly logs: (request: LocalLogsRequest) => Promise<Response>;
  /** Calls `changed` after each change; returns the function that unsubscribes. */
  readonly subscribe: (changed: () => void) => () => void;
}

export interface LocalServer {
  stop(): Promise<void>;
}

interface ListenOptions {
  readonly unix: string;
  readonly fetch: (request: Request) => Response | Promise<Response>;
}

/** A watch gets one line for a burst of changes within this time. */
const COALESCE_MS = 50;

/**
 * A watch is silent while nothing changes, so idle connections must not time out. Bun's `server.timeout` of a request
 * does not apply to a streamed response, so this is set for the whole server. Bun's types allow the option only for
 * ports, but it works for sockets.
 */
const neverIdle = { idleTimeout: 0 };

/**
 * Serves the commands of this machine on a unix socket that only root may open: `GET /pods` returns the list as
 * JSON, `GET /pods?watch` one line of JSON at once and after each change, `GET /status` the agent's own state, `GET
 * /volumes` the figures of all volumes, `GET /logs/NAMESPACE/POD` the log of a container, `GET /command-line` how the agent was started,
 * `GET /explain?namespace=…&name=…` how a pod has started. Throws `FilesError` if the socket cannot be created.
 */
export function serveLocal(settings: LocalServerOptions): LocalServer {
  const { path } = settings;
  const options: ListenOptions = { ...neverIdle, unix: path, fetch: (request) => respond(request, settings) };
  try {
    const server = listenForRoot(path, () => Bun.serve(options));
    return { stop: () => server.stop(true) };
  } catch (error) {
    throw toFilesError(path, error);
  }
}

function respond(request: Request, settings: LocalServerOptions): Response | Promise<Response> {
  const { pathname, searchParams } = new URL(request.url);
  if (request.method === "GET" && pathname === "/status") return Response.json(settings.status());
  if (request.method === "GET" && pathname === "/command-line") return Response.json(settings.commandLine);
  if (request.method === "GET" && pathname === "/explain") return explain(searchParams, settings);
  if (request.method === "GET" && pathname === "/volumes")
    return settings.volumes().then((listing) => Response.json(listing));
  const [, namespace, pod] = /^\/logs\/([^/]+)\/([^/]+)$/.exec(pathname) ?? [];
  if (request.method === "GET" && namespace !== undefined && pod !== undefined)
    return settings.logs({
      namespace: decodeURIComponent(namespace),
      pod: decodeURIComponent(pod),
      query: searchParams,
      signal: request.signal,
    });
  if (request.method !== "GET" || pathname !== "/pods") return new Response("not found\n", { status: 404 });
  if (!searchParams.has("watch")) return Response.json(settings.pods());
  return new Response(watchPods(settings, request.signal), { headers: { "content-type": "application/x-ndjson" } });
}

function explain(query: URLSearchParams, settings: LocalServerOptions): Response {
  try {
    return Response.json(settings.explain(query.get("namespace") ?? "", query.get("name") ?? ""));
  } catch (error) {
    if (error instanceof ApiError) return new Response(error.message, { status: error.status });
    throw error;
  }
}

function watchPods({ clock, pods, subscribe }: LocalServerOptions, signal: AbortSignal): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let end = () => {};
  /** A slow reader gets no backlog: it receives the latest listing when it reads again. */
  let isBehind = false;
  function send(controller: ReadableStreamDefaultController<Uint8Array>): void {
    isBehind = (controller.desiredSize ?? 0) <= 0;
    if (!isBehind) controller.enqueue(encoder.encode(`${JSON.stringify(pods())}\n`));
  }
  return new ReadableStream({
    start(controller) {
      let cancel: (() => void) | undefined;
      const unsubscribe = subscribe(() => {
        cancel ??= clock.wakeAt(clock.now() + COALESCE_MS, () => {
          cancel = undefined;
          send(controller);
        });
      });
      end = () => {
        unsubscribe();
        cancel?.();
      };
      onAbort(signal, () => end());
      send(controller);
    },
    pull(controller) {
      if (isBehind) send(controller);
    },
    cancel: () => end(),
  });
}
