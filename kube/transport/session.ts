import type { SecureClientSessionOptions } from "node:http2";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type OutgoingHttpHeaders,
} from "node:http2";
import type { Clock } from "../../host/clock.ts";
import type { ClusterEndpoint } from "../auth/cluster-endpoint.ts";
import type { Identity } from "../auth/credentials.ts";
import { KubeError } from "../error.ts";
import { certificateTimeProblem, toConnectError } from "./connect-error.ts";
import { createPingWatchdog } from "./ping-watchdog.ts";

/**
 * Shorter than the deadline of a lease renewal, so that the renewal fails with the reason and not with a bare timeout.
 */
const CONNECT_TIMEOUT_MS = 8_000;
/**
 * API servers usually allow 100 concurrent streams. node:http2 queues further requests, lease renewals among them. Each
 * Secret and ConfigMap that pods refer to needs one long-running watch stream.
 */
const MAX_STREAMS = 90;
/**
 * The flow-control window of one stream. The session's own window is left alone: setting it stalls large answers in Bun
 * 1.4.
 */
const STREAM_WINDOW_BYTES = 1 << 20;

/**
 * One HTTP/2 connection over TLS to the API server. All errors are `KubeError`s.
 *
 *     connecting ──► open ──► retired (GOAWAY, full, hanging, another certificate) ──last stream ends──► ended
 *         └────────────┴───────── lost, or ended by us ─────────────────────────────────────────────────┘
 */
export interface Session {
  /** Resolves when streams can be opened; rejects when the connection attempt has failed. */
  readonly ready: Promise<void>;
  /** False once the session is retired or closed: new streams need another session. */
  acceptsStreams(): boolean;
  /** Whether it has `MAX_STREAMS` streams. */
  isFull(): boolean;
  open(headers: OutgoingHttpHeaders, hasBody: boolean): ClientHttp2Stream;
  /** To be called for every frame of an answer: it proves that the server is alive. */
  onActivity(): void;
  /** Whether the server has certainly not processed a closed stream, so that its request may be sent again. */
  wasNotProcessed(stream: ClientHttp2Stream): boolean;
  /** Why it has ended; undefined while it is open. */
  closeError(): KubeError | undefined;
  /** Accepts no new streams, and closes when the last open stream has ended. */
  retire(): void;
  end(closeError: KubeError): void;
}

/** The server and the identity that a session is opened with. */
export interface ApiAccess {
  readonly cluster: ClusterEndpoint;
  readonly identity: Identity;
}

export interface SessionOptions extends ApiAccess {
  readonly clock: Clock;
  /** Called when it accepts no more streams. */
  readonly onRetired: () => void;
  /** Called when it has ended, with all its streams. */
  readonly onEnded: (closeError: KubeError) => void;
}

