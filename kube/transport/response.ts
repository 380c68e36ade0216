import { gunzipSync } from "node:zlib";
import { errorOfStatus, KubeError, readStatus, type StatusWords } from "../error.ts";
import type { Head, Taker } from "./http2-request.ts";
import { createLineSplitter, type LineSplitter } from "./line-splitter.ts";

/** The most that one answer, or one line of a watch, may have. etcd holds nothing near it, and lists come in pages. */
const LARGEST_BYTES = 16 << 20;

const isSuccess = ({ status }: Head) => status >= 200 && status < 300;

/** Takes an answer as a whole. */
export interface WholeAnswer extends Taker {
  /** The JSON of a success, undefined for an empty one. Throws `KubeError` for everything else. */
  value(): unknown;
}

/** `verb` names the request in errors, e.g. `GET /api/v1/nodes/a`. */
export function createWholeAnswer(verb: string): WholeAnswer {
  const chunks: Buffer[] = [];
  let length = 0;
  let head: Head | undefined;
  return {
    begun(begun) {
      head = begun;
    },
    chunk(bytes) {
      length += bytes.length;
      if (length > LARGEST_BYTES) throw tooLarge(`${verb}: the answer`);
      chunks.push(bytes);
    },
    value() {
      if (head === undefined) throw new KubeError("CLOSED", `${verb}: the API server has not answered`);
      const text = unpack(verb, Buffer.concat(chunks), head);
      if (isSuccess(head)) return text === "" ? undefined : parseJson(verb, text, head);
      throw errorOfStatus(verb, head.status, statusWords(text), retryAfterMs(head));
    },
  };
}

/** Takes an answer line by line, unless it is no success. */
export interface LinesAnswer extends Taker {
  /** When the answer is complete. Throws `KubeError` where it was no success, or its last line is not whole. */
  value(): undefined;
}

/** `opened` is called when a success begins, and `onLine` with each line of it, parsed. */
export function createLinesAnswer(verb: string, onLine: (value: unknown) => void, opened: () => void): LinesAnswer {
  let failed: WholeAnswer | undefined;
  let lines: LineSplitter | undefined;
  let answered: Head | undefined;

  function line(text: string, head: Head): void {
    if (text.trim() !== "") onLine(parseJson(verb, text, head));
  }
  return {
    begun(head) {
      answered = head;
      if (isSuccess(head)) {
        lines = createLineSplitter(
          LARGEST_BYTES,
          (text) => line(text, head),
          () => {
            throw tooLarge(`${verb}: a line`);
          },
        );
        opened();
      } else {
        failed = createWholeAnswer(verb);
        failed.begun(head);
      }
    },
    chunk(bytes) {
      lines?.push(bytes);
      failed?.chunk(bytes);
    },
    value() {
      failed?.value();
      if (lines !== undefined && answered !== undefined) line(lines.rest(), answered);
      return undefined;
    },
  };
}

/** The server packs what is large, if it may. */
function unpack(verb: string, bytes: Buffer, { headers, status }: Head): string {
  if (headers["content-encoding"] !== "gzip") return bytes.toString();
  try {
    return gunzipSync(bytes, { maxOutputLength: LARGEST_BYTES }).toString();
  } catch (cause) {
    if (cause instanceof RangeError) throw tooLarge(`${verb}: the answer`);
    throw new KubeError("NOT_JSON", `${verb}: the answer cannot be unpacked`, { cause, status });
  }
}

function parseJson(verb: string, text: string, { status, headers }: Head): unknown {
  try {
    return JSON.parse(text);
  } catch {
    // What the parser says quotes the text, and nothing of an answer belongs into a message.
    const type = headers["content-type"]?.split(";")[0] ?? "of no type";
    const why = type.includes("json")
      ? `is no whole JSON (${text.length} characters)`
      : `is ${type.slice(0, 60)} and not JSON: is this the API server, without a proxy in between?`;
    throw new KubeError("NOT_JSON", `${verb}: the answer ${why}`, { status });
  }
}

/** Of a proxy in between, or a server in trouble, a body may be anything. */
function statusWords(text: string): StatusWords {
  try {
    const status = readStatus(JSON.parse(text));
    // A body that the server does not understand comes back as hexadecimal digits.
    return { ...status, message: status.message?.replace(/\([0-9a-f]{8,}\)/g, "(…)") };
  } catch {
    // Not JSON: the code of HTTP says what there is to say.
    return {};
  }
}

/** `Retry-After` in seconds; the API server writes no dates. */
function retryAfterMs({ headers }: Head): number | undefined {
  const seconds = Number(headers["retry-after"] ?? Number.NaN);
  return seconds >= 0 ? seconds * 1000 : undefined;
}

function tooLarge(what: string): KubeError {
  return new KubeError("TOO_LARGE", `${what} is larger than ${LARGEST_BYTES >> 20} MiB`);
}
