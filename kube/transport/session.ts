import type { SecureClientSessionOptions } from "node:http2";
import {
  type ClientHttp2Session,
  type ClientHttp2Stream,
  connect,
  constants,
  type OutgoingHttpHeaders,
} from "node:http2";
import type { Clock } from "../../host/clock.ts";
import type { Cluster } from "../auth/cluster-endpoint.ts";
import type { Identity } from "../auth/credentials.ts";
import { KubeError } from "../error.ts";
import { ownTimeProblem, toConnectError } from "./connect-error.ts";
import { createWatchdog } from "./ping-watchdog.ts";

/** Within the deadline of a heartbeat, so that whoever waits for one learns why it does not come. */
const CONNECT_WITHIN_MS = 8_000;
/**
 * A server allows 100 streams at once, as a rule; what comes beyond them is queued below us, heartbeats too. With each Secret and ConfigMap
 * that pods refer to there is one that lasts.
 */
const MOST_STREAMS = 90;
/** How much of one answer may be under way. Not set for the session as a whole: in Bun 1.4 that stops large answers. */
const STREAM_WINDOW_BYTES = 1 << 20;

/**
 * One connection over TLS. All errors are `KubeError`s.
 *
 *     connecting ──► open ──► retired (GOAWAY, full, hanging, another certificate) ──last stream ends──► ended
 *         └────────────┴───────── lost, or ended by us ─────────────────────────────────────────────────┘
 */
export interface Session {
  /** Resolves when streams can be opened, rejects when that will never be. */
  readonly ready: Promise<void>;
  /** False as soon as new streams belong to another session. */
  takesStreams(): boolean;
  /** It has as many streams as it may have. */
  isFull(): boolean;
  open(headers: OutgoingHttpHeaders, hasBody: boolean): ClientHttp2Stream;
  /** A sign of life came. */
  heard(): void;
  /** Whether the server has certainly not looked at a stream that was closed. */
  hasPassedOver(stream: ClientHttp2Stream): boolean;
  /** Why it has ended, once it has. */
  why(): KubeError | undefined;
  /** Ends when its streams have. */
  retire(): void;
  end(why: KubeError): void;
}

/** Where the server is, and who we are to it. */
export interface Access {
  readonly cluster: Cluster;
  readonly identity: Identity;
}

export interface SessionOptions extends Access {
  readonly clock: Clock;
  /** It takes no more streams. */
  readonly retired: () => void;
  /** It is over, and all its streams with it. */
  readonly ended: (why: KubeError) => void;
}

/** Begins to connect at once. Throws `KubeError` where the certificates cannot be used at all. */
export function openSession({ cluster, identity, clock, retired, ended }: SessionOptions): Session {
  const http2 = start(cluster, identity);
  let streams = 0;
  let lastTaken = Number.POSITIVE_INFINITY;
  let isRetired = false;
  let hasAnswered = false;
  let why: KubeError | undefined;
  const { host } = cluster.server;

  const watchdog = createWatchdog({
    clock,
    ping,
    isExpecting: () => streams > 0,
    dead: () => end(new KubeError("UNREACHABLE", `${host} has given no sign of life for 30 s, although it was asked`)),
  });

  function ping(): void {
    if (!http2.destroyed) http2.ping((error) => error === null && watchdog.heard());
  }
  function retire(): void {
    if (!isRetired) retired();
    isRetired = true;
    if (streams === 0) end(new KubeError("CLOSED", `the connection to ${host} is no longer needed`));
  }
  function end(reason: KubeError): void {
    why ??= reason;
    http2.destroy();
  }
  /** What broke it off. A server that will not have our certificate may do so without a word, or with a reset. */
  function broken(cause: unknown): KubeError {
    const now = clock.now();
    // So a server ends what it will not go on with: what is asked next is asked on another connection.
    if (cause === undefined && hasAnswered) return new KubeError("CLOSED", `${host} has ended the connection`);
    const isSilent = cause === undefined || Reflect.get(Object(cause), "code") === "ECONNRESET";
    const own = isSilent && !hasAnswered ? ownTimeProblem(identity, now) : undefined;
    if (own !== undefined) return new KubeError("TLS", `${host} has ended the connection: ${own}`);
    return toConnectError(cause, { cluster, identity, now });
  }

  http2.on("error", (cause) => end(broken(cause)));
  http2.on("goaway", (code, lastStreamId) => {
    // A server that shuts down in order announces it first with the highest number there is.
    lastTaken = lastStreamId;
    if (code === constants.NGHTTP2_NO_ERROR) retire();
  });
  http2.on("close", () => {
    watchdog.stop();
    why ??= broken(undefined);
    ended(why);
  });

  return {
    ready: readiness(http2, clock, end, host, () => why),
    takesStreams: () => !isRetired && why === undefined && !http2.closed && !http2.destroyed,
    isFull: () => streams >= MOST_STREAMS,
    open(headers, hasBody) {
      const stream = http2.request(headers, { endStream: !hasBody });
      streams += 1;
      watchdog.wake();
      stream.once("close", () => {
        streams -= 1;
        // Only now, and not within this event: whoever waits for the stream hears first how it ended.
        if (isRetired && streams === 0) setImmediate(retire);
      });
      return stream;
    },
    heard() {
      hasAnswered = true;
      watchdog.heard();
    },
    hasPassedOver: ({ id, rstCode }) =>
      id === undefined || id > lastTaken || rstCode === constants.NGHTTP2_REFUSED_STREAM,
    why: () => why,
    retire,
    end,
  };
}

function readiness(
  http2: ClientHttp2Session,
  clock: Clock,
  end: (why: KubeError) => void,
  host: string,
  why: () => KubeError | undefined,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const late = () =>
      end(
        new KubeError(
          "UNREACHABLE",
          `${host} does not answer: is the address right, and does a firewall lie in between?`,
        ),
      );
    const cancel = clock.wakeAt(clock.now() + CONNECT_WITHIN_MS, late);
    http2.once("connect", () => {
      cancel();
      // A server without HTTP/2 is told as an error first, and as connected then.
      if (why() === undefined) resolve();
    });
    http2.once("close", () => {
      cancel();
      const lost = why() ?? new KubeError("UNREACHABLE", `the connection to ${host} has ended`);
      reject(new KubeError(lost.code, lost.message, { isUnprocessed: true, cause: lost.cause }));
    });
  });
}

function start(cluster: Cluster, { certificate }: Identity): ClientHttp2Session {
  const { server, certificateAuthority, tlsServerName, insecureSkipTlsVerify } = cluster;
  const options: SecureClientSessionOptions = {
    minVersion: "TLSv1.2",
    // Said aloud, so that no environment variable turns it off.
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
