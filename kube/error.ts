export type KubeErrorCode =
  /** No connection: unknown host, connection refused, no route. */
  | "UNREACHABLE"
  /** No answer before the deadline. */
  | "TIMEOUT"
  /** The TLS handshake failed: a wrong CA, an expired certificate, another name. */
  | "TLS"
  | "UNAUTHORIZED"
  | "FORBIDDEN"
  | "NOT_FOUND"
  | "CONFLICT"
  | "ALREADY_EXISTS"
  /** The API server rejects the request: it is invalid, or of a kind that the server does not serve. */
  | "INVALID"
  /** The resourceVersion is too old: relist. */
  | "GONE"
  | "TOO_MANY_REQUESTS"
  /** The server failed, or something else than the API server answered. */
  | "SERVER"
  /** The answer is not JSON, or is incomplete. */
  | "NOT_JSON"
  | "TOO_LARGE"
  /** By the caller's signal. */
  | "CANCELLED"
  /** The connection was closed, by us or by the other side. */
  | "CLOSED"
  /** Our credentials cannot be read: a missing file, a failing exec plugin. */
  | "CREDENTIALS";

export interface KubeErrorOptions extends ErrorOptions {
  readonly status?: number | undefined;
  readonly reason?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly isUnprocessed?: boolean;
  readonly fields?: readonly string[];
  readonly serverMessage?: string | undefined;
}

/**
 * A request that failed, or a kubeconfig that cannot be used. Callers decide by `code`, `reason`, `fields` and
 * `isUnprocessed`; the message is for people. It never contains a token, a key, a header or a request body.
 */
export class KubeError extends Error {
  override readonly name = "KubeError";
  readonly code: KubeErrorCode;
  /** The HTTP status; undefined when there was no answer. */
  readonly status: number | undefined;
  /** `metav1.Status.reason`, such as `NodeLeaseExpired` or `AlreadyExists`. */
  readonly reason: string | undefined;
  /** The server's Retry-After. */
  readonly retryAfterMs: number | undefined;
  /** True if the server has certainly not processed the request, so that repeating it is safe. */
  readonly isUnprocessed: boolean;
  /** The fields that the server rejects, such as `metadata.uid`, from `details.causes`. */
  readonly fields: readonly string[];
  /**
   * The API server's own message, such as `serviceaccounts "x" not found`, for texts that users know from the kubelet;
   * undefined if the server gave none.
   */
  readonly serverMessage: string | undefined;

  constructor(code: KubeErrorCode, message: string, options: KubeErrorOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.status = options.status;
    this.reason = options.reason;
    this.retryAfterMs = options.retryAfterMs;
    this.isUnprocessed = options.isUnprocessed ?? false;
    this.fields = options.fields ?? [];
    this.serverMessage = options.serverMessage;
  }
}

const ACCESS_FAILURES: ReadonlySet<KubeErrorCode> = new Set(["UNREACHABLE", "TLS", "UNAUTHORIZED", "CREDENTIALS"]);

/** Whether the failure means that the server is unreachable or rejects our identity, whatever the request. */
export function isAccessFailure({ code }: KubeError): boolean {
  return ACCESS_FAILURES.has(code);
}

/** Whether the session pool logs this failure itself, once for all requests, so that callers need not log it. */
export function isLoggedBySessionPool(error: unknown): boolean {
  if (!(error instanceof KubeError)) return false;
  return isAccessFailure(error) || (error.code === "TIMEOUT" && isLoggedBySessionPool(error.cause));
}

/** True for a `KubeError` with one of the codes. */
export function hasCode(error: unknown, ...codes: readonly KubeErrorCode[]): boolean {
  return error instanceof KubeError && codes.includes(error.code);
}

/** Whether the session pool logs this error itself, or the error is a deliberate abort. */
export function isLoggedElsewhere(error: unknown): boolean {
  return isLoggedBySessionPool(error) || hasCode(error, "CLOSED", "CANCELLED");
}

/** Whether the API server could not be reached or did not respond, so a retry of the same request may succeed. */
export function isOutage(error: unknown): boolean {
  return isLoggedElsewhere(error) || hasCode(error, "TIMEOUT");
}