/** Starts to connect at once. Throws `KubeError` where the certificates cannot be used at all. */
export function openSession({ cluster, identity, clock, onRetired, onEnded }: SessionOptions): Session {
  const http2 = connectHttp2(cluster, identity);
  let streams = 0;
  let lastProcessedStreamId = Number.POSITIVE_INFINITY;
  let isRetired = false;
  let hasAnswered = false;
  let closeError: KubeError | undefined;
  const { host } = cluster.server;

  const watchdog = createPingWatchdog({
    clock,
    ping,
    isExpecting: () => streams > 0,
    onDead: () => end(new KubeError("UNREACHABLE", `${host} has sent nothing for 30 s, not even the answer to a ping`)),
  });

  function ping(): void {
    if (!http2.destroyed) http2.ping((error) => error === null && watchdog.onActivity());
  }
  function retire(): void {
    if (!isRetired) onRetired();
    isRetired = true;
    if (streams === 0) end(new KubeError("CLOSED", `the connection to ${host} is no longer needed`));
  }
  function end(reason: KubeError): void {
    closeError ??= reason;
    http2.destroy();
  }
  /**
   * Why it was closed. A server that rejects our certificate may close the connection without an alert, or reset it.
   */
  function toCloseError(cause: unknown): KubeError {
    const now = clock.now();
    // An ordinary close after an answer: the next request opens another connection.
    if (cause === undefined && hasAnswered) return new KubeError("CLOSED", `${host} has ended the connection`);
    const isSilent = cause === undefined || Reflect.get(Object(cause), "code") === "ECONNRESET";
    const certificateProblem = isSilent && !hasAnswered ? certificateTimeProblem(identity, now) : undefined;
    if (certificateProblem !== undefined)
      return new KubeError("TLS", `${host} has ended the connection: ${certificateProblem}`);
    return toConnectError(cause, { cluster, identity, now });
  }

  http2.on("error", (cause) => end(toCloseError(cause)));
  http2.on("goaway", (code, lastStreamId) => {
    // In a graceful shutdown the first GOAWAY carries the highest possible stream id.
    lastProcessedStreamId = lastStreamId;
    if (code === constants.NGHTTP2_NO_ERROR) retire();
  });
  http2.on("close", () => {
    watchdog.stop();
    closeError ??= toCloseError(undefined);
    onEnded(closeError);
  });

  return {
    ready: waitUntilReady(http2, clock, end, host, () => closeError),
    acceptsStreams: () => !isRetired && closeError === undefined && !http2.closed && !http2.destroyed,
    isFull: () => streams >= MAX_STREAMS,
    open(headers, hasBody) {
      const stream = http2.request(headers, { endStream: !hasBody });
      streams += 1;
      watchdog.start();
      stream.once("close", () => {
        streams -= 1;
        // Not within this event: the listeners of the stream must first see how the stream itself ended.
        if (isRetired && streams === 0) setImmediate(retire);
      });
      return stream;
    },
    onActivity() {
      hasAnswered = true;
      watchdog.onActivity();
    },
    wasNotProcessed: ({ id, rstCode }) =>
      id === undefined || id > lastProcessedStreamId || rstCode === constants.NGHTTP2_REFUSED_STREAM,
    closeError: () => closeError,
    retire,
    end,
  };
}

function waitUntilReady(
  http2: ClientHttp2Session,
  clock: Clock,
  end: (closeError: KubeError) => void,
  host: string,
  closeError: () => KubeError | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const onTimeout = () =>
      end(
        new KubeError(
          "UNREACHABLE",
          `${host} does not answer: is the address right, and does a firewall lie in between?`,
        ),
      );
    const cancel = clock.wakeAt(clock.now() + CONNECT_TIMEOUT_MS, onTimeout);
    http2.once("connect", () => {
      cancel();
      // For a server without HTTP/2 node:http2 emits 'error' first and 'connect' afterwards.
      if (closeError() === undefined) resolve();
    });
    http2.once("close", () => {
      cancel();
      const error = closeError() ?? new KubeError("UNREACHABLE", `the connection to ${host} has ended`);
      reject(new KubeError(error.code, error.message, { isUnprocessed: true, cause: error.cause }));
    });
  });
}

function connectHttp2(cluster: ClusterEndpoint, { certificate }: Identity): ClientHttp2Session {
  const { server, certificateAuthority, tlsServerName, insecureSkipTlsVerify } = cluster;
  const options: SecureClientSessionOptions = {
    minVersion: "TLSv1.2",
    // Explicit, so that NODE_TLS_REJECT_UNAUTHORIZED cannot turn it off.
    rejectUnauthorized: !insecureSkipTlsVerify,
    settings: { enablePush: false, initialWindowSize: STREAM_WINDOW_BYTES },
    ...(certificateAuthority === undefined ? {} : { ca: [certificateAuthority] }),
    ...(tlsServerName === undefined ? {} : { servername: tlsServerName }),
    ...(certificate === undefined ? {} : { cert: certificate.cert, key: certificate.key }),
  };
  try {
    return connect(server.origin, options);
  } catch (cause) {
    throw new KubeError("CREDENTIALS", "our certificates cannot be used for a connection", {
      cause,
      isUnprocessed: true,
    });
  }
}
