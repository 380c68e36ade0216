import { expect, test } from "bun:test";
import { readlinkSync } from "node:fs";
import { FilesError } from "../host/fs/files.ts";
import { NetlinkError } from "../host/netlink/error.ts";
import { CniError } from "./error.ts";
import { toCniError } from "./to-cni-error.ts";

function failureOf(work: () => unknown): unknown {
  try {
    return work();
  } catch (error) {
    return error;
  }
}

const rows: readonly (readonly [what: string, error: unknown, code: number])[] = [
  ["what the kernel refuses over netlink", new NetlinkError("EBUSY", "add the link a", ""), 100],
  ["a file that cannot be used", new FilesError("ENOSPC", "/run", "no space left"), 5],
  ["a system call that failed", failureOf(() => readlinkSync("/does-not-exist")), 5],
  ["a fault of this program", new TypeError("x is not a function"), 999],
  ["what is no error", "a text", 999],
];
for (const [what, error, code] of rows)
  test(`${what} has code ${code}, its own words and the plugin`, () => {
    const message = error instanceof Error ? error.message : "a text";
    expect(toCniError(error, "berth")).toMatchObject({
      name: "CniError",
      code,
      message,
      plugin: "berth",
      cause: error,
    });
    expect(toCniError(error).plugin).toBeUndefined();
  });

test("an error of CNI stays, and gets the name of the plugin if it has none", () => {
  const error = new CniError(7, "no subnet", { details: "ipam", stderr: "a log" });
  expect(toCniError(error)).toBe(error);
  const named = toCniError(error, "berth");
  expect(named).toMatchObject({ code: 7, message: "no subnet", details: "ipam", stderr: "a log", plugin: "berth" });
  expect(toCniError(named, "another")).toBe(named);
});
