import { type Clock, type Instant, sleep } from "../host/clock.ts";
import type { Log } from "../host/log.ts";
import type { Cluster } from "./cluster.ts";
import type { Identity } from "./credentials.ts";
import { orAborted } from "./deadline.ts";
import { KubeError } from "./error.ts";
import type { Certificate } from "./pem.ts";
import { backOffMs } from "./retry.ts";
import { openSession, type Session } from "./session.ts";

/** A server that has come back is found again within this time, as long as anybody asks for it. */
const LONGEST_PAUSE_MS = 2_000;

export type ConnectionState =
  | { readonly kind: "never connected" }
  | { readonly kind: "connected"; readonly since: Instant }
  /** The server cannot be reached, or does not know us. `since` is the first failure, `why` the last one. */
  | { readonly kind: "away"; readonly since: Instant; readonly why: KubeError };

export interface Sessions {
  /** The session for this identity, connected. Rejects with `KubeError`, or with the signal's reason. */
  take(identity: Identity, signal: AbortSignal): Promise<Session>;
  state(): ConnectionState;
  /** The server has answered. */
  served(): void;
  /** The server was lost, does not know us, or we cannot say who we are. */
  failed(why: KubeError): void;
  close(why: KubeError): void;
}

export interface SessionsOptions {
  readonly cluster: Cluster;
  readonly clock: Clock;
  readonly random: () => number;
  readonly log: Log;
}

/** The session that new streams belong to, from when it is begun. */
interface Current {
  readonly certificate: Certificate | undefined;
  readonly connected: Promise<Session>;
  session: Session | undefined;
}

/**
 * One session at a time for new streams; older ones stay until their streams have ended. However many ask at once, one connection is
 * made, and after a failure only after a pause, which all that ask share.
 */
export function createSessions({ cluster, clock, random, log }: SessionsOptions): Sessions {
  const closing = new AbortController();
  const pause = createPause(clock, random);
  const health = createHealth(clock);
  const alive = new Set<Session>();
  let current: Current | undefined;

  async function connect(identity: Identity, drop: () => void): Promise<Session> {
    const { host } = cluster.server;
    try {
      await pause.over(closing.signal);
      const session = openSession({ cluster, identity, clock, retired: drop, ended });
      alive.add(session);
      await session.ready;
      pause.end();
      health.served();
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

  function begin(identity: Identity): Current {
    const connected = connect(identity, () => {
      if (current === own) current = undefined;
    });
    const own: Current = { certificate: identity.certificate, connected, session: undefined };
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
    async take(identity, signal) {
      closing.signal.throwIfAborted();
      if (current !== undefined && !isSame(current.certificate, identity.certificate)) {
        current.session?.retire();
        current = undefined;
      }
      if (current?.session?.takesStreams() === false) current = undefined;
      current ??= begin(identity);
      return await orAborted(current.connected, signal);
    },
    ...health,
    close(why) {
      closing.abort(why);
      current = undefined;
      for (const session of [...alive]) session.end(why);
    },
  };
}

function isSame(a: Certificate | undefined, b: Certificate | undefined): boolean {
  return a?.cert === b?.cert && a?.key === b?.key;
}

function createHealth(clock: Clock): Pick<Sessions, "state" | "served" | "failed"> {
  let state: ConnectionState = { kind: "never connected" };
  return {
    state: () => state,
    served() {
      if (state.kind !== "connected") state = { kind: "connected", since: clock.now() };
    },
    failed(why) {
      state = { kind: "away", since: state.kind === "away" ? state.since : clock.now(), why };
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
