import { describe, expect, test } from "bun:test";
import { decodeWatchEvent } from "./watch-event.ts";

/** The result for a line: its kind, or the code of its error. */
function read(line: unknown): string {
  const result = decodeWatchEvent("watch pods", line);
  return result.kind === "error" ? result.error.code : result.kind;
}

const rows: readonly (readonly [unknown, string])[] = [
  [{ type: "ADDED", object: { metadata: { name: "a", resourceVersion: "1" } } }, "added"],
  [{ type: "MODIFIED", object: { metadata: { name: "a", resourceVersion: "1" } } }, "modified"],
  [{ type: "DELETED", object: { metadata: { name: "a", resourceVersion: "1" } } }, "deleted"],
  [{ type: "BOOKMARK", object: { metadata: { resourceVersion: "1" } } }, "bookmark"],
  [{ type: "RENAMED", object: {} }, "unknown"],
  [{ type: "", object: {} }, "unknown"],
  [{ type: "__proto__" }, "unknown"],
  [undefined, "NOT_JSON"],
  [null, "NOT_JSON"],
  ["ADDED", "NOT_JSON"],
  [[], "NOT_JSON"],
  [{ type: 1 }, "NOT_JSON"],
  [{ type: "ADDED", object: null }, "NOT_JSON"],
  [{ type: "ADDED", object: { metadata: null } }, "NOT_JSON"],
  [{ type: "ADDED", object: { metadata: { name: 1, resourceVersion: "1" } } }, "NOT_JSON"],
  [{ type: "ADDED", object: { metadata: { name: "a", resourceVersion: 1 } } }, "NOT_JSON"],
  [{ type: "ADDED", object: { metadata: { name: "a", resourceVersion: "" } } }, "NOT_JSON"],
  [{ type: "BOOKMARK", object: { metadata: { name: "a" } } }, "NOT_JSON"],
  [{ type: "BOOKMARK", object: { metadata: { resourceVersion: "1", annotations: null } } }, "bookmark"],
  [{ type: "ERROR", object: { kind: "Status", code: 410, reason: "Expired" } }, "GONE"],
  [{ type: "ERROR", object: { kind: "Status", code: 429, details: { retryAfterSeconds: "1" } } }, "TOO_MANY_REQUESTS"],
  [{ type: "ERROR", object: { kind: "Status", code: "410", details: "none" } }, "SERVER"],
  [
    {
      type: "ERROR",
      object: { kind: "Status", code: 422, reason: "Invalid", details: { causes: [null, {}, { field: 1 }] } },
    },
    "INVALID",
  ],
  [{ type: "ERROR", object: { kind: "Pod", code: 410 } }, "SERVER"],
  [{ type: "ERROR", object: "trouble" }, "SERVER"],
  [{ type: "ERROR" }, "SERVER"],
];

describe("decodeWatchEvent:", () => {
  for (const [line, expected] of rows)
    test(`${JSON.stringify(line)} is ${expected}`, () => {
      expect(read(line)).toBe(expected);
    });
});

test("only a bookmark with the annotation ends the initial events", () => {
  const bookmark = (annotations?: unknown) => ({
    type: "BOOKMARK",
    object: { metadata: { resourceVersion: "1", annotations } },
  });
  const ends = (annotations?: unknown) =>
    Reflect.get(decodeWatchEvent("watch", bookmark(annotations)), "endsInitialEvents");
  expect(ends({ "k8s.io/initial-events-end": "true" })).toBe(true);
  expect(ends({ "k8s.io/initial-events-end": "false" })).toBe(false);
  expect(ends({})).toBe(false);
  expect(ends()).toBe(false);
});
