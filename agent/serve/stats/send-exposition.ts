import { promisify } from "node:util";
import { gzip } from "node:zlib";
import type { ApiRequest, ApiResponse } from "../api/route.ts";
import { expositionTypes, formatExposition, type MetricFamily, negotiateExposition } from "./exposition.ts";

const compress = promisify(gzip);
/** A page that fits into a packet is sent as it is. */
const MIN_COMPRESSED_BYTES = 1_400;
/** The fastest: cAdvisor's page has megabytes, of which a twentieth is left. */
const LEVEL = 1;

/**
 * Sends a page of metrics in the format that the client prefers, compressed by gzip if it accepts that, as Go's library
 * does. A thread compresses, so that the agent does not wait.
 */
export async function sendExposition(
  { headers }: Pick<ApiRequest, "headers">,
  response: ApiResponse,
  families: readonly MetricFamily[],
): Promise<void> {
  const format = negotiateExposition(headers.accept);
  const page = formatExposition(families, format);
  const type = { "content-type": expositionTypes[format] };
  if (page.length < MIN_COMPRESSED_BYTES || !acceptsGzip(headers["accept-encoding"])) {
    response.start(200, type);
    return response.end(page);
  }
  const compressed = await compress(page, { level: LEVEL });
  response.start(200, { ...type, "content-encoding": "gzip" });
  response.end(compressed);
}

function acceptsGzip(acceptEncoding: string | readonly string[] | undefined): boolean {
  return String(acceptEncoding ?? "")
    .split(",")
    .map((each) => each.trim().toLowerCase())
    .some((each) => /^gzip\s*(;\s*q=(?!0(\.0*)?$).*)?$/.test(each));
}
