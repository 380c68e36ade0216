import { orAborted } from "../../host/async/abort.ts";
import { createBackoffCounter } from "../../host/async/backoff.ts";
import { createLogOnce } from "../../host/async/log-once.ts";
import { type Clock, type Instant, sleep } from "../../host/clock.ts";
import type { Log } from "../../host/log/log.ts";
import { isSameEndpoint } from "../auth/cluster-endpoint.ts";
import { KubeError } from "../error.ts";
import { backoffOptions } from "./retry.ts";
import { type ApiAccess, openSession, type Session } from "./session.ts";

/** So many timeouts in a row mark the connection as failed: a single request may hang for a reason of its own. */
const TIMEOUTS_UNTIL_AWAY = 2;
/**
 * The longest pause between two connection attempts, hence how late a returned server is noticed while requests are
 * made.
 */
const MAX_PAUSE_MS = 2_000;

export type ConnectionState =
  | { readonly kind: "never connected" }
  /** `lastFailure`: of an earlier outage. */
  | { readonly kind: "connected"; readonly since: Instant; readonly lastFailure: ConnectionFailure | undefined }
  /** The server cannot be reached, or does not accept our credentials. `since` is the time of the first failure. */
  | { readonly kind: "away"; readonly since: Instant; readonly lastFailure: ConnectionFailure };

export interface ConnectionFailure {
  readonly at: Instant;
  readonly error: KubeError;
}

/** The pool of sessions to the API server, and the health of the connection as far as requests have shown it. */
export interface SessionPool {
  /** A connected session to this server with this identity. Rejects with `KubeError`, or with the signal's reason. */
  acquire(access: ApiAccess, signal: AbortSignal): Promise<Session>;
  state(): ConnectionState;
  /** Records that the server has answered a request. */
  onResponse(): void;
  /**
   * Records that a request on this session, sent at `sentAt`, got no answer in time. If other requests hang too, the
   * session is retired and new streams get another one.
   */
  onTimeout(sentAt: Instant, session: Session | undefined): void;
  /** Records that the server was lost, rejects our credentials, or that we cannot read our credentials. */
  onFailure(error: KubeError): void;
  close(error: KubeError): void;
}

export interface SessionPoolOptions {
  /** For the log. */
  readonly server: () => URL;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
}

/** The session for new streams, from the start of its connection attempt. */
interface ActiveSession {
  readonly access: ApiAccess;
  readonly connected: Promise<Session>;
  session: Session | undefined;
}

/**
 * Keeps one session at a time for new streams; older sessions stay open until their streams have ended. Concurrent
 * requests share one connection attempt, and after a failure they share the pause before the next attempt.
 */
export function createSessionPool({ server, clock, random, log }: SessionPoolOptions): SessionPool {
  const closed = new AbortController();
  const pause = createReconnectDelay(clock, random);
  const health = createHealth({ server, clock, log });
  const openSessions = new Set<Session>();
  let active: ActiveSession | undefined;

  async function connect(access: ApiAccess, onUnusable: () => void): Promise<Session> {
    const { host } = access.cluster.server;
    try {
      await pause.over(closed.signal);
      const session = openSession({ ...access, clock, onRetired: onUnusable, onEnded });
      openSessions.add(session);
      await session.ready;
      pause.end();
      log.debug({ server: host }, "connected to the API server");
      return session;

      function onEnded(error: KubeError): void {
        onUnusable();
        openSessions.delete(session);
        log.debug({ server: host, err: error }, "the connection to the API server has ended");
      }
    } catch (error) {
      onUnusable();
      if (closed.signal.aborted) throw closed.signal.reason;
      pause.begin();
      if (error instanceof KubeError) health.onFailure(error);
      throw error;
    }
  }

  function startSession(access: ApiAccess): ActiveSession {
    const connected = connect(access, () => {
      if (active === started) active = undefined;
    });
    const started: ActiveSession = { access, connected, session: undefined };
    const onConnected = (session: Session) => {
      started.session = session;
      // A session for another identity has replaced it while it connected: requests that waited for it get that one.
      if (active !== started) session.retire();
    };
    connected.then(onConnected, () => {
      // The requests that wait for it get the error; this handler only avoids an unhandled rejection when none does.
    });
    return started;
  }

  return {
    async acquire(access, signal) {
      closed.signal.throwIfAborted();
      if (active !== undefined && !hasSameAccess(active.access, access)) {
        active.session?.retire();
        active = undefined;
      }
      if (active?.session?.isFull()) active.session.retire();
      if (active?.session?.acceptsStreams() === false) active = undefined;
      active ??= startSession(access);
      return await orAborted(active.connected, signal);
    },
    ...health,
    onTimeout(sentAt, session) {
      // Perhaps only this connection hangs: a load balancer answers pings while the server behind it does not answer.
      if (health.timedOut(sentAt) && session?.acceptsStreams()) session.retire();
    },
    close(error) {
      closed.abort(error);
      active = undefined;
      for (const session of [...openSessions]) session.end(error);
    },
  };
}

