import { expect, test } from "bun:test";
import { fitsSocketPath, MAX_SOCKET_PATH_BYTES } from "./socket-path.ts";

test("fitsSocketPath counts bytes, not characters", () => {
  expect(fitsSocketPath("/".padEnd(MAX_SOCKET_PATH_BYTES, "x"))).toBe(true);
  expect(fitsSocketPath("/".padEnd(MAX_SOCKET_PATH_BYTES + 1, "x"))).toBe(false);
  expect(fitsSocketPath("/".padEnd(MAX_SOCKET_PATH_BYTES, "é"))).toBe(false);
});
