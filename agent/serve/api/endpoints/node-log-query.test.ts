import { expect, test } from "bun:test";
import { journalArguments, parseNodeLogQuery } from "./node-log-query.ts";

const parse = (query: string) => parseNodeLogQuery(new URLSearchParams(query));
const long = "a".repeat(257);

/** The texts of the kubelet for the same queries (TestNodeLogQuery…, and `field.ErrorList` of apimachinery). */
test.each([
  ["query=", 400, 'query: Invalid value: [""]: may not be empty'],
  ["query=%20%20", 400, 'query: Invalid value: ["  "]: may not be empty'],
  ["query=a&sinceTime=yesterday", 400, 'sinceTime: Invalid value: "yesterday": invalid time format'],
  [
    "query=a&untilTime=2026-13-01T00:00:00Z",
    400,
    'untilTime: Invalid value: "2026-13-01T00:00:00Z": invalid time format',
  ],
  ["query=a&boot=x", 400, 'boot: Invalid value: "x": strconv.Atoi: parsing "x": invalid syntax'],
  [
    "query=a&boot=x&tailLines=1.5",
    400,
    '[boot: Invalid value: "x": strconv.Atoi: parsing "x": invalid syntax, tailLines: Invalid value: "1.5": strconv.Atoi: parsing "1.5": invalid syntax]',
  ],
  ["tailLines=5", 406, "query: Required value: cannot be empty with options"],
  ["query=kubelet&query=/a.log", 406, 'query: Invalid value: "[/a.log], [kubelet]": cannot specify a file and service'],
  ["query=/a&query=/b", 406, 'query: Invalid value: ["/a","/b"]: cannot specify more than one file'],
  ["query=/a&tailLines=5", 406, 'query: Invalid value: ["/a"]: cannot specify file with options'],
  [`query=${long}`, 406, `query: Invalid value: "${long}": length must be less than 256`],
  ["query=a&query=b&query=c&query=d&query=e", 406, "query: Too many: 5: must have at most 4 items"],
  ["query=a&boot=1", 406, "boot: Invalid value: 1: must be less than 1"],
  ["query=a&tailLines=100001", 406, "tailLines: Invalid value: 100001: must be between 0 and 100000, inclusive"],
  ["query=a&tailLines=-1", 406, "tailLines: Invalid value: -1: must be between 0 and 100000, inclusive"],
  [
    "query=a&sinceTime=2026-01-02T00:00:00Z&untilTime=2026-01-01T00:00:00Z",
    406,
    'untilTime: Invalid value: "2026-01-01T00:00:00Z": must be after `sinceTime`',
  ],
])("%s is answered with %i", (query, status, message) => {
  expect<unknown>(parse(query)).toEqual({ kind: "invalid", status, message });
});

test.each([
  "kubelet;reboot",
  "kubelet&&reboot",
  "$(reboot)",
  "`reboot`",
  "a b",
  "a\nb",
  "a'b",
  'a"b',
  "a*",
  "a\0b",
  "ü",
  "a=b",
])("the service %j is refused: its characters could mean something else to journalctl", (service) => {
  const parsed = parseNodeLogQuery(new URLSearchParams({ query: service }));
  expect(parsed).toMatchObject({ kind: "invalid", status: 406 });
});

test.each(["", "a=b", "path=/etc/shadow"])("without a query there is none: %j", (query) => {
  expect(parse(query)).toEqual({ kind: "none" });
});

test("a value can never be taken for another option of journalctl", () => {
  const parsed = parse(
    "query=--output=json&query=-u&pattern=--file=/etc/shadow&boot=-1&tailLines=7&sinceTime=2026-01-02T04:04:05%2B01:00",
  );
  if (parsed.kind !== "invalid") throw new Error("the service with = must be refused");
  const allowed = parse(
    "query=-u&query=kubelet&pattern=--file=/etc/shadow&boot=-1&tailLines=7&sinceTime=2026-01-02T04:04:05%2B01:00",
  );
  if (allowed.kind !== "query") throw new Error(JSON.stringify(allowed));
  expect(journalArguments(allowed.query, allowed.query.services)).toEqual([
    "--utc",
    "--no-pager",
    "--output=short-precise",
    "--since=2026-01-02 03:04:05 UTC",
    "--pager-end",
    "--lines=7",
    "--unit=-u",
    "--unit=kubelet",
    "--grep=--file=/etc/shadow",
    "--boot=-1",
  ]);
});
