import { expect, test } from "bun:test";
import { allCases } from "./cases/all.ts";
import { FIRST_ROW, LAST_ROW, referenceCoverage } from "./reference-coverage.ts";

const names = allCases.map(({ name }) => name);

test("each pod has a unique name", () => {
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});

test("covers each row of the reference once, in order", () => {
  const all = Array.from({ length: LAST_ROW - FIRST_ROW + 1 }, (_, index) => FIRST_ROW + index);
  expect(referenceCoverage.map(([row]) => row)).toEqual(all);
});

test.each(referenceCoverage)(
  "row %d (%s) of the reference names the test pods that show its behaviour, or says why no pod can",
  (_row, _what, shown) => {
    if (typeof shown === "string") expect(shown).toMatch(/^[A-Z].*\.$/);
    else {
      expect(shown.length).toBeGreaterThan(0);
      expect(shown.filter((name) => !names.includes(name))).toEqual([]);
    }
  },
);
