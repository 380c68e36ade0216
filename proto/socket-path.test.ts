import { expect, test } from "bun:test";
import { fitsSocketPath, longestSocketPathBytes } from "./socket-path.ts";

test("a socket's path is measured in bytes", () => {
  expect(fitsSocketPath("/".padEnd(longestSocketPathBytes, "x"))).toBe(true);
  expect(fitsSocketPath("/".padEnd(longestSocketPathBytes + 1, "x"))).toBe(false);
  expect(fitsSocketPath("/".padEnd(longestSocketPathBytes, "é"))).toBe(false);
});
