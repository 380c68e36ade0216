import type { IncomingHttpHeaders } from "node:http";
import type { Duplex } from "node:stream";
import type { Log } from "../../../host/log/log.ts";
import { acceptsType } from "./accept.ts";
import { ApiError } from "./api-error.ts";
import { sendApiError, sendGoError, sendText, type TrackedResponse } from "./api-response.ts";
import type { AdmitRequest } from "./auth/admit-request.ts";
import type { RequestCredentials } from "./auth/authenticator.ts";
import { withoutTokenProtocol } from "./auth/bearer-token.ts";
import { escapeHtml } from "./html.ts";
import { parseRequestTarget, type RequestTarget } from "./request-target.ts";
import type { ApiRequest } from "./route.ts";
import type { RouteMatch, RouteTable } from "./route-table.ts";

/** A request as it has arrived, whatever the version of HTTP. */
export interface ReceivedRequest {
  readonly method: string;
  /** The target of the request line, or `:path`. */
  readonly target: string;
  readonly headers: IncomingHttpHeaders;
  readonly socket: RequestCredentials["socket"];
  readonly signal: AbortSignal;
  /** Called when the sender is known, and may do what the request asks. */
  readonly onAuthenticated: () => void;
  readonly body: ApiRequest["body"];
  /** Undefined for a request that asks for no other protocol. */
  readonly upgrade: ReceivedUpgrade | undefined;
}

export interface ReceivedUpgrade {
  readonly protocol: string;
  readonly rawHeaders: readonly string[];
  readonly socket: Duplex;
  readonly head: Buffer;
}

export interface RequestDispatchDeps {
  readonly routes: RouteTable;
  readonly admit: AdmitRequest;
  /** Called with each request; its result when the request has been answered. */
  readonly onRequest?: (method: string, target: string) => () => void;
  readonly log: Log;
}

/**
 * Answers a request by its route, in the kubelet's order: a path that is not registered gets its 404 first, then come
 * authentication, authorization and the route. Never rejects.
 */
export async function dispatchRequest(
  deps: RequestDispatchDeps,
  request: ReceivedRequest,
  response: TrackedResponse,
): Promise<void> {
  const { log } = deps;
  const onAnswered = deps.onRequest?.(request.method, request.target);
  try {
    await answer(deps, request, response);
  } catch (error) {
    if (response.isStarted()) {
      log.debug({ err: error }, "an answer of the node's API has ended early");
      response.abort();
    } else if (error instanceof ApiError) sendApiError(response, error);
    else if (!request.signal.aborted) {
      log.error({ err: error }, "the node's API cannot answer a request");
      sendText(response, 500, error instanceof Error ? error.message : String(error));
    }
  } finally {
    onAnswered?.();
  }
}

async function answer(
  { routes, admit }: RequestDispatchDeps,
  request: ReceivedRequest,
  response: TrackedResponse,
): Promise<void> {
  const { method, headers, socket, signal } = request;
  const target = parseRequestTarget(request.target);
  if (target === undefined) return sendText(response, 400, "400 Bad Request");
  const match = routes.match(method, target);
  if (match.kind === "unregistered") return sendGoError(response, 404, "404 page not found");
  if (match.kind === "redirect") return sendRedirect(response, method, match.location);
  const credentials = { ...credentialHeaders(headers), socket, signal };
  const user = await admit({ method, path: target.path, credentials });
  if (!user.groups.includes("system:unauthenticated")) request.onAuthenticated();
  if (match.kind === "not found") return sendText(response, 404, "404: Page Not Found");
  if (match.kind === "method not allowed")
    return sendText(response, 405, "405: Method Not Allowed", { allow: match.allow.join(", ") });
  const { produces } = match.route;
  if (produces !== undefined && !acceptsType(headers.accept, produces))
    return sendText(response, 406, `406: Not Acceptable\n\nAvailable representations: ${produces}`);
  await callRoute(match, { request, target, user }, response);
}

function credentialHeaders({
  authorization,
  ...headers
}: IncomingHttpHeaders): Pick<RequestCredentials, "authorization" | "websocketProtocols"> {
  const isWebSocket = headers.upgrade?.toLowerCase() === "websocket";
  return { authorization, websocketProtocols: isWebSocket ? headers[SUBPROTOCOLS] : undefined };
}

interface AdmittedRequest {
  readonly request: ReceivedRequest;
  readonly target: RequestTarget;
  readonly user: ApiRequest["user"];
}

async function callRoute(
  { route, params }: Extract<RouteMatch, { kind: "route" }>,
  { request, target, user }: AdmittedRequest,
  response: TrackedResponse,
): Promise<void> {
  const { method, signal, upgrade, body } = request;
  const { escapedPath: path, query } = target;
  const headers = withoutCredentials(request.headers);
  const common = { method, path, params, query, headers, user, signal };
  if (upgrade !== undefined && route.upgrade !== undefined) {
    const rawHeaders = withoutRawCredentials(upgrade.rawHeaders);
    await route.upgrade({ ...common, ...upgrade, rawHeaders });
    return;
  }
  if (upgrade !== undefined) discardInput(upgrade.socket);
  await route.handle({ ...common, body }, response);
  if (!response.isEnded()) response.end();
}

/** Only a connection that is read notices that its client goes away. */
function discardInput(socket: Duplex): void {
  socket.once("end", () => socket.destroy());
  socket.resume();
}

/** No endpoint needs the credentials once the user is known, and none may forward them to the runtime. */
function withoutCredentials(headers: IncomingHttpHeaders): IncomingHttpHeaders {
  const kept = Object.entries(headers).filter(([name]) => !name.startsWith(":") && name !== AUTHORIZATION);
  const protocols = headers[SUBPROTOCOLS];
  return {
    ...Object.fromEntries(kept),
    ...(protocols !== undefined && { [SUBPROTOCOLS]: withoutTokenProtocol(protocols) }),
  };
}

function withoutRawCredentials(rawHeaders: readonly string[]): readonly string[] {
  return rawHeaders.flatMap((text, index) => {
    if (index % 2 === 1) return [];
    const [name, value = ""] = [text.toLowerCase(), rawHeaders[index + 1]];
    if (name === AUTHORIZATION) return [];
    return [text, name === SUBPROTOCOLS ? withoutTokenProtocol(value) : value];
  });
}

const AUTHORIZATION = "authorization";
const SUBPROTOCOLS = "sec-websocket-protocol";

/** As Go's `http.Redirect`. */
function sendRedirect(response: TrackedResponse, method: string, location: string): void {
  const html = `<a href="${escapeHtml(location)}">Temporary Redirect</a>.\n\n`;
  const type = "text/html; charset=utf-8";
  if (method === "GET") sendText(response, 307, html, { location, "content-type": type });
  else {
    // What has no body has no type.
    response.start(307, { location, "content-length": "0", ...(method === "HEAD" && { "content-type": type }) });
    response.end();
  }
}
