import { expect, test } from "bun:test";
import { isNewer } from "./api-object.ts";

const versions: readonly [version: string | undefined, than: string | undefined, later: boolean][] = [
  ["10", "9", true],
  ["9", "10", false],
  ["10", "10", false],
  ["11", "10", true],
  ["99999999999999999999", "99999999999999999998", true],
  ["1", undefined, true],
  ["abc", "10", true],
  ["abc", "abc", false],
];
for (const [version, than, later] of versions)
  test(`version ${version} is ${later ? "" : "not "}later than ${than}`, () => {
    expect(isNewer(version, than)).toBe(later);
  });
