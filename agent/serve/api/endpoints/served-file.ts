import { randomBytes } from "node:crypto";
import type { ServedEntry } from "../../../../host/fs/served-folder.ts";
import { NO_SNIFF, sendEmpty, sendGoError } from "../api-response.ts";
import type { ApiRequest, ApiResponse } from "../route.ts";
import { type ByteRange, wantedPartOf } from "./file-conditions.ts";

type ServedFile = Extract<ServedEntry, { kind: "file" }>;

/** Never HTML: a pod can write a file here, and a browser that shows it has the rights of its user. */
const TYPE = "text/plain; charset=utf-8";

/**
 * Sends a file, or the ranges of it that the client asks for, as Go's http.ServeContent does. Rejects if the client goes away,
 * or if the file becomes shorter meanwhile.
 */
export async function sendFile(
  file: ServedFile,
  { headers }: Pick<ApiRequest, "headers">,
  response: ApiResponse,
): Promise<void> {
  const { sizeBytes, modifiedMs } = file;
  const lastModified = { "last-modified": new Date(modifiedMs).toUTCString() };
  const common = { ...lastModified, ...NO_SNIFF, "accept-ranges": "bytes" };
  const part = wantedPartOf(headers, file);
  switch (part.kind) {
    case "not modified":
      return sendNotModified(response, lastModified);
    case "precondition failed":
      return sendEmpty(response, 412, lastModified);
    case "invalid range":
      return sendGoError(response, 416, part.message, part.headers);
    case "whole":
      response.start(200, { ...common, "content-type": TYPE, "content-length": String(sizeBytes) });
      await writeRange(file, { start: 0, end: sizeBytes }, response);
      return response.end();
    case "ranges":
      return await sendRanges(file, part.ranges, common, response);
  }
}

/** Such an answer has no body, and no length of one. */
export function sendNotModified(response: ApiResponse, headers: Readonly<Record<string, string>>): void {
  response.start(304, headers);
  response.end();
}

async function sendRanges(
  file: ServedFile,
  ranges: readonly ByteRange[],
  headers: Readonly<Record<string, string>>,
  response: ApiResponse,
): Promise<void> {
  const [only, second] = ranges;
  if (only !== undefined && second === undefined) {
    const own = { "content-range": contentRange(only, file), "content-type": TYPE };
    response.start(206, { ...headers, ...own, "content-length": String(only.end - only.start) });
    await writeRange(file, only, response);
    return response.end();
  }
  const boundary = randomBytes(30).toString("hex");
  const headOf = (range: ByteRange, index: number) =>
    `${index === 0 ? "" : "\r\n"}--${boundary}\r\nContent-Range: ${contentRange(range, file)}\r\nContent-Type: ${TYPE}\r\n\r\n`;
  const last = `\r\n--${boundary}--\r\n`;
  const lengths = ranges.map((range, index) => headOf(range, index).length + range.end - range.start);
  const length = lengths.reduce((sum, each) => sum + each, last.length);
  const type = `multipart/byteranges; boundary=${boundary}`;
  response.start(206, { ...headers, "content-type": type, "content-length": String(length) });
  for (const [index, range] of ranges.entries()) {
    await response.write(headOf(range, index));
    await writeRange(file, range, response);
  }
  response.end(last);
}

const contentRange = ({ start, end }: ByteRange, { sizeBytes }: Pick<ServedFile, "sizeBytes">) =>
  `bytes ${start}-${end - 1}/${sizeBytes}`;

async function writeRange(file: ServedFile, { start, end }: ByteRange, response: ApiResponse): Promise<void> {
  let leftBytes = end - start;
  for await (const block of file.read(start, end)) {
    leftBytes -= block.length;
    await response.write(block);
  }
  if (leftBytes > 0) throw new Error("the log has become shorter while it was sent");
}
