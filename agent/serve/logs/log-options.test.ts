import { expect, test } from "bun:test";
import { parseLogOptions } from "./log-options.ts";

const NOW = Date.UTC(2026, 0, 1, 12, 0, 0, 500);
const parse = (query: string) => parseLogOptions(new URLSearchParams(query), NOW);
const none = {
  follow: false,
  previous: false,
  timestamps: false,
  tailLines: undefined,
  limitBytes: undefined,
  since: undefined,
  stream: "All",
} as const;

const rows: readonly (readonly [query: string, options: Partial<ReturnType<typeof parse>>])[] = [
  ["", {}],
  ["follow=true&previous=1&timestamps", { follow: true, previous: true, timestamps: true }],
  ["follow=False&previous=0&timestamps=no", { timestamps: true }],
  ["tailLines=0&limitBytes=1", { tailLines: 0, limitBytes: 1 }],
  ["tailLines=5&tail=7", { tailLines: 7 }],
  ["tailLines=5&tail=all", {}],
  ["tailLines=%2B5", { tailLines: 5 }],
  ["sinceSeconds=10", { since: { seconds: NOW / 1000 - 10.5, nanos: 500_000_000 } }],
  ["sinceTime=2026-01-01T12:00:00.123456789%2B02:00", { since: { seconds: 1767261600, nanos: 123_456_789 } }],
  ["sinceTime=", { since: { seconds: -62_135_596_800, nanos: 0 } }],
  ["stream=Stderr", { stream: "Stderr" }],
  ["stream=All&tailLines=1", { tailLines: 1 }],
  ["unknown=x&container=y", {}],
];
for (const [query, options] of rows)
  test(`the query "${query}"`, () => {
    expect(parse(query)).toEqual({ ...none, ...options });
  });

const refused: readonly (readonly [query: string, status: number])[] = [
  ...[
    "tailLines=x",
    "tailLines=",
    "tailLines=1.5",
    "tailLines=9223372036854775808",
    `limitBytes=${"9".repeat(500)}`,
  ].map((query) => [query, 400] as const),
  ...["sinceTime=yesterday", "sinceTime=2026-13-01T00:00:00Z", "sinceSeconds=1s"].map((query) => [query, 400] as const),
  ...["tailLines=-1", "limitBytes=0", "sinceSeconds=0", "sinceSeconds=1&sinceTime=2026-01-01T00:00:00Z"].map(
    (query) => [query, 422] as const,
  ),
  ...["stream=stdout", "stream=", "stream=Stdout&tailLines=1"].map((query) => [query, 422] as const),
];
for (const [query, status] of refused)
  test(`the query "${query.slice(0, 60)}" is refused with ${status}`, () => {
    const message = status === 400 ? '{"message": "Unable to decode query."}' : '{"message": "Invalid request."}';
    expect(() => parse(query)).toThrow(expect.objectContaining({ status, message }));
  });
