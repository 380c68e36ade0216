import { gunzipSync } from "node:zlib";
import { errorOfStatus, KubeError, readStatus, type StatusFields } from "../error.ts";
import type { ResponseHead, ResponseSink } from "./http2-request.ts";
import { createLineSplitter, type LineSplitter } from "./line-splitter.ts";

/**
 * The largest response, and the largest line of a watch. etcd stores no object near this size, and lists come in pages.
 */
const MAX_BYTES = 16 << 20;

const isSuccess = ({ status }: ResponseHead) => status >= 200 && status < 300;

/** Collects a whole JSON response. */
export interface JsonResponse extends ResponseSink {
  /** The JSON of a success, undefined for an empty one. Throws `KubeError` for everything else. */
  value(): unknown;
}

/** Each error message begins with `verb`, which names the request: `GET /api/v1/nodes/a`. */
export function createJsonResponse(verb: string): JsonResponse {
  const chunks: Buffer[] = [];
  let length = 0;
  let head: ResponseHead | undefined;
  return {
    onHead(response) {
      head = response;
    },
    onChunk(bytes) {
      length += bytes.length;
      if (length > MAX_BYTES) throw tooLarge(`${verb}: the answer`);
      chunks.push(bytes);
    },
    value() {
      if (head === undefined) throw new KubeError("CLOSED", `${verb}: the API server has not answered`);
      const text = decompress(verb, Buffer.concat(chunks), head);
      if (isSuccess(head)) return text === "" ? undefined : parseJson(verb, text, head);
      throw errorOfStatus(verb, head.status, readErrorStatus(text), retryAfterMs(head));
    },
  };
}

/** Parses a successful response line by line, and collects any other response as a whole. */
export interface JsonLinesResponse extends ResponseSink {
  /**
   * To be called when the response is complete. Throws `KubeError` for an error status, or when the last line is
   * incomplete.
   */
  value(): undefined;
}

/** Calls `onOpen` on a success status and `onLine` with each parsed line. */
export function createJsonLinesResponse(
  verb: string,
  onLine: (value: unknown) => void,
  onOpen: () => void,
): JsonLinesResponse {
  let errorResponse: JsonResponse | undefined;
  let lines: LineSplitter | undefined;
  let responseHead: ResponseHead | undefined;

  function handleLine(text: string, head: ResponseHead): void {
    if (text.trim() !== "") onLine(parseJson(verb, text, head));
  }
  return {
    onHead(head) {
      responseHead = head;
      if (isSuccess(head)) {
        lines = createLineSplitter(
          MAX_BYTES,
          (text) => handleLine(text, head),
          () => {
            throw tooLarge(`${verb}: a line`);
          },
        );
        onOpen();
      } else {
        errorResponse = createJsonResponse(verb);
        errorResponse.onHead(head);
      }
    },
    onChunk(bytes) {
      lines?.push(bytes);
      errorResponse?.onChunk(bytes);
    },
    value() {
      errorResponse?.value();
      if (lines !== undefined && responseHead !== undefined) handleLine(lines.rest(), responseHead);
      return undefined;
    },
  };
}

/** The API server compresses large responses when the request allows gzip. */
function decompress(verb: string, bytes: Buffer, { headers, status }: ResponseHead): string {
  if (headers["content-encoding"] !== "gzip") return bytes.toString();
  try {
    return gunzipSync(bytes, { maxOutputLength: MAX_BYTES }).toString();
  } catch (cause) {
    if (cause instanceof RangeError) throw tooLarge(`${verb}: the answer`);
    throw new KubeError("NOT_JSON", `${verb}: the answer cannot be decompressed`, { cause, status });
  }
}

function parseJson(verb: string, text: string, { status, headers }: ResponseHead): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // The parser's message quotes the text, and response bodies must not appear in error messages.
    const type = headers["content-type"]?.split(";")[0] ?? "of no type";
    const why = type.includes("json")
      ? `is not complete JSON (${text.length} characters)`
      : `is ${type.slice(0, 60)} and not JSON: is this the API server, without a proxy in between?`;
    throw new KubeError("NOT_JSON", `${verb}: the answer ${why}`, { status });
  }
}

/** Reads the `metav1.Status` of an error response. The body of a proxy, or of a failing server, may be anything. */
function readErrorStatus(text: string): StatusFields {
  try {
    const status = readStatus(JSON.parse(text));
    // The server quotes a request body that it cannot decode as hexadecimal digits.
    return { ...status, message: status.message?.replace(/\([0-9a-f]{8,}\)/g, "(…)") };
  } catch {
    // Not JSON: the HTTP status is all that is known.
    return {};
  }
}

/** `Retry-After` in seconds; the API server writes no dates. */
function retryAfterMs({ headers }: ResponseHead): number | undefined {
  const seconds = Number(headers["retry-after"] ?? Number.NaN);
  return seconds >= 0 ? seconds * 1000 : undefined;
}

function tooLarge(subject: string): KubeError {
  return new KubeError("TOO_LARGE", `${subject} is larger than ${MAX_BYTES >> 20} MiB`);
}
