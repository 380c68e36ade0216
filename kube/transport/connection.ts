import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import type { ClusterEndpointSource } from "../auth/cluster-endpoint.ts";
import { KubeError } from "../error.ts";
import { withDeadline } from "./deadline.ts";
import { createFlowControl, type PriorityLevel, type RateLimits } from "./flow-control.ts";
import { createRequestSender, type PreparedRequest, type RequestAttempt } from "./request-sender.ts";
import { createJsonLinesResponse, createJsonResponse } from "./response.ts";
import { withRetries } from "./retry.ts";
import { type ConnectionState, createSessionPool } from "./session-pool.ts";

export type { PriorityLevel } from "./flow-control.ts";
export type { ConnectionState } from "./session-pool.ts";

export interface KubeRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Such as `/api/v1/nodes/a`, its parts already encoded. */
  readonly path: string;
  /** Undefined values are omitted. */
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** Sent as JSON. A function is called each time the request is sent, which may be long after it was queued. */
  readonly body?: unknown;
  /** `application/json` if left out. */
  readonly contentType?: string;
  /** The total time for flow control, connecting, retries and the complete response. */
  readonly deadlineMs: number;
  readonly signal?: AbortSignal;
  /** `main` if left out. */
  readonly priorityLevel?: PriorityLevel;
  /** Called whenever flow control admits a request: whether this one goes before those that have waited longer. */
  readonly isUrgent?: () => boolean;
}

export type LinesRequest = Omit<KubeRequest, "deadlineMs"> & {
  /** The time until the response starts, 30 s if left out. The server or the signal ends the response. */
  readonly deadlineMs?: number;
};

/**
 * The connection to one API server. It opens an HTTP/2 session when one is needed, and a new one when the session is
 * lost or full, when the server's address or our certificate changes, or when requests keep hanging. Streams of the
 * previous session end there.
 */
export interface KubeConnection {
  /**
   * Resolves with the parsed JSON of a 2xx response, undefined for an empty one. Rejects with `KubeError`. Requests
   * that are safe to repeat (GET, DELETE, and those that the server has certainly not processed) are retried a few
   * times within the deadline.
   */
  request(request: KubeRequest): Promise<unknown>;
  /**
   * Calls `onLine` with each line of the response, parsed as JSON, as it arrives, and `onOpen` when the server answers
   * with a success status. Resolves with the error that ended it, undefined if the server ended it normally. Never
   * rejects; `onLine` must not throw.
   */
  lines(request: LinesRequest, onLine: (value: unknown) => void, onOpen?: () => void): Promise<KubeError | undefined>;
  state(): ConnectionState;
  /** Fails all current and later requests with CLOSED. */
  close(): void;
}

export interface KubeConnectionOptions {
  readonly cluster: ClusterEndpointSource;
  /** The node's name: a 403 for an identity of another node explains the difference. */
  readonly nodeName?: string;
  readonly userAgent: string;
  readonly rateLimits: RateLimits;
  readonly clock: Clock;
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
  readonly log: Log;
  /** Receives each attempt of a request when it has ended; a watch when its stream has. */
  readonly onAttempt?: (attempt: RequestAttempt) => void;
}

/** How long a watch may take to open. */
const OPEN_TIMEOUT_MS = 30_000;

/** Connects with the first request. */
export function createKubeConnection(options: KubeConnectionOptions): KubeConnection {
  const { cluster, nodeName, userAgent, rateLimits, clock, random, log } = options;
  const sessionPool = createSessionPool({ server: cluster.server, clock, random, log });
  const send = createRequestSender({
    cluster,
    nodeName,
    userAgent,
    sessionPool,
    flowControl: createFlowControl(rateLimits, clock),
    clock,
    log,
    onAttempt: options.onAttempt,
  });
  const closed = new AbortController();

  /** Sends the request with retries and the deadline. */
  async function sendWithRetries<T>(
    prepared: PreparedRequest<T>,
    { deadlineMs, signal }: TimeLimits,
    watch?: WatchState,
  ): Promise<T> {
    const { verb, method } = prepared;
    const deadlineOptions = {
      verb,
      deadlineMs,
      signal,
      closed: closed.signal,
      clock,
      currentOutage: () => outageError(sessionPool.state()),
    };
    return await withDeadline(deadlineOptions, async (deadline) => {
      if (watch !== undefined) watch.onOpen = deadline.remove;
      const mayRepeat = () => watch?.isOpen !== true;
      return await withRetries(() => send(prepared, deadline.signal), { method, mayRepeat, deadline, clock, random });
    });
  }

  return {
    async request(request) {
      const prepared = prepareRequest(request);
      const createSink = () => createJsonResponse(prepared.verb);
      return await sendWithRetries(
        { ...prepared, isLongRunning: false, createSink },
        { deadlineMs: request.deadlineMs, signal: request.signal },
      );
    },
    async lines({ deadlineMs = OPEN_TIMEOUT_MS, signal, ...request }, onLine, onOpen) {
      const prepared = prepareRequest(request);
      const watch: WatchState = { isOpen: false, onOpen: undefined };
      const onStart = () => {
        watch.isOpen = true;
        watch.onOpen?.();
        sessionPool.onResponse();
        onOpen?.();
      };
      const createSink = () => createJsonLinesResponse(prepared.verb, onLine, onStart);
      try {
        return await sendWithRetries({ ...prepared, isLongRunning: true, createSink }, { deadlineMs, signal }, watch);
      } catch (error) {
        if (error instanceof KubeError) return error;
        throw error;
      }
    },
    state: sessionPool.state,
    close() {
      const closeError = new KubeError("CLOSED", "the connection to the API server was closed");
      closed.abort(closeError);
      sessionPool.close(closeError);
    },
  };
}

interface TimeLimits {
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
}

/**
 * A watch is open once its response has started. From then on it has no deadline and no retry: its lines have been
 * delivered already.
 */
interface WatchState {
  isOpen: boolean;
  onOpen: (() => void) | undefined;
}

function prepareRequest(
  request: Omit<KubeRequest, "deadlineMs" | "signal">,
): Omit<PreparedRequest<unknown>, "isLongRunning" | "createSink"> {
  const {
    method,
    path,
    query = {},
    body,
    contentType = "application/json",
    priorityLevel = "main",
    isUrgent,
  } = request;
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  const search = pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
  return {
    verb: `${method} ${path}`,
    method,
    path,
    search,
    body: serializeBody(body),
    contentType,
    priorityLevel,
    isUrgent,
  };
}

function serializeBody(body: unknown): PreparedRequest<unknown>["body"] {
  if (typeof body === "function") return () => JSON.stringify(body());
  const text = body === undefined ? undefined : JSON.stringify(body);
  return text === undefined ? undefined : () => text;
}

function outageError(state: ConnectionState): KubeError | undefined {
  return state.kind === "away" ? state.lastFailure.error : undefined;
}
