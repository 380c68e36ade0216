import type { IncomingHttpHeaders } from "node:http";
import type { Duplex } from "node:stream";
import type { UserInfo } from "./user-info.ts";

/** A request of the node's API that has been authenticated and authorized. */
export interface ApiRequest {
  readonly method: string;
  /** The path as sent, without the query. */
  readonly path: string;
  /** The segments of the route's pattern, decoded: `{pod}` is `params.pod`. */
  readonly params: Readonly<Record<string, string>>;
  readonly query: URLSearchParams;
  readonly headers: IncomingHttpHeaders;
  readonly user: UserInfo;
  /** Aborts when the client goes away, or the server stops. */
  readonly signal: AbortSignal;
  /** Reads the whole body. Rejects with `ApiError` 413 beyond `limitBytes`. */
  readonly body: (limitBytes: number) => Promise<Buffer>;
}

/**
 * The answer to a request, over HTTP/1.1 or HTTP/2. A route that throws before `start` is answered with the code and
 * message of its `ApiError`; afterwards the connection or stream is reset, so that the client never takes a part for
 * the whole.
 */
export interface ApiResponse {
  /** Sends the status and the headers. */
  start(status: number, headers?: Readonly<Record<string, string>>): void;
  /** Resolves when the client may be sent more. Rejects when it has gone away. */
  write(chunk: Uint8Array | string): Promise<void>;
  /** Ends the answer. */
  end(chunk?: Uint8Array | string): void;
}

/** A request that asks for another protocol on its HTTP/1.1 connection (RFC 9110, section 7.8). */
export interface UpgradeRequest extends Omit<ApiRequest, "body"> {
  /** Names and values in turn, as received. */
  readonly rawHeaders: readonly string[];
  /** The value of the header `Upgrade`. */
  readonly protocol: string;
  /** The client's connection: nothing has been written to it. The route owns it and ends it. */
  readonly socket: Duplex;
  /** What the client sent behind its headers. */
  readonly head: Buffer;
}

/** The methods that a route has, or all. */
export type RouteMethods = readonly string[] | "all";

/** One endpoint of the node's API. */
export interface Route {
  /** Segments in braces are parameters, `{path...}` at the end takes the rest: `/containerLogs/{namespace}/{pod}/{container}`. */
  readonly pattern: string;
  readonly methods: RouteMethods;
  /** The one media type of its answers: a client that accepts no such type gets 406. Undefined: whatever the client accepts. */
  readonly produces?: string;
  /** Throws `ApiError` for a bad request. */
  readonly handle: (request: ApiRequest, response: ApiResponse) => Promise<void>;
  /** Undefined where nothing is upgraded: then the request is handled as an ordinary one. Throws `ApiError` before it writes. */
  readonly upgrade?: (request: UpgradeRequest) => Promise<void>;
}
