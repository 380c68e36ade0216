import { expect, test } from "bun:test";
import { containerLogPath, logSymlinkName, podLogDir } from "./log-path.ts";
import { TranslateError } from "./translate-error.ts";

const id = "0123456789abcdef".repeat(4);

test("log paths are those that kubectl and log collectors expect", () => {
  expect(podLogDir({ metadata: { namespace: "shop", name: "web", uid: "u" } })).toBe("shop_web_u");
  expect(podLogDir({ metadata: { name: "web", uid: "u" } })).toBe("default_web_u");
  expect(containerLogPath("a", 3)).toBe("a/3.log");
  expect(logSymlinkName("web", "shop", "a", id)).toBe(`web_shop_a-${id}.log`);
});

const lengths: readonly [pod: number, isCut: boolean][] = [
  [182, false],
  [183, true],
  [253, true],
];
for (const [length, isCut] of lengths)
  test(`the symlink of a pod whose name has ${length} characters ${isCut ? "truncates the container id" : "has the whole container id"}`, () => {
    const name = logSymlinkName("w".repeat(length), "n", "c", id);
    expect(name).toBe(`${`${"w".repeat(length)}_n_c-${id}`.slice(0, 251)}.log`);
    expect(name.length).toBeLessThanOrEqual(255);
    expect(name.includes(id)).toBe(!isCut);
  });

test("a log path rejects names that leave the directory", () => {
  for (const name of ["..", ".", "", "a/b", "a\0b"]) expect(() => containerLogPath(name, 0)).toThrow(TranslateError);
  expect(() => podLogDir({ metadata: { name: "../web", uid: "u" } })).toThrow(TranslateError);
  expect(() => logSymlinkName("web", "shop", "../a", id)).toThrow(TranslateError);
});
