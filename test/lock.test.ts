import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { type Lock, missingOptionals, platformOf } from "./lock.ts";

test("package-lock.json is complete, so npm ci accepts it (else run: bun test/lock.ts)", async () => {
  const lock = JSON.parse(await readFile(join(import.meta.dirname, "..", "package-lock.json"), "utf8")) as Lock;
  expect(missingOptionals(lock)).toEqual({});
});

test("a missing optional dependency gets an entry that restricts it to its platform", () => {
  const tool = {
    version: "1.0.0",
    dev: true,
    optionalDependencies: { "@tool/linux-x64": "1.0.0", "@tool/win32-arm64": "1.0.0" },
  };
  const packages = { "": {}, "node_modules/tool": tool, "node_modules/@tool/linux-x64": { version: "1.0.0" } };
  expect(missingOptionals({ packages })).toEqual({
    "node_modules/@tool/win32-arm64": { version: "1.0.0", dev: true, optional: true, os: ["win32"], cpu: ["arm64"] },
  });
});

test.each([
  ["@oxc-parser/binding-linux-arm-musleabihf", { os: ["linux"], cpu: ["arm"], libc: ["musl"] }],
  ["@bufbuild/buf-linux-aarch64", { os: ["linux"], cpu: ["arm64"] }],
  ["@oxc-parser/binding-win32-ia32-msvc", { os: ["win32"], cpu: ["ia32"] }],
  ["left-pad", {}],
])("platformOf derives the platform from the package name %s", (name, platform) => {
  expect(platformOf(name)).toEqual(platform);
});
