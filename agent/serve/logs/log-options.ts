import { parseTime, TimeError } from "../../../proto/kubernetes/values/time.ts";
import { ApiError } from "../api/api-error.ts";

/** Which streams of a container a client wants. */
export type LogStream = "All" | "Stdout" | "Stderr";

/** A point in time, exact as the log's timestamps are. */
export interface LogTime {
  /** Seconds since the epoch. */
  readonly seconds: number;
  readonly nanos: number;
}

/** What a client wants of a container's log: `v1.PodLogOptions`. */
export interface LogOptions {
  readonly follow: boolean;
  /** The instance before the current one. */
  readonly previous: boolean;
  /** Each line begins with its time. */
  readonly timestamps: boolean;
  /** How many lines of the end; undefined: all. */
  readonly tailLines: number | undefined;
  /** How many bytes are sent at most; undefined: no limit. */
  readonly limitBytes: number | undefined;
  /** Lines that are older are left out. */
  readonly since: LogTime | undefined;
  readonly stream: LogStream;
}

/**
 * Reads the query of a request for logs. Throws `ApiError` 400 for a value that is no number or time, and 422 for one
 * that is out of range or contradicts another. Rule: kubelet getContainerLogs, ValidatePodLogOptions.
 */
export function parseLogOptions(query: URLSearchParams, nowMs: number): LogOptions {
  const sinceSeconds = integerOf(query, "sinceSeconds");
  const sinceTime = timeOf(query.get("sinceTime"));
  // An old name of the parameter, which takes precedence.
  const tail = query.get("tail") || undefined;
  const tailLines = tail === undefined ? integerOf(query, "tailLines") : tail === "all" ? undefined : toInteger(tail);
  const limitBytes = integerOf(query, "limitBytes");
  const stream = query.get("stream") ?? "All";
  const isInvalid =
    (tailLines !== undefined && tailLines < 0) ||
    (limitBytes !== undefined && limitBytes < 1) ||
    (sinceSeconds !== undefined && (sinceTime !== undefined || sinceSeconds < 1)) ||
    !isLogStream(stream) ||
    (stream !== "All" && tailLines !== undefined);
  if (isInvalid) throw new ApiError(422, '{"message": "Invalid request."}');
  return {
    follow: booleanOf(query.get("follow")),
    previous: booleanOf(query.get("previous")),
    timestamps: booleanOf(query.get("timestamps")),
    tailLines,
    limitBytes,
    since: sinceSeconds === undefined ? sinceTime : toLogTime(nowMs - sinceSeconds * 1000),
    stream,
  };
}

const isLogStream = (text: string): text is LogStream => ["All", "Stdout", "Stderr"].includes(text);

const undecodable = () => new ApiError(400, '{"message": "Unable to decode query."}');

/** Rule: apimachinery Convert_Slice_string_To_bool. A parameter without a value is true. */
const booleanOf = (text: string | null): boolean => text !== null && text !== "0" && text.toLowerCase() !== "false";

function integerOf(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  return text === null ? undefined : toInteger(text);
}

const MAX_INT64 = 2n ** 63n - 1n;

/** Rule: strconv.ParseInt with base 10 and 64 bits. */
function toInteger(text: string): number {
  if (!/^[+-]?\d{1,40}$/.test(text)) throw undecodable();
  const value = BigInt(text.replace(/^\+/, ""));
  if (value > MAX_INT64 || value < -MAX_INT64 - 1n) throw undecodable();
  return Number(value);
}

const ZERO_TIME: LogTime = { seconds: -62_135_596_800, nanos: 0 };

/** Rule: metav1.Time UnmarshalQueryParameter. */
function timeOf(text: string | null): LogTime | undefined {
  if (text === null) return undefined;
  if (text === "" || text === "null") return ZERO_TIME;
  try {
    const seconds = Math.floor(parseTime(text) / 1000);
    const [, fraction = ""] = /\.(\d+)/.exec(text) ?? [];
    return { seconds, nanos: Number(fraction.slice(0, 9).padEnd(9, "0")) };
  } catch (error) {
    if (error instanceof TimeError) throw undecodable();
    throw error;
  }
}

function toLogTime(epochMs: number): LogTime {
  const seconds = Math.floor(epochMs / 1000);
  return { seconds, nanos: Math.floor((epochMs - seconds * 1000) * 1e6) };
}
