import type { IncomingHttpHeaders } from "node:http";

/*
 * What the headers of a GET want of a file: its conditions and ranges (RFC 9110, sections 13 and 14), for a file that has
 * a time of modification and no ETag. Rule: checkPreconditions, parseRange and serveContent in net/http/fs.go of Go, whose
 * server the kubelet uses.
 */

/** The bytes from `start` to before `end`. */
export interface ByteRange {
  readonly start: number;
  readonly end: number;
}

export type WantedPart =
  | { readonly kind: "whole" }
  /** At least one range, in the client's order. */
  | { readonly kind: "ranges"; readonly ranges: readonly ByteRange[] }
  | { readonly kind: "not modified" }
  | { readonly kind: "precondition failed" }
  | { readonly kind: "invalid range"; readonly message: string; readonly headers: Readonly<Record<string, string>> };

interface FileVersion {
  readonly sizeBytes: number;
  readonly modifiedMs: number;
}

const WHOLE: WantedPart = { kind: "whole" };

/** Returns the part of the file that the request wants, or why it gets none. */
export function wantedPartOf(headers: IncomingHttpHeaders, { sizeBytes, modifiedMs }: FileVersion): WantedPart {
  if (isPreconditionFailed(headers, modifiedMs)) return { kind: "precondition failed" };
  const noneMatch = headers["if-none-match"];
  const isSame = noneMatch ? namesAny(noneMatch) : isUnchangedSince(headers["if-modified-since"], modifiedMs);
  if (isSame) return { kind: "not modified" };
  const ifRange = headers["if-range"];
  const isOtherVersion = ifRange !== undefined && dateOf(String(ifRange)) !== secondsOf(modifiedMs);
  return !headers.range || isOtherVersion ? WHOLE : partOfRanges(headers.range, sizeBytes);
}

/** Whether what was modified then is unchanged since the date in the header `If-Modified-Since`. False for no date. */
export function isUnchangedSince(header: string | undefined, modifiedMs: number): boolean {
  const since = dateOf(header ?? "");
  return since !== undefined && secondsOf(modifiedMs) <= since;
}

function isPreconditionFailed(headers: IncomingHttpHeaders, modifiedMs: number): boolean {
  const match = headers["if-match"];
  if (match) return !namesAny(match);
  const until = dateOf(headers["if-unmodified-since"] ?? "");
  return until !== undefined && secondsOf(modifiedMs) > until;
}

/** Without an ETag only `*` matches. */
const namesAny = (entityTags: string) => entityTags.split(",").some((tag) => tag.trim().startsWith("*"));

const secondsOf = (ms: number) => Math.floor(ms / 1000);
const HTTP_DATE = /^[A-Z][a-z]{2}, \d{2} [A-Z][a-z]{2} \d{4} \d{2}:\d{2}:\d{2} GMT$/;

/** In epoch seconds; undefined for another text. */
function dateOf(text: string): number | undefined {
  const ms = HTTP_DATE.test(text) ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms / 1000;
}

const UNIT = "bytes=";

function partOfRanges(header: string, sizeBytes: number): WantedPart {
  const specs = header.slice(UNIT.length).split(",");
  const trimmed = specs.map((spec) => spec.trim()).filter((spec) => spec !== "");
  const parsed = trimmed.map((spec) => rangeOf(spec, sizeBytes));
  if (!header.startsWith(UNIT) || parsed.includes("invalid"))
    return { kind: "invalid range", message: "invalid range", headers: {} };
  const ranges = parsed.filter((range) => typeof range === "object");
  // Some clients limit the answer to every request, also for an empty file.
  if (ranges.length === 0 && parsed.length > 0 && sizeBytes > 0) return noOverlap(sizeBytes);
  const total = ranges.reduce((sum, { start, end }) => sum + end - start, 0);
  return ranges.length === 0 || total > sizeBytes ? WHOLE : { kind: "ranges", ranges };
}

function noOverlap(sizeBytes: number): WantedPart {
  const headers = { "content-range": `bytes */${sizeBytes}` };
  return { kind: "invalid range", message: "invalid range: failed to overlap", headers };
}

/** As Go's `strconv.ParseInt` for a number that is not negative. */
const INTEGER = /^\+?\d{1,19}$/;

/** `beyond`: it begins behind the end of the file. */
function rangeOf(spec: string, sizeBytes: number): ByteRange | "invalid" | "beyond" {
  const dash = spec.indexOf("-");
  const [first, last] = [spec.slice(0, dash).trim(), spec.slice(dash + 1).trim()];
  if (dash < 0) return "invalid";
  if (first === "") {
    if (!INTEGER.test(last)) return "invalid";
    return { start: sizeBytes - Math.min(Number(last), sizeBytes), end: sizeBytes };
  }
  if (!INTEGER.test(first)) return "invalid";
  const start = Number(first);
  if (start >= sizeBytes) return "beyond";
  if (last === "") return { start, end: sizeBytes };
  if (!INTEGER.test(last) || Number(last) < start) return "invalid";
  return { start, end: Math.min(Number(last) + 1, sizeBytes) };
}