/** A token is sent with each request and does not belong to the session; the client certificate does. */
function hasSameAccess(one: ApiAccess, other: ApiAccess): boolean {
  const [a, b] = [one.identity.certificate, other.identity.certificate];
  return isSameEndpoint(one.cluster, other.cluster) && a?.cert === b?.cert && a?.key === b?.key;
}

/**
 * Keeps the connection state and logs each failure reason once, however many requests fail with it, until the server
 * answers a request. An established connection alone does not count as an answer.
 */
function createHealth({ server, clock, log }: Pick<SessionPoolOptions, "server" | "clock" | "log">) {
  let state: ConnectionState = { kind: "never connected" };
  const logOnce = createLogOnce();
  let respondedAt = Number.NEGATIVE_INFINITY;
  let timeouts = 0;
  function onFailure(error: KubeError): void {
    const at = clock.now();
    state = { kind: "away", since: state.kind === "away" ? state.since : at, lastFailure: { at, error } };
    if (logOnce.shouldLog(error.message))
      log.warn({ server: server().host }, `the API server cannot be used: ${error.message}; trying again`);
  }
  return {
    state: () => state,
    onFailure,
    /** Returns whether more than one request hangs. */
    timedOut(sentAt: Instant): boolean {
      // The server has answered other requests meanwhile: only this request hangs.
      if (respondedAt >= sentAt) return false;
      timeouts += 1;
      if (timeouts < TIMEOUTS_UNTIL_AWAY) return false;
      // A reason that is known already, such as a refused connection, is more specific.
      if (state.kind !== "away")
        onFailure(new KubeError("UNREACHABLE", `${server().host} accepts connections but answers no request`));
      return true;
    },
    onResponse() {
      respondedAt = clock.now();
      timeouts = 0;
      if (state.kind === "connected") return;
      const lastFailure = state.kind === "away" ? state.lastFailure : undefined;
      state = { kind: "connected", since: clock.now(), lastFailure };
      if (!logOnce.isEmpty()) log.info({ server: server().host }, "the API server answers again");
      logOnce.clear();
    },
  };
}

/** The pause before the next connection attempt; it grows with each failure in a row. */
function createReconnectDelay(clock: Clock, random: () => number) {
  const backoff = createBackoffCounter(backoffOptions(MAX_PAUSE_MS, random));
  let startedAt = 0;
  let lengthMs = 0;
  return {
    begin(): void {
      startedAt = clock.now();
      lengthMs = backoff.next();
    },
    end(): void {
      backoff.reset();
      lengthMs = 0;
    },
    async over(signal: AbortSignal): Promise<void> {
      // If the wall clock was set back, the pause must not become longer.
      const leftMs = Math.min(lengthMs, startedAt + lengthMs - clock.now());
      if (leftMs > 0) await sleep(clock, leftMs, signal);
    },
  };
}
