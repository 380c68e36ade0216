import type { OutgoingHttpHeaders } from "node:http2";
import { orAborted } from "../../host/async/abort.ts";
import type { Clock, Instant } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import type { ClusterEndpointSource } from "../auth/cluster-endpoint.ts";
import type { Identity } from "../auth/credentials.ts";
import { isAccessFailure, KubeError } from "../error.ts";
import { describeIdentity, forbiddenMessage, unauthorizedMessage } from "./connect-error.ts";
import type { FlowControl, PriorityLevel } from "./flow-control.ts";
import { type ResponseHead, type ResponseSink, sendHttp2Request } from "./http2-request.ts";
import type { ApiAccess, Session } from "./session.ts";
import type { SessionPool } from "./session-pool.ts";

/** A request ready to be sent, with a factory for the sink of its response: each attempt needs a new sink. */
export interface PreparedRequest<T> {
  /** Names it in errors, e.g. `GET /api/v1/nodes/a`. */
  readonly verb: string;
  readonly method: string;
  readonly path: string;
  /** `?` and what follows, or nothing. */
  readonly search: string;
  /** Called when the request is sent. */
  readonly body: (() => string) | undefined;
  readonly contentType: string;
  readonly priorityLevel: PriorityLevel;
  readonly isUrgent: (() => boolean) | undefined;
  /** True for a watch, whose response stays open. */
  readonly isLongRunning: boolean;
  readonly createSink: () => ResponseSink & { value(): T };
}

export interface RequestSenderOptions {
  readonly cluster: ClusterEndpointSource;
  /** The node's name for the advice in a 403's message; undefined if the client is not a node. */
  readonly nodeName: string | undefined;
  readonly userAgent: string;
  readonly sessionPool: SessionPool;
  readonly flowControl: FlowControl;
  readonly clock: Clock;
  readonly log: Log;
  readonly onAttempt?: ((attempt: RequestAttempt) => void) | undefined;
}

/** One attempt of a request, when it has ended. */
export interface RequestAttempt {
  readonly method: string;
  /** `HOST:PORT` */
  readonly host: string;
  /** The HTTP status; undefined without an answer. */
  readonly status: number | undefined;
  /** Undefined for a watch, which lasts as long as the server lets it. */
  readonly durationMs: number | undefined;
  /** The client certificate in PEM; undefined for an identity without one. */
  readonly certificate: string | undefined;
}

/** Sends a request once; after a 401 a second time if the credentials have changed since. Rejects with `KubeError`. */
export type RequestSender = <T>(prepared: PreparedRequest<T>, signal: AbortSignal) => Promise<T>;

export function createRequestSender(options: RequestSenderOptions): RequestSender {
  const { sessionPool, flowControl } = options;
  const attempt = createAttempt(options);

  async function currentAccess(signal: AbortSignal): Promise<ApiAccess> {
    const reading = readAccess(options.cluster).catch((error: unknown) => {
      if (error instanceof KubeError) sessionPool.onFailure(error);
      throw error;
    });
    return await orAborted(reading, signal);
  }

  async function attemptWithAccess<T>(
    access: ApiAccess,
    prepared: PreparedRequest<T>,
    signal: AbortSignal,
    rejectedIdentity?: Identity,
  ): Promise<T> {
    const outcome = await attempt(access, prepared, signal);
    if (outcome.kind === "done") return outcome.value;
    const { error, healthError } = outcome;
    if (error.code === "UNAUTHORIZED" && rejectedIdentity === undefined) {
      access.cluster.credentials.markRejected();
      const fresh = await currentAccess(signal);
      if (fresh.identity !== access.identity) return await attemptWithAccess(fresh, prepared, signal, access.identity);
    }
    if (isAccessFailure(healthError)) sessionPool.onFailure(healthError);
    else if (error.status !== undefined) sessionPool.onResponse();
    throw error;
  }

  return async (prepared, signal) => {
    const release = await flowControl.admit(prepared.priorityLevel, prepared.isLongRunning, signal, prepared.isUrgent);
    try {
      return await attemptWithAccess(await currentAccess(signal), prepared, signal);
    } finally {
      release();
    }
  };
}

