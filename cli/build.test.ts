import { expect, test } from "bun:test";
import { mkdir } from "node:fs/promises";
import { ExecaError, execa } from "execa";
import { whyNot } from "./build.ts";

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

test("what bun says of the sources is the reason of a failed build", async () => {
  const failure = await failureOf(execa(process.execPath, ["build", "/nowhere.ts"]));
  expect(failure).toBeInstanceOf(ExecaError);
  expect(whyNot(failure)).toContain("/nowhere.ts");
});

test("a folder that may not be written is one line, with the way out", () => {
  const denied = Object.assign(new Error("EACCES: permission denied, mkdir '/clone/dist'"), {
    code: "EACCES",
    syscall: "mkdir",
  });
  expect(whyNot(denied)).toBe(
    "EACCES: permission denied, mkdir '/clone/dist': build as the owner of this clone, or in a clone of your own",
  );
});

test("another error of the disk is told in its own words, without advice", async () => {
  const failure = await failureOf(mkdir("/proc/self/status/dist"));
  expect(whyNot(failure)).toStartWith("ENOTDIR");
  expect(whyNot(failure)).not.toContain("clone");
});

test("a mistake of the script itself is no reason that a user could do something about", () => {
  expect(whyNot(new TypeError("undefined is not a function"))).toBeUndefined();
});
