import type { OutgoingHttpHeaders } from "node:http2";
import type { Clock, Instant } from "../../host/clock.ts";
import type { Log } from "../../host/log.ts";
import type { ClusterSource } from "../auth/cluster-endpoint.ts";
import type { Identity } from "../auth/credentials.ts";
import { isAway, KubeError } from "../error.ts";
import { describeIdentity, forbiddenWords, unauthorizedWords } from "./connect-error.ts";
import { orAborted } from "./deadline.ts";
import type { Lane, Lanes } from "./flow-control.ts";
import { exchange, type Taker } from "./http2-request.ts";
import type { Access, Session } from "./session.ts";
import type { Sessions } from "./session-pool.ts";

/** A request as it is sent, and who takes its answer, anew for each time that it is sent. */
export interface Wanted<T> {
  /** Names it in errors, e.g. `GET /api/v1/nodes/a`. */
  readonly verb: string;
  readonly method: string;
  readonly path: string;
  /** `?` and what follows, or nothing. */
  readonly search: string;
  /** Asked for when the request goes out. */
  readonly body: (() => string) | undefined;
  readonly contentType: string;
  readonly lane: Lane;
  readonly isUrgent: (() => boolean) | undefined;
  /** Its answer goes on until somebody ends it. */
  readonly lasts: boolean;
  readonly taker: () => Taker & { value(): T };
}

export interface SenderOptions {
  readonly cluster: ClusterSource;
  /** What this node is called, where whoever sends is one. */
  readonly nodeName: string | undefined;
  readonly userAgent: string;
  readonly sessions: Sessions;
  readonly lanes: Lanes;
  readonly clock: Clock;
  readonly log: Log;
}

/** Sends a request once; once more only where a newer identity can be had than one that was refused. Rejects with `KubeError`. */
export type Sender = <T>(wanted: Wanted<T>, signal: AbortSignal) => Promise<T>;

export function createSender(options: SenderOptions): Sender {
  const { sessions, lanes } = options;
  const attempt = createAttempt(options);

  async function accessNow(signal: AbortSignal): Promise<Access> {
    const asked = readAccess(options.cluster).catch((error: unknown) => {
      if (error instanceof KubeError) sessions.failed(error);
      throw error;
    });
    return await orAborted(asked, signal);
  }

  async function attemptAs<T>(access: Access, wanted: Wanted<T>, signal: AbortSignal, before?: Identity): Promise<T> {
    const outcome = await attempt(access, wanted, signal);
    if (outcome.kind === "done") return outcome.value;
    const { error, ofServer } = outcome;
    if (error.code === "UNAUTHORIZED" && before === undefined) {
      access.cluster.credentials.refused();
      const fresh = await accessNow(signal);
      if (fresh.identity !== access.identity) return await attemptAs(fresh, wanted, signal, access.identity);
    }
    if (isAway(ofServer)) sessions.failed(ofServer);
    else if (error.status !== undefined) sessions.served();
    throw error;
  }

  return async (wanted, signal) => {
    const leave = await lanes.enter(wanted.lane, wanted.lasts, signal, wanted.isUrgent);
    try {
      return await attemptAs(await accessNow(signal), wanted, signal);
    } finally {
      leave();
    }
  };
}

async function readAccess(source: ClusterSource): Promise<Access> {
  const cluster = await source.latest();
  return { cluster, identity: await cluster.credentials.identity() };
}

type Outcome<T> =
  | { readonly kind: "done"; readonly value: T }
  /** `ofServer`: the same without the request, where it is none of its own. */
  | { readonly kind: "failed"; readonly error: KubeError; readonly ofServer: KubeError };

function createAttempt({ userAgent, nodeName, sessions, clock, log }: SenderOptions) {
  return async <T>(access: Access, wanted: Wanted<T>, signal: AbortSignal): Promise<Outcome<T>> => {
    const { verb, method, path, body, taker } = wanted;
    const startedAt = clock.now();
    const note = (outcome: string) =>
      log.debug({ method, path, outcome, durationMs: clock.now() - startedAt }, "API request");
    let session: Session | undefined;
    try {
      session = await sessions.take(access, signal);
      // Whoever waited for it too may have filled it in the same moment.
      while (session.isFull()) session = await sessions.take(access, signal);
      const answer = taker();
      await exchange(session, { verb, headers: headersOf(userAgent, access, wanted), body: body?.(), signal }, answer);
      const value = answer.value();
      sessions.served();
      note("done");
      return { kind: "done", value };
    } catch (error) {
      if (!(error instanceof KubeError)) throw error;
      note(error.code);
      if (error.code === "TIMEOUT") sessions.timedOut(startedAt, session);
      const told = explain(error, access, nodeName, clock.now());
      const lost = told.status === undefined ? session?.why() : undefined;
      return { kind: "failed", error: told, ofServer: lost ?? told };
    }
  };
}

function headersOf(
  userAgent: string,
  { cluster: { server }, identity: { token } }: Access,
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
function explain(error: KubeError, access: Access, nodeName: string | undefined, now: Instant): KubeError {
  if (error.status === 401) return new KubeError(error.code, unauthorizedWords({ ...access, now }), error);
  if (error.status !== 403) return error;
  const { identity } = access;
  const who = nodeName === undefined ? `we are ${describeIdentity(identity)}` : forbiddenWords(identity, nodeName);
  return new KubeError(error.code, `${error.message}; ${who}`, error);
}
