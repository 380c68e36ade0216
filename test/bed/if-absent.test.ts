import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { ifAbsent } from "./if-absent.ts";

test("a missing file, a file below a file and an ended process read as absent", async () => {
  const read = (path: string) => readFile(path, "utf8").catch(ifAbsent("none"));
  expect(await read(join(import.meta.dirname, "no-such-file"))).toBe("none");
  expect(await read(join(import.meta.filename, "below"))).toBe("none");
  expect(ifAbsent("none")(Object.assign(new Error("read"), { code: "ESRCH" }))).toBe("none");
});

test("any other error is thrown again", async () => {
  await expect(readFile(import.meta.dirname, "utf8").catch(ifAbsent(""))).rejects.toThrow("EISDIR");
});
