import { createTold } from "../../host/async/event-source.ts";
import { type Clock, type Instant, sleep } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import { isSamePlace } from "../auth/cluster-endpoint.ts";
import { KubeError } from "../error.ts";
import { orAborted } from "./deadline.ts";
import { backOffMs } from "./retry.ts";
import { type Access, openSession, type Session } from "./session.ts";

/** One request may hang for a reason of its own. */
const TIMEOUTS = 2;
/** A server that has come back is found again within this time, as long as anybody asks for it. */
const LONGEST_PAUSE_MS = 2_000;

export type ConnectionState =
  | { readonly kind: "never connected" }
  /** `lastFailure`: of the times before. */
  | { readonly kind: "connected"; readonly since: Instant; readonly lastFailure: Failure | undefined }
  /** The server cannot be reached, or does not know us. `since` is the first failure. */
  | { readonly kind: "away"; readonly since: Instant; readonly lastFailure: Failure };

export interface Failure {
  readonly at: Instant;
  readonly why: KubeError;
}

export interface Sessions {
  /** The session to this server for this identity, connected. Rejects with `KubeError`, or with the signal's reason. */
  take(access: Access, signal: AbortSignal): Promise<Session>;
  state(): ConnectionState;
  /** The server has answered. */
  served(): void;
  /** A request on this session got no answer in time; it was begun then. Where others hang too, new streams get another session. */
  timedOut(begunAt: Instant, session: Session | undefined): void;
  /** The server was lost, does not know us, or we cannot say who we are. */
  failed(why: KubeError): void;
  close(why: KubeError): void;
}

export interface SessionsOptions {
  /** For the log. */
  readonly server: () => URL;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
}

/** The session that new streams belong to, from when it is begun. */
interface Current {
  readonly access: Access;
  readonly connected: Promise<Session>;
  session: Session | undefined;
}

/**
 * One session at a time for new streams; older ones stay until their streams have ended. However many ask at once, one connection is
 * made, and after a failure only after a pause, which all that ask share.
 */
export function createSessions({ server, clock, random, log }: SessionsOptions): Sessions {
  const closing = new AbortController();
  const pause = createPause(clock, random);
  const health = createHealth({ server, clock, log });
  const alive = new Set<Session>();
  let current: Current | undefined;

  async function connect(access: Access, drop: () => void): Promise<Session> {
    const { host } = access.cluster.server;
    try {
      await pause.over(closing.signal);
      const session = openSession({ ...access, clock, retired: drop, ended });
      alive.add(session);
      await session.ready;
      pause.end();
      log.debug({ server: host }, "connected to the API server");
      return session;

      function ended(why: KubeError): void {
        drop();
        alive.delete(session);
        log.debug({ server: host, err: why }, "the connection to the API server has ended");
      }
    } catch (error) {
      drop();
      if (closing.signal.aborted) throw closing.signal.reason;
      pause.begin();
      if (error instanceof KubeError) health.failed(error);
      throw error;
    }
  }

  function begin(access: Access): Current {
    const connected = connect(access, () => {
      if (current === own) current = undefined;
    });
    const own: Current = { access, connected, session: undefined };
    const connectedTo = (session: Session) => {
      own.session = session;
      // Another identity has taken its place meanwhile; whoever waited for it is sent on to that one.
      if (current !== own) session.retire();
    };
    connected.then(connectedTo, () => {
      // Whoever waits for it hears of it; perhaps nobody does any more.
    });
    return own;
  }

  return {
    async take(access, signal) {
      closing.signal.throwIfAborted();
      if (current !== undefined && !isSame(current.access, access)) {
        current.session?.retire();
        current = undefined;
      }
      if (current?.session?.isFull()) current.session.retire();
      if (current?.session?.takesStreams() === false) current = undefined;
      current ??= begin(access);
      return await orAborted(current.connected, signal);
    },
    ...health,
    timedOut(begunAt, session) {
      // Perhaps it is only this way to the server: what lies behind a balancer may hang, while pings are answered in front of it.
      if (health.timedOut(begunAt) && session?.takesStreams()) session.retire();
    },
    close(why) {
      closing.abort(why);
      current = undefined;
      for (const session of [...alive]) session.end(why);
    },
  };
}

/** A token goes with each request, and is no matter of the session. */
function isSame(one: Access, other: Access): boolean {
  const [a, b] = [one.identity.certificate, other.identity.certificate];
  return isSamePlace(one.cluster, other.cluster) && a?.cert === b?.cert && a?.key === b?.key;
}

/** Says each reason once, however many requests meet it, until the server answers. That a connection stands is no answer yet. */
function createHealth({ server, clock, log }: Pick<SessionsOptions, "server" | "clock" | "log">) {
  let state: ConnectionState = { kind: "never connected" };
  const told = createTold();
  let servedAt = Number.NEGATIVE_INFINITY;
  let timeouts = 0;
  function failed(why: KubeError): void {
    const at = clock.now();
    state = { kind: "away", since: state.kind === "away" ? state.since : at, lastFailure: { at, why } };
    if (told.isNews(why.message))
      log.warn({ server: server().host }, `the API server cannot be used: ${why.message}; trying again`);
  }
  return {
    state: () => state,
    failed,
    /** Whether it is more than one request that hangs. */
    timedOut(begunAt: Instant): boolean {
      // Others were answered meanwhile: what hangs is this request.
      if (servedAt >= begunAt) return false;
      timeouts += 1;
      if (timeouts < TIMEOUTS) return false;
      // Why it is away already, such as that nobody listens there, says more.
      if (state.kind !== "away")
        failed(new KubeError("UNREACHABLE", `${server().host} can be connected to, and answers no request`));
      return true;
    },
    served() {
      servedAt = clock.now();
      timeouts = 0;
      if (state.kind === "connected") return;
      const lastFailure = state.kind === "away" ? state.lastFailure : undefined;
      state = { kind: "connected", since: clock.now(), lastFailure };
      if (!told.isEmpty()) log.info({ server: server().host }, "the API server answers again");
      told.clear();
    },
  };
}

/** Grows with each failure in a row. */
function createPause(clock: Clock, random: () => number) {
  let failures = 0;
  let began = 0;
  let lengthMs = 0;
  return {
    begin(): void {
      failures += 1;
      began = clock.now();
      lengthMs = backOffMs(failures, LONGEST_PAUSE_MS, random);
    },
    end(): void {
      failures = 0;
      lengthMs = 0;
    },
    async over(signal: AbortSignal): Promise<void> {
      // A clock that was set back must not make it longer.
      const leftMs = Math.min(lengthMs, began + lengthMs - clock.now());
      if (leftMs > 0) await sleep(clock, leftMs, signal);
    },
  };
}
