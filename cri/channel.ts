import {
  Client,
  type ClientOptions,
  credentials,
  logVerbosity,
  Metadata,
  type ServiceError,
  type StatusObject,
  setLogVerbosity,
} from "@grpc/grpc-js";
import { onAbort } from "../host/async/abort.ts";
import type { Clock } from "../host/clock.ts";
import type { Log } from "../host/log/log.ts";
import { grpcStatusCodes } from "../proto/grpc-status-codes.ts";
import { type CriCode, CriError } from "./error.ts";
import type { RpcMethod } from "./rpc-method.ts";

const MEBIBYTE = 1024 * 1024;

/**
 * By default a gRPC server written in Go closes a connection ("too many pings") that sends pings more often than every
 * five minutes without other traffic; containerd uses this default.
 */
const PING_INTERVAL_MS = 310_000;

const GRPC_OPTIONS: ClientOptions = {
  "grpc.max_receive_message_length": 16 * MEBIBYTE,
  "grpc.max_send_message_length": 16 * MEBIBYTE,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.min_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1_000,
  "grpc.keepalive_time_ms": PING_INTERVAL_MS,
  "grpc.keepalive_timeout_ms": 20_000,
  "grpc.enable_channelz": 0,
  "grpc.enable_retries": 0,
  // A new client must not share the subchannel, and its back-off, with the previous one.
  "grpc.use_local_subchannel_pool": 1,
};

/** A call that has ended. */
export interface CallRecord {
  /** The method's name: `RunPodSandbox`. */
  readonly verb: string;
  /** Whether it is one of CRI's, or one of containerd's own. */
  readonly isOfCri: boolean;
  readonly code: CriCode | "OK";
  /** Undefined for streams. */
  readonly durationMs: number | undefined;
}

export interface CallLimits {
  readonly signal?: AbortSignal | undefined;
  /** Undefined: no limit. */
  readonly deadlineMs: number | undefined;
  /** Sent as metadata; undefined: the call belongs to no trace. */
  readonly traceparent?: string | undefined;
}

/** One gRPC channel to one socket. All errors are `CriError`s. */
export interface Channel {
  readonly socketPath: string;
  call<Request, Response>(
    method: RpcMethod<Request, Response>,
    request: Request,
    limits: CallLimits,
  ): Promise<Response>;
  /**
   * Calls `onMessage` with each message of a server stream; resolves with the reason when it has ended. Never rejects.
   */
  stream<Request, Message>(
    method: RpcMethod<Request, Message>,
    request: Request,
    onMessage: (message: Message) => void,
    signal: AbortSignal,
  ): Promise<CriError>;
  /** Reconnects at once, for a socket that has been created again: grpc-js may still wait for its back-off. */
  reconnect(): void;
  close(): void;
}

export interface ChannelOptions {
  readonly socketPath: string;
  readonly clock: Pick<Clock, "now" | "monotonicMs">;
  readonly log: Log;
  /** Receives each call when it has ended. */
  readonly onCall?: ((call: CallRecord) => void) | undefined;
}

/** Connects lazily: an absent socket shows as UNAVAILABLE with the first call. */
export function createChannel({ socketPath, clock, log, onCall }: ChannelOptions): Channel {
  // grpc-js would write to stderr, bypassing our log. The status of the calls contains the same errors.
  setLogVerbosity(logVerbosity.NONE);
  const deps: CallDeps = {
    clock,
    recordCall(record) {
      onCall?.(record);
      const { verb, code, durationMs } = record;
      log.debug({ verb, code, durationMs: durationMs && Math.round(durationMs) }, "runtime call");
    },
  };
  const connect = () => new Client(`unix://${socketPath}`, credentials.createInsecure(), GRPC_OPTIONS);
  let client: Client | undefined = connect();
  const currentClient = (method: string): Client => {
    if (client === undefined) throw new CriError("CANCELLED", method, "the connection is closed");
    return client;
  };

  return {
    socketPath,
    call: async (method, request, limits) => await call(currentClient(method.name), deps, method, request, limits),
    async stream(method, request, onMessage, signal) {
      if (client === undefined) return new CriError("CANCELLED", method.name, "the connection is closed");
      return await stream(client, deps, method, request, onMessage, signal);
    },
    reconnect() {
      if (client === undefined) return;
      client.close();
      client = connect();
    },
    close() {
      client?.close();
      client = undefined;
    },
  };
}

/** The dependencies that all calls of a channel share. */
interface CallDeps {
  readonly clock: Pick<Clock, "now" | "monotonicMs">;
  /** Records the result and the duration of each call. */
  readonly recordCall: (call: CallRecord) => void;
}

