import { type ClientHttp2Stream, constants, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http2";
import { KubeError } from "../error.ts";
import type { Session } from "./session.ts";

/** How a server begins to answer. */
export interface Head {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}

/** Who takes the answer. A `KubeError` that one of these throws gives the stream up and becomes its outcome. */
export interface Taker {
  begun(head: Head): void;
  chunk(bytes: Buffer): void;
}

export interface Sending {
  readonly verb: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body: string | undefined;
  /** Aborts with a `KubeError`. */
  readonly signal: AbortSignal;
}

/**
 * Sends one request on a session and hands its answer over as it comes. Resolves when the answer is complete; rejects with `KubeError`
 * as soon as it is known that it will not be. Nothing is handed over afterwards.
 */
export function exchange(session: Session, sending: Sending, taker: Taker): Promise<void> {
  const { verb, headers, body, signal } = sending;
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    let stream: ClientHttp2Stream;
    try {
      stream = session.open(headers, body !== undefined);
    } catch (cause) {
      const message = `${verb}: the connection takes no more requests`;
      return reject(new KubeError("CLOSED", message, { cause, isUnprocessed: true }));
    }
    const got: Got = { head: undefined, bytes: 0, isSettled: false, cause: undefined };

    function settle(failure: KubeError | undefined): void {
      if (got.isSettled) return;
      got.isSettled = true;
      signal.removeEventListener("abort", abort);
      if (failure === undefined) resolve();
      else reject(failure);
    }
    function giveUp(why: KubeError): void {
      settle(why);
      stream.close(constants.NGHTTP2_CANCEL);
    }
    function abort(): void {
      giveUp(signal.reason);
    }
    function take(work: () => void): void {
      session.heard();
      if (got.isSettled) return;
      try {
        work();
      } catch (error) {
        if (!(error instanceof KubeError)) throw error;
        giveUp(error);
      }
    }

    signal.addEventListener("abort", abort, { once: true });
    stream.on("response", (answer) =>
      take(() => {
        got.head = { status: Number(answer[":status"]), headers: answer };
        taker.begun(got.head);
      }),
    );
    stream.on("data", (bytes: Buffer) =>
      take(() => {
        got.bytes += bytes.length;
        taker.chunk(bytes);
      }),
    );
    stream.on("error", (cause) => {
      got.cause = cause;
    });
    // 'end' comes for a lost connection too; only the code tells whether the answer is complete. Why a connection was lost is known
    // only after its streams have closed.
    stream.on("close", () => {
      const end = () => settle(outcome(verb, session, stream, got));
      if (stream.rstCode === constants.NGHTTP2_NO_ERROR) end();
      else setImmediate(end);
    });
    if (body !== undefined) stream.end(body);
  });
}

interface Got {
  head: Head | undefined;
  bytes: number;
  isSettled: boolean;
  cause: unknown;
}

/** How a stream that was closed has ended; undefined: well. */
function outcome(verb: string, session: Session, stream: ClientHttp2Stream, got: Got): KubeError | undefined {
  const { head, bytes, cause } = got;
  const isComplete = stream.rstCode === constants.NGHTTP2_NO_ERROR && head !== undefined;
  if (isComplete) {
    const promised = head.headers["content-length"];
    // Bun 1.4 does not compare the two.
    if (promised === undefined || Number(promised) === bytes) return undefined;
    return new KubeError("NOT_JSON", `${verb}: the answer ended after ${bytes} of ${promised} bytes`, {
      status: head.status,
    });
  }
  if (head === undefined && session.hasPassedOver(stream))
    return new KubeError("CLOSED", `${verb}: the API server did not take the request`, { cause, isUnprocessed: true });
  const lost = session.why();
  if (lost !== undefined) return new KubeError(lost.code, `${verb}: ${lost.message}`, { cause: lost.cause });
  const where = head === undefined ? "without an answer" : "in the middle of its answer";
  const message = `${verb}: the API server gave the request up ${where} (HTTP/2 code ${stream.rstCode})`;
  return new KubeError("CLOSED", message, { cause });
}
