import { type ClientHttp2Stream, constants, type IncomingHttpHeaders, type OutgoingHttpHeaders } from "node:http2";
import { onAbort } from "../../host/async/abort.ts";
import { KubeError } from "../error.ts";
import type { Session } from "./session.ts";

/** Status and headers of a response. */
export interface ResponseHead {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
}

/**
 * Receives a response. A `KubeError` thrown by one of these methods cancels the stream and becomes the result of the
 * request.
 */
export interface ResponseSink {
  onHead(head: ResponseHead): void;
  onChunk(bytes: Buffer): void;
}

export interface OutgoingRequest {
  readonly verb: string;
  readonly headers: OutgoingHttpHeaders;
  readonly body: string | undefined;
  /** Aborts with a `KubeError`. */
  readonly signal: AbortSignal;
}

/**
 * Sends one request on a session and passes the response to `sink` as it arrives. Resolves when the response is
 * complete; rejects with `KubeError` as soon as it cannot complete any more. `sink` is not called after that.
 */
export function sendHttp2Request(session: Session, outgoing: OutgoingRequest, sink: ResponseSink): Promise<void> {
  const { verb, headers, body, signal } = outgoing;
  return new Promise((resolve, reject) => {
    if (signal.aborted) return reject(signal.reason);
    let stream: ClientHttp2Stream;
    try {
      stream = session.open(headers, body !== undefined);
    } catch (cause) {
      const message = `${verb}: the connection accepts no more requests`;
      return reject(new KubeError("CLOSED", message, { cause, isUnprocessed: true }));
    }
    const state: ResponseState = { head: undefined, bytes: 0, isSettled: false, cause: undefined };

    function settle(failure: KubeError | undefined): void {
      if (state.isSettled) return;
      state.isSettled = true;
      remove();
      if (failure === undefined) resolve();
      else reject(failure);
    }
    function cancel(reason: KubeError): void {
      settle(reason);
      stream.close(constants.NGHTTP2_CANCEL);
    }
    function handle(work: () => void): void {
      session.onActivity();
      if (state.isSettled) return;
      try {
        work();
      } catch (error) {
        if (!(error instanceof KubeError)) throw error;
        cancel(error);
      }
    }

    const remove = onAbort(signal, () => cancel(signal.reason));
    stream.on("response", (answer) =>
      handle(() => {
        state.head = { status: Number(answer[":status"]), headers: answer };
        sink.onHead(state.head);
      }),
    );
    stream.on("data", (bytes: Buffer) =>
      handle(() => {
        state.bytes += bytes.length;
        sink.onChunk(bytes);
      }),
    );
    stream.on("error", (cause) => {
      state.cause = cause;
    });
    // 'end' is emitted for a lost connection too: only the RST code shows whether the response is complete. The reason
    // for a lost connection is known only after its streams have closed.
    stream.on("close", () => {
      const end = () => settle(streamError(verb, session, stream, state));
      if (stream.rstCode === constants.NGHTTP2_NO_ERROR) end();
      else setImmediate(end);
    });
    if (body !== undefined) stream.end(body);
  });
}

interface ResponseState {
  head: ResponseHead | undefined;
  bytes: number;
  isSettled: boolean;
  cause: unknown;
}

/** The error of a closed stream; undefined when the response is complete. */
function streamError(
  verb: string,
  session: Session,
  stream: ClientHttp2Stream,
  state: ResponseState,
): KubeError | undefined {
  const { head, bytes, cause } = state;
  const isComplete = stream.rstCode === constants.NGHTTP2_NO_ERROR && head !== undefined;
  if (isComplete) {
    const expectedLength = head.headers["content-length"];
    // Bun 1.4 does not compare content-length with the bytes received.
    if (expectedLength === undefined || Number(expectedLength) === bytes) return undefined;
    return new KubeError("NOT_JSON", `${verb}: the answer ended after ${bytes} of ${expectedLength} bytes`, {
      status: head.status,
    });
  }
  if (head === undefined && session.wasNotProcessed(stream))
    return new KubeError("CLOSED", `${verb}: the API server did not process the request`, {
      cause,
      isUnprocessed: true,
    });
  const closeError = session.closeError();
  if (closeError !== undefined)
    return new KubeError(closeError.code, `${verb}: ${closeError.message}`, { cause: closeError.cause });
  const where = head === undefined ? "without an answer" : "in the middle of its answer";
  const message = `${verb}: the API server reset the stream ${where} (HTTP/2 code ${stream.rstCode})`;
  return new KubeError("CLOSED", message, { cause });
}
