import { describe, expect, test } from "bun:test";
import type { FieldErrors } from "./checks.ts";
import {
  checkDataKey,
  checkEnvName,
  checkIp,
  checkLabel,
  checkLabelValue,
  checkLocalPath,
  checkPort,
  checkPortName,
  checkQualifiedName,
  checkSearchDomain,
  checkSubdomain,
} from "./names.ts";

interface Row {
  readonly check: (field: string, value: string) => FieldErrors;
  readonly valid: readonly string[];
  readonly invalid: readonly string[];
}

const rows: Readonly<Record<string, Row>> = {
  "an RFC 1123 label": {
    check: checkLabel,
    valid: ["a", "0", "a-b", "a".repeat(63)],
    invalid: ["", "A", "a.b", "-a", "a-", "a_b", "a\n", "a".repeat(64)],
  },
  "an RFC 1123 subdomain": {
    check: checkSubdomain,
    valid: ["a", "a.b", "a-1.b-2", "a".repeat(253)],
    invalid: ["", ".a", "a.", "a..b", "A", "a.-b", "a".repeat(254)],
  },
  "a search domain": {
    check: checkSearchDomain,
    valid: [".", "a.", "_tcp.a", "a.b"],
    invalid: ["", "a b", "a..b", "A"],
  },
  "a qualified name": {
    check: checkQualifiedName,
    valid: ["a", "A_b.c-d", "example.com/a", "a".repeat(63)],
    invalid: ["", "/a", "a/", "a/b/c", "Example.com/a", "a b", "-a", "a".repeat(64)],
  },
  "the value of a label": {
    check: checkLabelValue,
    valid: ["", "a", "A_b.c-1"],
    invalid: ["a b", "-a", "a".repeat(64), "ä"],
  },
  "the name of a port": {
    check: checkPortName,
    valid: ["a", "http", "a-1", "1a"],
    invalid: ["", "1", "A", "a--b", "-a", "a-", "a".repeat(16), "a_b"],
  },
  "the name of an environment variable": {
    check: checkEnvName,
    valid: ["A", "a.b-c d", "1"],
    invalid: ["a=b", "ä", "a\n", "a\0"],
  },
  "the key of a ConfigMap": {
    check: checkDataKey,
    valid: ["a", ".a", "a.b_c-D"],
    invalid: ["", ".", "..", "..a", "a/b", "a b"],
  },
  "a path below a directory": {
    check: checkLocalPath,
    valid: ["a", "a/b", "a/..b", "./a"],
    invalid: ["/a", "..", "../a", "a/../b", "a/..", "..a"],
  },
  "an IP address": {
    check: checkIp,
    valid: [
      "0.0.0.0",
      "255.255.255.255",
      "::",
      "::1",
      "2001:db8::ffff",
      "1:2:3:4:5:6:7:8",
      "::ffff:10.0.0.1",
      "1:2:3:4:5:6:10.0.0.1",
    ],
    invalid: [
      "",
      "10.0.0",
      "10.0.0.256",
      "010.0.0.1",
      "1:2:3",
      ":::",
      "1::2::3",
      "1:2:3:4:5:6:7:8:9",
      "g::",
      "::1%eth0",
      "10.0.0.1/8",
      ":1",
    ],
  },
};

for (const [name, { check, valid, invalid }] of Object.entries(rows))
  describe(name, () => {
    for (const value of valid)
      test(`accepts ${JSON.stringify(value.slice(0, 20))}`, () => {
        expect(check("field", value)).toEqual([]);
      });
    for (const value of invalid)
      test(`rejects ${JSON.stringify(value.slice(0, 20))}`, () => {
        expect(check("field", value).length).toBeGreaterThan(0);
      });
  });

test("checkPort accepts a number from 1 to 65535, or a name", () => {
  expect([1, 65_535, "http"].flatMap((port) => checkPort("field", port))).toEqual([]);
  expect([0, 65_536, -1, "80"].map((port) => checkPort("field", port).length)).toEqual([1, 1, 1, 1]);
});