async function readAccess(source: ClusterEndpointSource): Promise<ApiAccess> {
  const cluster = await source.latest();
  return { cluster, identity: await cluster.credentials.identity() };
}

type Outcome<T> =
  | { readonly kind: "done"; readonly value: T }
  /** `healthError`: the connection's own error if that caused the failure, else `error`. */
  | { readonly kind: "failed"; readonly error: KubeError; readonly healthError: KubeError };

function createAttempt({ userAgent, nodeName, sessionPool, clock, log, onAttempt }: RequestSenderOptions) {
  return async <T>(access: ApiAccess, prepared: PreparedRequest<T>, signal: AbortSignal): Promise<Outcome<T>> => {
    const { verb, method, path, body, createSink } = prepared;
    const startedAt = clock.now();
    const startedMs = clock.monotonicMs();
    let status: number | undefined;
    const recordOutcome = (outcome: string) => {
      const durationMs = clock.monotonicMs() - startedMs;
      log.debug({ method, path, outcome, durationMs: Math.round(durationMs) }, "API request");
      const { host } = access.cluster.server;
      const lastedMs = prepared.isLongRunning ? undefined : durationMs;
      onAttempt?.({ method, host, status, durationMs: lastedMs, certificate: access.identity.certificate?.cert });
    };
    let session: Session | undefined;
    try {
      session = await sessionPool.acquire(access, signal);
      // Other requests that waited for the same session may have filled it in the same moment.
      while (session.isFull()) session = await sessionPool.acquire(access, signal);
      const sink = createSink();
      const onHead = (head: ResponseHead) => {
        status = head.status;
        sink.onHead(head);
      };
      await sendHttp2Request(
        session,
        { verb, headers: headersOf(userAgent, access, prepared), body: body?.(), signal },
        { onHead, onChunk: sink.onChunk },
      );
      const value = sink.value();
      sessionPool.onResponse();
      recordOutcome("done");
      return { kind: "done", value };
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      recordOutcome(error.code);
      if (error.code === "TIMEOUT") sessionPool.onTimeout(startedAt, session);
      const explained = explainRejection(error, access, nodeName, clock.now());
      const sessionError = explained.status === undefined ? session?.closeError() : undefined;
      return { kind: "failed", error: explained, healthError: sessionError ?? explained };
    }
  };
}

function headersOf(
  userAgent: string,
  { cluster: { server }, identity: { token } }: ApiAccess,
  { method, path, search, body, contentType, isLongRunning }: PreparedRequest<unknown>,
): OutgoingHttpHeaders {
  return {
    ":method": method,
    ":path": `${server.pathname.replace(/\/$/, "")}${path}${search}`,
    ":authority": server.host,
    accept: "application/json",
    // A watch is not compressed: its lines would wait for one another in the compressor. A list shrinks to a tenth,
    // which matters on a slow path: only 64 KiB are in flight at a time.
    ...(isLongRunning ? {} : { "accept-encoding": "gzip" }),
    "user-agent": userAgent,
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(body === undefined ? {} : { "content-type": contentType }),
  };
}

/** Adds to the message of a 401 or 403 which identity the server rejected, and why where that is known. */
function explainRejection(error: KubeError, access: ApiAccess, nodeName: string | undefined, now: Instant): KubeError {
  if (error.status === 401) return new KubeError(error.code, unauthorizedMessage({ ...access, now }), error);
  if (error.status !== 403) return error;
  const { identity } = access;
  const identityMessage =
    nodeName === undefined ? `we are ${describeIdentity(identity)}` : forbiddenMessage(identity, nodeName);
  return new KubeError(error.code, `${error.message}; ${identityMessage}`, error);
}
