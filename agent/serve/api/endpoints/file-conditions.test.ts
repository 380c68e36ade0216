import { expect, test } from "bun:test";
import type { IncomingHttpHeaders } from "node:http";
import { isUnchangedSince, wantedPartOf } from "./file-conditions.ts";

/** A file of 16 bytes, modified half a second after `MODIFIED`. */
const MODIFIED = "Thu, 01 Jan 2026 12:00:00 GMT";
const [BEFORE, AFTER] = ["Thu, 01 Jan 2026 11:59:59 GMT", "Thu, 01 Jan 2026 12:00:01 GMT"];
const file = { sizeBytes: 16, modifiedMs: Date.parse(MODIFIED) + 500 };

/** `0-4 8-16` for ranges, the message for an invalid one, and the kind of all else. */
function wanted(headers: IncomingHttpHeaders, version = file): string {
  const part = wantedPartOf(headers, version);
  if (part.kind === "ranges") return part.ranges.map(({ start, end }) => `${start}-${end}`).join(" ");
  return part.kind === "invalid range" ? part.message : part.kind;
}

const NO_OVERLAP = "invalid range: failed to overlap";

test.each([
  ["bytes=0-3", "0-4"],
  ["bytes=4-", "4-16"],
  ["bytes=-5", "11-16"],
  ["bytes=-500", "0-16"],
  ["bytes=8-900", "8-16"],
  ["bytes=0-9223372036854775807", "0-16"],
  ["bytes= 0 - 3 ", "0-4"],
  ["bytes=0-1,4-5", "0-2 4-6"],
  ["bytes=4-5, 0-1", "4-6 0-2"],
  ["bytes=0-1,900-", "0-2"],
  ["bytes=15-15", "15-16"],
  ["bytes=-0", "16-16"],
  // More bytes than the file has.
  ["bytes=0-,0-", "whole"],
  ["bytes=", "whole"],
  ["bytes=,", "whole"],
  ["bytes=16-", NO_OVERLAP],
  ["bytes=900-, 901-", NO_OVERLAP],
  ["bytes=3-1", "invalid range"],
  ["bytes=3", "invalid range"],
  ["bytes=-", "invalid range"],
  ["bytes=--1", "invalid range"],
  ["bytes=a-b", "invalid range"],
  ["bytes=0-3,x", "invalid range"],
  ["bytes=0x1-", "invalid range"],
  ["bytes=99999999999999999999-", "invalid range"],
  ["lines=0-3", "invalid range"],
  ["0-3", "invalid range"],
])("the range %p of 16 bytes is %p", (range, expected) => {
  expect(wanted({ range })).toBe(expected);
});

test("a range of an empty file is the whole file", () => {
  expect(wanted({ range: "bytes=0-499" }, { ...file, sizeBytes: 0 })).toBe("whole");
});

test("a range that begins behind the end is answered with the size", () => {
  expect(wantedPartOf({ range: "bytes=900-" }, file)).toMatchObject({ headers: { "content-range": "bytes */16" } });
});

const range = "bytes=0-3";
test.each([
  [{}, "whole"],
  [{ "if-modified-since": BEFORE }, "whole"],
  [{ "if-modified-since": MODIFIED }, "not modified"],
  [{ "if-modified-since": AFTER }, "not modified"],
  [{ "if-modified-since": "yesterday" }, "whole"],
  [{ "if-modified-since": AFTER, range }, "not modified"],
  // An ETag counts before the date.
  [{ "if-none-match": '"a"', "if-modified-since": AFTER }, "whole"],
  [{ "if-none-match": "*" }, "not modified"],
  [{ "if-unmodified-since": BEFORE }, "precondition failed"],
  [{ "if-unmodified-since": MODIFIED }, "whole"],
  [{ "if-unmodified-since": "yesterday" }, "whole"],
  [{ "if-match": "*" }, "whole"],
  [{ "if-match": '"a", *' }, "whole"],
  [{ "if-match": '"a"', "if-unmodified-since": AFTER }, "precondition failed"],
  [{ "if-range": MODIFIED, range }, "0-4"],
  [{ "if-range": AFTER, range }, "whole"],
  [{ "if-range": '"a"', range }, "whole"],
  [{ "if-range": MODIFIED }, "whole"],
])("with %j it is %p", (headers, expected) => {
  expect(wanted(headers)).toBe(expected);
});

test("a folder is unchanged since the second of its modification", () => {
  const since = [BEFORE, MODIFIED, AFTER, "yesterday", undefined];
  expect(since.map((header) => isUnchangedSince(header, file.modifiedMs))).toEqual([false, true, true, false, false]);
});
