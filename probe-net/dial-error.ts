import { maxHeaderSize } from "node:http";
import { onAbort } from "../host/async/abort.ts";

/**
 * A probe or HTTP hook that got no complete answer. `code` is the kernel's (`ECONNREFUSED`), that of Node's TLS or DNS
 * (`ERR_SSL_…`, `ENOTFOUND`), for gRPC a status code (`UNAVAILABLE`), or one of: `ETIMEDOUT`; `ECANCELED` by the
 * caller's signal; `ENOTTLS` for a server that answers a TLS handshake in plain text; `ENOTHTTP` for an answer that is
 * not HTTP; `EINVAL` for a header that cannot be sent; `EOF` for a connection closed before the answer; `EUNFINISHED`
 * for an answer that started and then breaks off or does not end in time; `EIO` for an error without a code.
 */
export class DialError extends Error {
  override readonly name = "DialError";
  readonly code: string;
  constructor(code: string, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}

export interface DialOptions {
  readonly timeoutMs: number;
  readonly signal: AbortSignal;
}

/**
 * Runs `work` under a signal that aborts after the timeout or with the caller's signal. The timer and the listener are
 * removed afterwards: there are many probes a second, and the caller's signal lives as long as the container. Rejects
 * with `DialError`.
 */
export async function withTimeout<T>(
  { timeoutMs, signal }: DialOptions,
  work: (limit: AbortSignal) => Promise<T>,
): Promise<T> {
  const limit = new AbortController();
  const timer = setTimeout(() => limit.abort(new DialError("ETIMEDOUT", "no answer in time")), timeoutMs);
  const remove = onAbort(signal, () => limit.abort(signal.reason));
  try {
    return await work(limit.signal);
  } catch (error) {
    throw toDialError(error, limit.signal);
  } finally {
    clearTimeout(timer);
    remove();
  }
}

/**
 * Converts an error of node:http, node:tls or node:net. Our own timeout is `ETIMEDOUT`, an abort by the caller
 * `ECANCELED`.
 */
function toDialError(error: unknown, limit: AbortSignal): DialError {
  if (error instanceof DialError) return error;
  if (limit.aborted)
    return limit.reason instanceof DialError
      ? limit.reason
      : new DialError("ECANCELED", "given up", { cause: limit.reason });
  const { code = "EIO", message = String(error) } = error as { readonly code?: unknown; readonly message?: string };
  const goError = toGoError(String(code), message);
  if (goError !== undefined) return new DialError(...goError, { cause: error });
  if (code === "ERR_SSL_WRONG_VERSION_NUMBER")
    return new DialError("ENOTTLS", "http: server gave HTTP response to HTTPS client", { cause: error });
  return new DialError(String(code), message, { cause: error });
}

/** Maps errors of node:http to the messages of Go's net/http, which the kubelet's probe results contain. */
function toGoError(code: string, message: string): readonly [code: string, message: string] | undefined {
  if (code === "ECONNRESET" && message === "socket hang up") return ["EOF", "EOF"];
  if (code === "ECONNRESET" && message === "aborted") return ["EOF", "unexpected EOF"];
  // Closed during the TLS handshake.
  if (code === "ECONNRESET" && message.startsWith("Client network socket disconnected")) return ["EOF", "EOF"];
  if (code === "HPE_HEADER_OVERFLOW")
    return ["ENOTHTTP", `net/http: server response headers exceeded ${maxHeaderSize} bytes; aborted`];
  const [, header] = /^Invalid character in header content \["(.*)"\]$/s.exec(message) ?? [];
  if (header !== undefined) return ["EINVAL", `net/http: invalid header field value for ${JSON.stringify(header)}`];
  if (code.startsWith("HPE_"))
    return ["ENOTHTTP", "net/http: HTTP/1.x transport connection broken: malformed HTTP response"];
  return undefined;
}
