import { expect, test } from "bun:test";
import { isSemanticallyEqual } from "./semantic-equal.ts";

test("values that the API server normalises are equal", () => {
  const rows: readonly (readonly [unknown, unknown, boolean])[] = [
    [{ a: [] }, {}, true],
    [{ a: "" }, undefined, true],
    [null, undefined, true],
    [{ a: { b: null } }, {}, true],
    [{ a: false }, {}, false],
    [{ a: 0 }, {}, false],
    [[1, 2], [2, 1], false],
    [[1], [1, 2], false],
    [{ a: [{ b: 1 }] }, { a: [{ b: 1 }] }, true],
    ["1", 1, false],
    [[], {}, true],
    [[1], { 0: 1 }, false],
  ];
  for (const [one, other, same] of rows)
    expect([one, other, isSemanticallyEqual(one, other), isSemanticallyEqual(other, one)]).toEqual([
      one,
      other,
      same,
      same,
    ]);
});
