export type KubeErrorCode =
  /** No connection: the name is unknown, nobody listens, the way is cut. */
  | "UNREACHABLE"
  /** No answer before the deadline. */
  | "TIMEOUT"
  /** The two do not trust each other: a wrong CA, a certificate out of its time, another name. */
  | "TLS"
  | "UNAUTHORIZED"
  | "FORBIDDEN"
  | "NOT_FOUND"
  | "CONFLICT"
  | "ALREADY_EXISTS"
  | "INVALID"
  /** The resourceVersion is too old: list anew. */
  | "GONE"
  | "TOO_MANY_REQUESTS"
  | "SERVER"
  /** The answer is not JSON, or only the beginning of it. */
  | "NOT_JSON"
  | "TOO_LARGE"
  /** By our own signal. */
  | "CANCELLED"
  /** The connection was closed, by us or under way. */
  | "CLOSED"
  /** What we identify ourselves with cannot be had: a missing file, a plugin that fails. */
  | "CREDENTIALS";

export interface KubeErrorOptions extends ErrorOptions {
  readonly status?: number | undefined;
  readonly reason?: string | undefined;
  readonly retryAfterMs?: number | undefined;
  readonly isUnprocessed?: boolean;
  readonly fields?: readonly string[];
}

/**
 * A request that failed, or a kubeconfig that cannot be used. Decisions are made by `code`, `reason`, `fields` and `isUnprocessed`; the
 * message is for humans. It never holds a token, a key, a header or a body of ours.
 */
export class KubeError extends Error {
  override readonly name = "KubeError";
  readonly code: KubeErrorCode;
  /** Of HTTP; undefined when there was no answer. */
  readonly status: number | undefined;
  /** `metav1.Status.reason`, such as `NodeLeaseExpired` or `AlreadyExists`. */
  readonly reason: string | undefined;
  /** How long the server wants to be left alone. */
  readonly retryAfterMs: number | undefined;
  /** True where the server has certainly not begun to carry it out: sending it again cannot do it twice. */
  readonly isUnprocessed: boolean;
  /** What the server finds wrong with our object, such as `metadata.uid`, as far as it says so. */
  readonly fields: readonly string[];

  constructor(code: KubeErrorCode, message: string, options: KubeErrorOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.status = options.status;
    this.reason = options.reason;
    this.retryAfterMs = options.retryAfterMs;
    this.isUnprocessed = options.isUnprocessed ?? false;
    this.fields = options.fields ?? [];
  }
}

const AWAY: ReadonlySet<KubeErrorCode> = new Set(["UNREACHABLE", "TLS", "UNAUTHORIZED", "CREDENTIALS"]);

/** Whether there is no server for us after such a failure, as far as we know. */
export function isAway({ code }: KubeError): boolean {
  return AWAY.has(code);
}

/** Whether the connection tells of it, once for all who ask something of the server: it stands between us and the server as such. */
export function isToldByConnection(error: unknown): boolean {
  if (!(error instanceof KubeError)) return false;
  return isAway(error) || (error.code === "TIMEOUT" && isToldByConnection(error.cause));
}

/** As much as we read of a `metav1.Status`: the body of an answer that is no success, and the object of a watch's ERROR event. */
export interface StatusWords {
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
 * Reads what should be a `metav1.Status`; of what is none, or is none in parts, as much as can be used. Of a proxy in between, or a
 * server in trouble, it may be anything.
 */
export function readStatus(value: unknown): StatusWords {
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

/** `verb` says what was asked for, e.g. `GET /api/v1/nodes/a`; it begins the message. */
export function errorOfStatus(verb: string, httpStatus: number, status: StatusWords, retryAfterMs?: number): KubeError {
  const { reason, message, details } = status;
  const said = message === undefined || message === "" ? `the API server answered ${httpStatus}` : shorten(message);
  const seconds = details?.retryAfterSeconds;
  return new KubeError(codeOf(httpStatus, reason), `${verb}: ${said}`, {
    status: httpStatus,
    reason,
    fields: (details?.causes ?? []).map(({ field }) => field),
    retryAfterMs: retryAfterMs ?? (seconds === undefined || seconds <= 0 ? undefined : seconds * 1000),
  });
}

function codeOf(status: number, reason: string | undefined): KubeErrorCode {
  if (status === 409) return reason === "AlreadyExists" ? "ALREADY_EXISTS" : "CONFLICT";
  const known: Readonly<Record<number, KubeErrorCode>> = {
    401: "UNAUTHORIZED",
    403: "FORBIDDEN",
    404: "NOT_FOUND",
    410: "GONE",
    413: "TOO_LARGE",
    429: "TOO_MANY_REQUESTS",
  };
  return known[status] ?? (status >= 400 && status < 500 ? "INVALID" : "SERVER");
}

const LONGEST_MESSAGE = 2048;

/** The server repeats names and values of the request; of a large one the beginning is enough. */
function shorten(text: string): string {
  return text.length > LONGEST_MESSAGE ? `${text.slice(0, LONGEST_MESSAGE)}…` : text;
}
