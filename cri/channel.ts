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
import type { Clock } from "../host/clock.ts";
import type { Log } from "../host/log.ts";
import { statusCodes } from "../proto/grpc-status-codes.ts";
import { CriError } from "./error.ts";
import { type CallRecord, createCallMetrics, type VerbMetrics } from "./metrics.ts";
import type { Verb } from "./rpc-method.ts";

const mebibyte = 1024 * 1024;

/**
 * gRPC servers written in Go end a connection ("too many pings") whose pings come more often than every five minutes
 * while nothing else is sent, unless they are told otherwise; containerd is not.
 */
const pingEveryMs = 310_000;

const channelOptions: ClientOptions = {
  "grpc.max_receive_message_length": 16 * mebibyte,
  "grpc.max_send_message_length": 16 * mebibyte,
  "grpc.initial_reconnect_backoff_ms": 100,
  "grpc.min_reconnect_backoff_ms": 100,
  "grpc.max_reconnect_backoff_ms": 1_000,
  "grpc.keepalive_time_ms": pingEveryMs,
  "grpc.keepalive_timeout_ms": 20_000,
  "grpc.enable_channelz": 0,
  "grpc.enable_retries": 0,
  // A renewed client must not inherit the back-off of the one before.
  "grpc.use_local_subchannel_pool": 1,
};

export interface CallLimits {
  readonly signal?: AbortSignal | undefined;
  /** Undefined: no limit. */
  readonly deadlineMs: number | undefined;
}

/** One gRPC channel to one socket. All errors are `CriError`s. */
export interface Connection {
  readonly socketPath: string;
  call<Request, Response>(verb: Verb<Request, Response>, request: Request, limits: CallLimits): Promise<Response>;
  /** Hands over each message as it comes; resolves with the reason when the stream has ended. Never rejects. */
  stream<Request, Message>(
    verb: Verb<Request, Message>,
    request: Request,
    onMessage: (message: Message) => void,
    signal: AbortSignal,
  ): Promise<CriError>;
  /** Connects anew and at once, for when the socket has come back: the channel itself may still be waiting. */
  renew(): void;
  metrics(): Readonly<Record<string, VerbMetrics>>;
  close(): void;
}

export interface ConnectionOptions {
  readonly socketPath: string;
  readonly clock: Pick<Clock, "now">;
  readonly log: Log;
}

/** Connects lazily: an absent socket shows as UNAVAILABLE with the first call. */
export function createConnection({ socketPath, clock, log }: ConnectionOptions): Connection {
  // grpc-js would write to stderr past our log. What it has to say comes with the status of the calls, too.
  setLogVerbosity(logVerbosity.NONE);
  const metrics = createCallMetrics();
  const calling: Calling = {
    clock,
    ended(record) {
      metrics.record(record);
      log.debug({ ...record }, "runtime call");
    },
  };
  const connect = () => new Client(`unix://${socketPath}`, credentials.createInsecure(), channelOptions);
  let client: Client | undefined = connect();
  const open = (verb: string): Client => {
    if (client === undefined) throw new CriError("CANCELLED", verb, "the connection is closed");
    return client;
  };

  return {
    socketPath,
    call: async (verb, request, limits) => await call(open(verb.name), calling, verb, request, limits),
    async stream(verb, request, onMessage, signal) {
      if (client === undefined) return new CriError("CANCELLED", verb.name, "the connection is closed");
      return await stream(client, calling, verb, request, onMessage, signal);
    },
    renew() {
      if (client === undefined) return;
      client.close();
      client = connect();
    },
    metrics: metrics.snapshot,
    close() {
      client?.close();
      client = undefined;
    },
  };
}

/** What the calls of a connection share. */
interface Calling {
  readonly clock: Pick<Clock, "now">;
  /** Hears how each call has ended, and how long it took. */
  readonly ended: (call: CallRecord) => void;
}

/** How far the two ends of a call may disagree about when its time is over. */
const DEADLINE_SLACK_MS = 50;

function call<Request, Response>(
  client: Client,
  { clock, ended }: Calling,
  verb: Verb<Request, Response>,
  request: Request,
  { signal, deadlineMs }: CallLimits,
): Promise<Response> {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(cancelledBefore(verb.name));
    const startedAt = clock.now();
    const deadline = deadlineMs === undefined ? Number.POSITIVE_INFINITY : startedAt + deadlineMs;
    const metadata = new Metadata();
    for (const [key, value] of Object.entries(verb.metadata ?? {})) metadata.set(key, value);
    const { path, encode, decode } = verb;
    const sent = client.makeUnaryRequest(path, encode, decode, request, metadata, { deadline }, settle);
    signal?.addEventListener("abort", cancel, { once: true });

    function cancel() {
      sent.cancel();
    }
    /** The runtime knows the deadline too; where its clock is a moment ahead it is the one that gives up, as cancelled. */
    function atDeadline(error: CriError): CriError {
      const isOurs = signal?.aborted === true || clock.now() < deadline - DEADLINE_SLACK_MS;
      if (error.code !== "CANCELLED" || isOurs) return error;
      return new CriError("DEADLINE_EXCEEDED", verb.name, `no answer within ${deadlineMs} ms`, { cause: error });
    }
    function settle(error: ServiceError | null, response?: Response) {
      signal?.removeEventListener("abort", cancel);
      ended({ verb: verb.name, code: codeOf(error), durationMs: clock.now() - startedAt });
      if (error !== null) reject(atDeadline(toCriError(verb.name, error)));
      else if (response === undefined) reject(new CriError("INTERNAL", verb.name, "the runtime sent no answer"));
      else resolve(response);
    }
  });
}

function stream<Request, Message>(
  client: Client,
  { ended }: Calling,
  verb: Verb<Request, Message>,
  request: Request,
  onMessage: (message: Message) => void,
  signal: AbortSignal,
): Promise<CriError> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve(cancelledBefore(verb.name));
    const messages = client.makeServerStreamRequest(verb.path, verb.encode, verb.decode, request);
    messages.on("data", onMessage);
    messages.on("status", (status) => ended({ verb: verb.name, code: codeOf(status), durationMs: undefined }));
    messages.on("error", (error: ServiceError) => end(toCriError(verb.name, error)));
    messages.on("end", () => end(new CriError("UNAVAILABLE", verb.name, "the runtime ended the stream")));
    signal.addEventListener("abort", cancel, { once: true });

    function cancel() {
      messages.cancel();
    }
    function end(error: CriError) {
      signal.removeEventListener("abort", cancel);
      resolve(error);
    }
  });
}

const cancelledBefore = (verb: string) => new CriError("CANCELLED", verb, "cancelled before it was sent");

function codeOf(status: Pick<StatusObject, "code"> | null): CallRecord["code"] {
  return status === null ? "OK" : (statusCodes[status.code] ?? "UNKNOWN");
}

function toCriError(verb: string, cause: ServiceError): CriError {
  const code = codeOf(cause);
  return new CriError(code === "OK" ? "UNKNOWN" : code, verb, inFewWords(cause.details), { cause });
}

/** The runtime's own words are left alone; of grpc-js's about a socket that nobody listens on only what the kernel said is kept. */
function inFewWords(details: string): string {
  const [, why] =
    /^No connection established\. Last error: (?:Error: )?(.*?)\.? Resolution note: /s.exec(details) ?? [];
  return why ?? details;
}
