import { expect, test } from "bun:test";
import { isSameValue } from "./semantic-equal.ts";

test("what does not survive the way to the server and back is no difference", () => {
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
    expect([one, other, isSameValue(one, other), isSameValue(other, one)]).toEqual([one, other, same, same]);
});
