import type { Readable } from "node:stream";
import { ApiError } from "./api-error.ts";

/** Reads the whole body. Rejects with `ApiError` 413 beyond `limitBytes`, and with the stream's error if the client goes away. */
export async function readBody(body: Readable, limitBytes: number): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of body) {
    bytes += (chunk as Buffer).length;
    if (bytes > limitBytes) throw new ApiError(413, `the body is larger than ${limitBytes} bytes`);
    chunks.push(chunk as Buffer);
  }
  return Buffer.concat(chunks);
}
