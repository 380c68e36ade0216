import { expect, test } from "bun:test";
import { mkdir } from "node:fs/promises";
import { ExecaError, execa } from "execa";
import { describeBuildError, describeDelegate } from "./build.ts";
import { compileDelegate } from "./compile-delegate.ts";

const failureOf = (work: Promise<unknown>) =>
  work.then(
    () => undefined,
    (error: unknown) => error,
  );

test("the error of a failed build quotes bun's messages", async () => {
  const failure = await failureOf(execa(process.execPath, ["build", "/nowhere.ts"]));
  expect(failure).toBeInstanceOf(ExecaError);
  expect(describeBuildError(failure)).toContain("/nowhere.ts");
});

test("a directory without write permission is reported in one line with advice", () => {
  const denied = Object.assign(new Error("EACCES: permission denied, mkdir '/clone/dist'"), {
    code: "EACCES",
    syscall: "mkdir",
  });
  expect(describeBuildError(denied)).toBe(
    "EACCES: permission denied, mkdir '/clone/dist': build as the owner of this clone, or in a clone of your own",
  );
});

test("another file error is reported without advice", async () => {
  const failure = await failureOf(mkdir("/proc/self/status/dist"));
  expect(describeBuildError(failure)).toStartWith("ENOTDIR");
  expect(describeBuildError(failure)).not.toContain("clone");
});

test("a bug of the script itself is not reported as a user error", () => {
  expect(describeBuildError(new TypeError("undefined is not a function"))).toBeUndefined();
});

test("a build says which form of berth-cni it contains", async () => {
  const delegate = await compileDelegate("/nowhere/cc", "/nowhere/berth-cni");
  expect(delegate).toBeUndefined();
  const target = process.arch === "arm64" ? "x64" : "arm64";
  const compiler = target === "x64" ? "x86_64-linux-gnu-gcc" : "aarch64-linux-gnu-gcc";
  expect(describeDelegate(target, delegate)).toEndWith(`this machine has no C compiler ${compiler}`);
  const text = "berth-cni: a static program of 6.3 kB, compiled by ";
  expect(describeDelegate(target, new Uint8Array(6312))).toBe(`${text}${compiler}`);
});

test("a C compiler that fails ends the build, with its messages", async () => {
  const failure = await failureOf(compileDelegate(process.execPath, "/nowhere/berth-cni"));
  expect(failure).toBeInstanceOf(ExecaError);
  expect(describeBuildError(failure)).not.toBe("");
});