/** Whether the server could not be reached, did not respond or has failed: what it has for the request is unknown. */
export function isServerFailure(error: unknown): boolean {
  return hasCode(error, "UNREACHABLE", "TIMEOUT", "SERVER");
}

/** The server responds but serves no one, or not us: any request may succeed later. */
export function isServerUnavailable(error: unknown): boolean {
  return hasCode(error, "SERVER", "TOO_MANY_REQUESTS", "TLS", "UNAUTHORIZED", "CREDENTIALS", "NOT_JSON");
}

/**
 * The fields that we read of a `metav1.Status`: the body of an error response, and the object of a watch's ERROR event.
 */
export interface StatusFields {
  readonly code?: number | undefined;
  readonly reason?: string | undefined;
  readonly message?: string | undefined;
  readonly details?:
    | {
        readonly retryAfterSeconds?: number | undefined;
        readonly causes?: readonly { readonly field: string }[];
      }
    | undefined;
}

/**
 * Reads a `metav1.Status` leniently: returns those fields that have the right type. The value may be anything if a
 * proxy or a failing server sent it.
 */
export function readStatus(value: unknown): StatusFields {
  if (typeof value !== "object" || value === null || Reflect.get(value, "kind") !== "Status") return {};
  const { code, reason, message, details } = value as Readonly<Record<string, unknown>>;
  const { retryAfterSeconds, causes } = (details ?? {}) as Readonly<Record<string, unknown>>;
  const fields = (Array.isArray(causes) ? causes : []).map((cause: { field?: unknown } | null) => cause?.field);
  return {
    code: typeof code === "number" ? code : undefined,
    reason: typeof reason === "string" ? reason : undefined,
    message: typeof message === "string" ? message : undefined,
    details: {
      retryAfterSeconds: typeof retryAfterSeconds === "number" ? retryAfterSeconds : undefined,
      causes: fields.flatMap((field) => (typeof field === "string" ? { field } : [])),
    },
  };
}

/**
 * Converts an HTTP status and a `metav1.Status` to an error. `verb` names the request, e.g. `GET /api/v1/nodes/a`, and
 * starts the message.
 */
export function errorOfStatus(
  verb: string,
  httpStatus: number,
  status: StatusFields,
  retryAfterMs?: number,
): KubeError {
  const { reason, message, details } = status;
  const serverMessage = message === undefined || message === "" ? undefined : truncate(message);
  const description = serverMessage ?? `the API server answered ${httpStatus}`;
  const seconds = details?.retryAfterSeconds;
  return new KubeError(codeOf(httpStatus, reason), `${verb}: ${description}`, {
    status: httpStatus,
    reason,
    serverMessage,
    fields: (details?.causes ?? []).map(({ field }) => field),
    retryAfterMs: retryAfterMs ?? (seconds === undefined || seconds <= 0 ? undefined : seconds * 1000),
  });
}

/** By HTTP status, for answers with a reason: only the API server gives one. */
const CODES: Readonly<Record<number, KubeErrorCode>> = {
  404: "NOT_FOUND",
  409: "CONFLICT",
  410: "GONE",
  413: "TOO_LARGE",
};
/** By HTTP status, for answers with or without a reason: a proxy means the same by them. */
const CODES_WITHOUT_REASON: Readonly<Record<number, KubeErrorCode>> = {
  401: "UNAUTHORIZED",
  403: "FORBIDDEN",
  429: "TOO_MANY_REQUESTS",
};

/**
 * The API server names a reason in every error that is about the request. A 4xx without one comes from a proxy in
 * between, or from a server that does not serve this path yet: it says nothing about the object, and may pass.
 */
function codeOf(status: number, reason: string | undefined): KubeErrorCode {
  const code = CODES_WITHOUT_REASON[status];
  if (code !== undefined) return code;
  if (reason === undefined || reason === "" || status < 400 || status >= 500) return "SERVER";
  if (reason === "AlreadyExists") return "ALREADY_EXISTS";
  return CODES[status] ?? "INVALID";
}

const MAX_MESSAGE_CHARS = 2048;

/** The server's message repeats names and values of the request, which may be large. */
function truncate(text: string): string {
  return text.length > MAX_MESSAGE_CHARS ? `${text.slice(0, MAX_MESSAGE_CHARS)}…` : text;
}
