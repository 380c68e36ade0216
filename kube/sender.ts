import type { OutgoingHttpHeaders } from "node:http2";
import type { Clock, Instant } from "../host/clock.ts";
import type { Log } from "../host/log.ts";
import type { Cluster } from "./cluster.ts";
import { describeIdentity, ownTimeProblem } from "./connect-error.ts";
import type { Identity } from "./credentials.ts";
import { orAborted } from "./deadline.ts";
import { KubeError, type KubeErrorCode } from "./error.ts";
import { exchange, type Taker } from "./exchange.ts";
import type { Lane, Lanes } from "./lanes.ts";
import type { Sessions } from "./sessions.ts";

/** A request as it is sent, and who takes its answer, anew for each time that it is sent. */
export interface Wanted<T> {
  /** Names it in errors, e.g. `GET /api/v1/nodes/a`. */
  readonly verb: string;
  readonly method: string;
  readonly path: string;
  /** `?` and what follows, or nothing. */
  readonly search: string;
  readonly body: string | undefined;
  readonly contentType: string;
  readonly lane: Lane;
  /** Its answer goes on until somebody ends it. */
  readonly lasts: boolean;
  readonly taker: () => Taker & { value(): T };
}

export interface SenderOptions {
  readonly cluster: Cluster;
  readonly userAgent: string;
  readonly sessions: Sessions;
  readonly lanes: Lanes;
  readonly clock: Clock;
  readonly log: Log;
}

/** After such a failure there is no server for us, as far as we know. */
const AWAY: ReadonlySet<KubeErrorCode> = new Set(["UNREACHABLE", "TLS", "UNAUTHORIZED", "CREDENTIALS"]);

/** Sends a request once; once more only where a newer identity can be had than one that was refused. Rejects with `KubeError`. */
export type Sender = <T>(wanted: Wanted<T>, signal: AbortSignal) => Promise<T>;

export function createSender({ cluster, userAgent, sessions, lanes, clock, log }: SenderOptions): Sender {
  const { server, credentials } = cluster;

  async function sendAs<T>(identity: Identity, wanted: Wanted<T>, signal: AbortSignal): Promise<T> {
    const { verb, method, path, body, taker } = wanted;
    const startedAt = clock.now();
    const note = (outcome: string) =>
      log.debug({ method, path, outcome, durationMs: clock.now() - startedAt }, "API request");
    try {
      const session = await sessions.take(identity, signal);
      const answer = taker();
      await exchange(session, { verb, headers: headersOf(server, userAgent, identity, wanted), body, signal }, answer);
      const value = answer.value();
      sessions.served();
      note("done");
      return value;
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      note(error.code);
      const told = explain(error, identity, clock.now());
      if (AWAY.has(told.code)) sessions.failed(told);
      else if (told.status !== undefined) sessions.served();
      throw told;
    }
  }

  async function identityNow(signal: AbortSignal): Promise<Identity> {
    const asked = credentials.identity().catch((error: unknown) => {
      if (error instanceof KubeError) sessions.failed(error);
      throw error;
    });
    return await orAborted(asked, signal);
  }

  return async (wanted, signal) => {
    const leave = await lanes.enter(wanted.lane, wanted.lasts, signal);
    try {
      const identity = await identityNow(signal);
      try {
        return await sendAs(identity, wanted, signal);
      } catch (error) {
        if (!(error instanceof KubeError && error.code === "UNAUTHORIZED")) throw error;
        credentials.refused();
        const fresh = await identityNow(signal);
        if (fresh === identity) throw error;
        return await sendAs(fresh, wanted, signal);
      }
    } finally {
      leave();
    }
  };
}

function headersOf(
  server: URL,
  userAgent: string,
  { token }: Identity,
  { method, path, search, body, contentType, lasts }: Wanted<unknown>,
): OutgoingHttpHeaders {
  return {
    ":method": method,
    ":path": `${server.pathname.replace(/\/$/, "")}${path}${search}`,
    ":authority": server.host,
    accept: "application/json",
    // A watch is not packed, as its lines would wait for one another. A list becomes a tenth, which counts where the way is long: only
    // 64 KiB are under way at a time.
    ...(lasts ? {} : { "accept-encoding": "gzip" }),
    "user-agent": userAgent,
    ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
    ...(body === undefined ? {} : { "content-type": contentType }),
  };
}

/** Says whom the server has turned away, and why, where we can tell. */
function explain(error: KubeError, identity: Identity, now: Instant): KubeError {
  const more = (text: string) => new KubeError(error.code, `${error.message}; ${text}`, error);
  if (error.status === 401) {
    const advice = `it does not accept ${describeIdentity(identity)}: renew it, or use the kubeconfig of this cluster`;
    return more(ownTimeProblem(identity, now) ?? advice);
  }
  return error.status === 403 ? more(`we are ${describeIdentity(identity)}`) : error;
}
