import { expect, test } from "bun:test";
import { allCases } from "./cases/all.ts";
import { cgroupPods } from "./cgroups/cgroup-cases.ts";
import { resizePods } from "./cgroups/resize-cases.ts";
import { COVERED_ROWS, referenceCoverage } from "./reference-coverage.ts";

const names = allCases.map(({ name }) => name);

test("each pod has a unique name", () => {
  expect(names.filter((name, index) => names.indexOf(name) !== index)).toEqual([]);
});

test("covers each row of the reference once, in order", () => {
  const all = COVERED_ROWS.flatMap(([first, last]) =>
    Array.from({ length: last - first + 1 }, (_, index) => first + index),
  );
  expect(referenceCoverage.map(([row]) => row)).toEqual(all);
});

test("names existing pods, or says in a sentence why no pod can show a row", () => {
  const all = new Set([...names, ...[...cgroupPods, ...resizePods].map(({ metadata }) => metadata.name ?? "")]);
  const wrong = referenceCoverage.flatMap(([row, what, shown]) => {
    if (typeof shown === "string") return /^[A-Z].*\.$/.test(shown) ? [] : [`${row} ${what}: ${shown}`];
    const unknown = shown.filter((name) => !all.has(name));
    return shown.length > 0 && unknown.length === 0 ? [] : [`${row} ${what}: no pod ${unknown.join(", ")}`];
  });
  expect(wrong).toEqual([]);
});
