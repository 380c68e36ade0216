import { expect, test } from "bun:test";
import { exceededQuotas, kindsWithoutOutcome, outcomeTable } from "./excuse-quotas.ts";
import type { Verdict } from "./expected-outcomes.ts";
import type { Kind } from "./random-workload.ts";

const verdicts = (kind: Kind, reached: number, excused: number): readonly Verdict[] => [
  ...Array.from({ length: reached }, () => ({ name: kind, kind, outcome: "reached" as const })),
  ...Array.from({ length: excused }, () => {
    return { name: kind, kind, outcome: "excused" as const, rule: "interrupted" as const, sentence: `${kind}: cut` };
  }),
];
test.each<[string, readonly Verdict[], readonly string[]]>([
  ["five of fifteen pods", [...verdicts("once", 5, 5), ...verdicts("stays", 5, 0)], []],
  [
    "six of fifteen pods",
    [...verdicts("once", 6, 6), ...verdicts("stays", 3, 0)],
    ["6 of 15 pods are excused: once: cut\nonce: cut\nonce: cut\nonce: cut\nonce: cut\nonce: cut"],
  ],
  ["two of four that end", [...verdicts("once", 2, 2), ...verdicts("stays", 5, 0)], []],
  [
    "three of five that end",
    [...verdicts("once", 2, 3), ...verdicts("stays", 6, 0)],
    ["only 2 of 5 pods that end have noted their end"],
  ],
  ["30 of 100 pods", [...verdicts("once", 30, 30), ...verdicts("stays", 40, 0)], []],
  [
    "31 of 100 pods",
    [...verdicts("once", 31, 31), ...verdicts("stays", 38, 0)],
    [`31 of 100 pods are excused: ${Array.from({ length: 31 }, () => "once: cut").join("\n")}`],
  ],
  [
    "more than half of those that end, of 100 pods,",
    [...verdicts("once", 28, 29), ...verdicts("stays", 43, 0)],
    ["only 28 of 57 pods that end have noted their end"],
  ],
  ["both of a kind", [...verdicts("poststart", 0, 2), ...verdicts("once", 9, 0)], []],
  [
    "all of a kind",
    [...verdicts("poststart", 0, 3), ...verdicts("once", 9, 0)],
    ["only 0 of 3 pods of the kind poststart have reached their outcome"],
  ],
])("the quotas of excuses when %s are excused", (_, all, exceeded) => {
  expect(exceededQuotas(all)).toEqual(exceeded);
});

test("the kinds without an outcome are those whose pods are all excused", () => {
  const all = [...verdicts("poststart", 0, 2), ...verdicts("once", 1, 4), ...verdicts("stays", 0, 1)];
  expect(kindsWithoutOutcome(all)).toEqual(["poststart", "stays"]);
});

test("the outcomes are counted by kind", () => {
  expect(outcomeTable([...verdicts("stays", 1, 0), ...verdicts("once", 2, 1)]).split("\n")).toEqual([
    "kind          reached  never began  interrupted  exit code lost  ran twice  deviates",
    "once                2                         1                                     ",
    "stays               1                                                               ",
    "all                 3                         1                                     ",
  ]);
});
