import type { Clock } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { ClusterSource } from "../auth/cluster-endpoint.ts";
import { KubeError } from "../error.ts";
import { withinLimits } from "./deadline.ts";
import { createLanes, type Lane, type Rates } from "./flow-control.ts";
import { createSender, type Wanted } from "./request-sender.ts";
import { createLinesAnswer, createWholeAnswer } from "./response.ts";
import { sendAgain } from "./retry.ts";
import { type ConnectionState, createSessions } from "./session-pool.ts";

export type { Lane } from "./flow-control.ts";
export type { ConnectionState } from "./session-pool.ts";

export interface KubeRequest {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Such as `/api/v1/nodes/a`, its parts already encoded. */
  readonly path: string;
  /** What is undefined is left out. */
  readonly query?: Readonly<Record<string, string | undefined>>;
  /** Sent as JSON. A function is asked for it whenever the request is sent, which may be long after it was made. */
  readonly body?: unknown;
  /** `application/json` if left out. */
  readonly contentType?: string;
  /** For everything together: waiting for the lane, connecting, retries, and the answer to its last byte. */
  readonly deadlineMs: number;
  readonly signal?: AbortSignal;
  /** `main` if left out. */
  readonly lane?: Lane;
  /** Asked whenever the lane has a turn: whether this one goes before those that wait longer. */
  readonly isUrgent?: () => boolean;
}

export type LinesRequest = Omit<KubeRequest, "deadlineMs"> & {
  /** Until the answer begins, 30 s if left out; how long it then lasts is the server's and the signal's affair. */
  readonly deadlineMs?: number;
};

/**
 * One HTTP/2 session to one API server, made when it is needed, and made anew when it is lost, its server or our certificate changes,
 * requests hang on it again and again, or it has room for no more; what still goes on in the one before ends there.
 */
export interface Connection {
  /**
   * Resolves with the parsed JSON of a 2xx answer, undefined for an empty one. Rejects with `KubeError`. What may be sent again
   * without doing it twice (GET, DELETE, or what the server has certainly not begun) is sent again a few times within the deadline.
   */
  request(request: KubeRequest): Promise<unknown>;
  /**
   * Hands over each line of the answer as parsed JSON, as it comes. `opened` is called when the server has begun to answer with
   * success. Resolves with why it ended: undefined where the server ended it in order. Never rejects; `onLine` must not throw.
   */
  lines(request: LinesRequest, onLine: (value: unknown) => void, opened?: () => void): Promise<KubeError | undefined>;
  state(): ConnectionState;
  /** Ends everything under way with CLOSED, as everything asked for afterwards. */
  close(): void;
}

export interface ConnectionOptions {
  readonly cluster: ClusterSource;
  /** What this node is called: who is refused something under another name is told so. */
  readonly nodeName?: string;
  readonly userAgent: string;
  readonly rates: Rates;
  readonly clock: Clock;
  /** From 0 up to 1, for jitter. */
  readonly random: () => number;
  readonly log: Log;
}

/** How long a watch may take to begin. */
const OPEN_WITHIN_MS = 30_000;

/** Connects with the first request. */
export function createConnection(options: ConnectionOptions): Connection {
  const { cluster, nodeName, userAgent, rates, clock, random, log } = options;
  const sessions = createSessions({ server: cluster.server, clock, random, log });
  const send = createSender({ cluster, nodeName, userAgent, sessions, lanes: createLanes(rates, clock), clock, log });
  const closing = new AbortController();

  /** Sends it again and again while that may help. */
  async function persist<T>(wanted: Wanted<T>, { deadlineMs, signal }: Patience, watch?: Watch): Promise<T> {
    const { verb, method } = wanted;
    const limits = {
      verb,
      deadlineMs,
      signal,
      closing: closing.signal,
      clock,
      obstacle: () => whyAway(sessions.state()),
    };
    return await withinLimits(limits, async (limit) => {
      if (watch !== undefined) watch.opened = limit.lift;
      const mayRepeat = () => watch?.isOpen !== true;
      return await sendAgain(() => send(wanted, limit.signal), { method, mayRepeat, limit, clock, random });
    });
  }

  return {
    async request(request) {
      const sent = toSend(request);
      const taker = () => createWholeAnswer(sent.verb);
      return await persist(
        { ...sent, lasts: false, taker },
        { deadlineMs: request.deadlineMs, signal: request.signal },
      );
    },
    async lines({ deadlineMs = OPEN_WITHIN_MS, signal, ...request }, onLine, opened) {
      const sent = toSend(request);
      const watch: Watch = { isOpen: false, opened: undefined };
      const begun = () => {
        watch.isOpen = true;
        watch.opened?.();
        sessions.served();
        opened?.();
      };
      const taker = () => createLinesAnswer(sent.verb, onLine, begun);
      try {
        return await persist({ ...sent, lasts: true, taker }, { deadlineMs, signal }, watch);
      } catch (error) {
        if (error instanceof KubeError) return error;
        throw error;
      }
    },
    state: sessions.state,
    close() {
      const why = new KubeError("CLOSED", "the connection to the API server was closed");
      closing.abort(why);
      sessions.close(why);
    },
  };
}

interface Patience {
  readonly deadlineMs: number;
  readonly signal: AbortSignal | undefined;
}

/** A watch is open once its answer has begun: then its deadline is met, and it is not repeated, as its lines are told already. */
interface Watch {
  isOpen: boolean;
  opened: (() => void) | undefined;
}

function toSend(request: Omit<KubeRequest, "deadlineMs" | "signal">): Omit<Wanted<unknown>, "lasts" | "taker"> {
  const { method, path, query = {}, body, contentType = "application/json", lane = "main", isUrgent } = request;
  const pairs = Object.entries(query).filter((pair): pair is [string, string] => pair[1] !== undefined);
  const search = pairs.length === 0 ? "" : `?${new URLSearchParams(pairs)}`;
  return { verb: `${method} ${path}`, method, path, search, body: textOf(body), contentType, lane, isUrgent };
}

function textOf(body: unknown): Wanted<unknown>["body"] {
  if (typeof body === "function") return () => JSON.stringify(body());
  const text = body === undefined ? undefined : JSON.stringify(body);
  return text === undefined ? undefined : () => text;
}

function whyAway(state: ConnectionState): KubeError | undefined {
  return state.kind === "away" ? state.lastFailure.why : undefined;
}
