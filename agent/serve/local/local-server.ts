import { unlinkSync } from "node:fs";
import type { Clock } from "../../../host/clock.ts";
import { toFilesError } from "../../../host/fs/files.ts";
import type { AgentStatus } from "./agent-status.ts";
import type { PodListing } from "./pod-list.ts";

export interface LocalServerSettings {
  /** The path of the socket. */
  readonly path: string;
  readonly clock: Clock;
  readonly pods: () => PodListing;
  readonly status: () => AgentStatus;
  /** Calls back after a change; the function it returns ends that. */
  readonly subscribe: (changed: () => void) => () => void;
}

export interface LocalServer {
  stop(): Promise<void>;
}

interface ListenOptions {
  readonly unix: string;
  readonly fetch: (request: Request) => Response;
}

/** A burst of changes is one line to whoever watches. */
const COALESCE_MS = 50;

/**
 * Whoever watches hears nothing for as long as nothing happens. A request's own `server.timeout` does not reach an answer that
 * is streamed, so it is said for all of the server; bun's types have this option for ports alone, but it counts for sockets too.
 */
const neverIdle = { idleTimeout: 0 };

/**
 * Answers `berth pods` and `berth status` on a unix socket that only root may open: `GET /pods` is the list as JSON,
 * `GET /pods?watch` a line of it at once and after each change, `GET /status` the agent's own state as JSON. Throws `FilesError`
 * where there can be no such socket.
 */
export function serveLocal(settings: LocalServerSettings): LocalServer {
  const { path } = settings;
  removeStale(path);
  // The socket must never be open to others, not even for the moment until a chmod.
  const umask = process.umask(0o177);
  try {
    const options: ListenOptions = { ...neverIdle, unix: path, fetch: (request) => answer(request, settings) };
    const server = Bun.serve(options);
    return { stop: () => server.stop(true) };
  } catch (error) {
    throw toFilesError(path, error);
  } finally {
    process.umask(umask);
  }
}

function answer(request: Request, settings: LocalServerSettings): Response {
  const { pathname, searchParams } = new URL(request.url);
  if (request.method === "GET" && pathname === "/status") return Response.json(settings.status());
  if (request.method !== "GET" || pathname !== "/pods") return new Response("not found\n", { status: 404 });
  if (!searchParams.has("watch")) return Response.json(settings.pods());
  return new Response(watchPods(settings, request.signal), { headers: { "content-type": "application/x-ndjson" } });
}

function watchPods({ clock, pods, subscribe }: LocalServerSettings, signal: AbortSignal): ReadableStream<Uint8Array> {
  const encoder = new TextEncoder();
  let end = () => {};
  /** Changes are not kept for a reader that is slower than they are: it gets the newest when it has read what it has. */
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
      signal.addEventListener("abort", () => end(), { once: true });
      send(controller);
    },
    pull(controller) {
      if (isBehind) send(controller);
    },
    cancel: () => end(),
  });
}

/** The socket of an agent that was killed; that no other agent runs here is known by the lock. */
function removeStale(path: string): void {
  try {
    unlinkSync(path);
  } catch {
    // ENOENT: there was none. Anything else shows when the socket is bound.
  }
}
