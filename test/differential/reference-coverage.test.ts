import { expect, test } from "bun:test";
import { plays } from "./cases/all.ts";
import { FIRST_ROW, LAST_ROW, reference } from "./reference-coverage.ts";

const names = plays.map(({ name }) => name);

test("no two pods have one name", () => {
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});

test("each row of the reference is there once, in its order", () => {
  const all = Array.from({ length: LAST_ROW - FIRST_ROW + 1 }, (_, index) => FIRST_ROW + index);
  expect(reference.map(([row]) => row)).toEqual(all);
});

test.each(reference)(
  "row %d, %s, is shown by pods that there are, or it is said why it cannot be",
  (_row, _what, shown) => {
    if (typeof shown === "string") expect(shown).toMatch(/^[A-Z].*\.$/);
    else {
      expect(shown.length).toBeGreaterThan(0);
      expect(shown.filter((name) => !names.includes(name))).toEqual([]);
    }
  },
);
