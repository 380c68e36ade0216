import { expect, test } from "bun:test";
import { containerLogPath, logLinkName, podLogFolder } from "./log-path.ts";
import { TranslateError } from "./translate-error.ts";

const id = "0123456789abcdef".repeat(4);

test("logs are where kubectl and collectors look for them", () => {
  expect(podLogFolder({ metadata: { namespace: "shop", name: "web", uid: "u" } })).toBe("shop_web_u");
  expect(podLogFolder({ metadata: { name: "web", uid: "u" } })).toBe("default_web_u");
  expect(containerLogPath("a", 3)).toBe("a/3.log");
  expect(logLinkName("web", "shop", "a", id)).toBe(`web_shop_a-${id}.log`);
});

const lengths: readonly [pod: number, isCut: boolean][] = [
  [182, false],
  [183, true],
  [253, true],
];
for (const [length, isCut] of lengths)
  test(`the link of a pod with a name of ${length} characters ${isCut ? "ends before its id does" : "has all of its id"}`, () => {
    const name = logLinkName("w".repeat(length), "n", "c", id);
    expect(name).toBe(`${`${"w".repeat(length)}_n_c-${id}`.slice(0, 251)}.log`);
    expect(name.length).toBeLessThanOrEqual(255);
    expect(name.includes(id)).toBe(!isCut);
  });

test("no name leads out of its folder", () => {
  for (const name of ["..", ".", "", "a/b", "a\0b"]) expect(() => containerLogPath(name, 0)).toThrow(TranslateError);
  expect(() => podLogFolder({ metadata: { name: "../web", uid: "u" } })).toThrow(TranslateError);
  expect(() => logLinkName("web", "shop", "../a", id)).toThrow(TranslateError);
});