/** How much earlier than our deadline the runtime may cancel a call because its clock is ahead. */
const DEADLINE_SLACK_MS = 50;

function call<Request, Response>(
  client: Client,
  { clock, recordCall }: CallDeps,
  method: RpcMethod<Request, Response>,
  request: Request,
  { signal, deadlineMs, traceparent }: CallLimits,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(cancelledError(method.name));
    const startedMs = clock.monotonicMs();
    const deadline = deadlineMs === undefined ? Number.POSITIVE_INFINITY : clock.now() + deadlineMs;
    const { path, encode, decode } = method;
    const metadata = metadataOf(method, traceparent);
    const rpc = client.makeUnaryRequest(path, encode, decode, request, metadata, { deadline }, settle);
    const remove = onAbort(signal, () => rpc.cancel());

    /**
     * The runtime knows the deadline, too; if its clock is ahead, it ends the call first, with CANCELLED. The text of
     * grpc-js differs from one call to the next.
     */
    function withDeadlineCode(error: CriError): CriError {
      const isOurCancellation = signal?.aborted === true || clock.now() < deadline - DEADLINE_SLACK_MS;
      const isByRuntime = error.code === "CANCELLED" && !isOurCancellation;
      const isByUs = error.code === "DEADLINE_EXCEEDED" && error.details.startsWith("Deadline exceeded");
      if (!isByRuntime && !isByUs) return error;
      return new CriError("DEADLINE_EXCEEDED", method.name, `no answer within ${deadlineMs} ms`, { cause: error });
    }
    function settle(error: ServiceError | null, response?: Response) {
      remove();
      recordCall({ ...namesOf(method), code: codeOf(error), durationMs: clock.monotonicMs() - startedMs });
      if (error !== null) reject(withDeadlineCode(toCriError(method.name, error)));
      else if (response === undefined) reject(new CriError("INTERNAL", method.name, "the runtime sent no answer"));
      else resolve(response);
    }
  });
}

function stream<Request, Message>(
  client: Client,
  { recordCall }: CallDeps,
  method: RpcMethod<Request, Message>,
  request: Request,
  onMessage: (message: Message) => void,
  signal: AbortSignal,
): Promise<CriError> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(cancelledError(method.name));
    const { path, encode, decode } = method;
    const messages = client.makeServerStreamRequest(path, encode, decode, request, metadataOf(method));
    messages.on("data", onMessage);
    messages.on("status", (status) => recordCall({ ...namesOf(method), code: codeOf(status), durationMs: undefined }));
    messages.on("error", (error: ServiceError) => end(toCriError(method.name, error)));
    messages.on("end", () => end(new CriError("UNAVAILABLE", method.name, "the runtime ended the stream")));
    const remove = onAbort(signal, () => messages.cancel());

    function end(error: CriError) {
      remove();
      resolve(error);
    }
  });
}

function metadataOf<Request, Response>(
  { metadata = {} }: RpcMethod<Request, Response>,
  traceparent?: string,
): Metadata {
  const sent = new Metadata();
  for (const [key, value] of Object.entries(metadata)) sent.set(key, value);
  if (traceparent !== undefined) sent.set("traceparent", traceparent);
  return sent;
}

const namesOf = ({ name, path }: { readonly name: string; readonly path: string }) => ({
  verb: name,
  isOfCri: path.startsWith("/runtime.v1."),
});

const cancelledError = (method: string) => new CriError("CANCELLED", method, "cancelled before it was sent");

function codeOf(status: Pick<StatusObject, "code"> | null): CallRecord["code"] {
  return status === null ? "OK" : (grpcStatusCodes[status.code] ?? "UNKNOWN");
}

function toCriError(method: string, cause: ServiceError): CriError {
  const code = codeOf(cause);
  return new CriError(code === "OK" ? "UNKNOWN" : code, method, shortenDetails(cause.details), { cause });
}

/**
 * Keeps the runtime's own message. Shortens grpc-js's message about a refused connection to the kernel's error, and
 * removes the time from its message about a socket that does not speak HTTP/2: the same failure has the same text.
 */
function shortenDetails(details: string): string {
  const [, kernelError] =
    /^No connection established\. Last error: (?:Error: )?(.*?)\.? Resolution note: /s.exec(details) ?? [];
  return (kernelError ?? details).replace(/ \(\d{4}-\d\d-\d\dT[\d:.]+Z\)$/, "");
}
