import { expect, test } from "bun:test";
import { type Claimant, namesakesAmong, settleClaims } from "../claims.ts";

/** `a.yaml web-1` claims the pod web with the uid 1. */
function claimantOf(text: string): Claimant {
  const [, file = "", name = "", uid = ""] = /^(\S+) (\w+)-(\w+)$/.exec(text) ?? [];
  return { file, pod: { metadata: { name, uid, namespace: "default" }, spec: { containers: [] } } };
}

const rows: readonly [sentence: string, now: string[], before: string[], granted: string[], refused: string[]][] = [
  ["different pods are no conflict", ["b web-1", "a db-2"], [], ["a", "b"], []],
  [
    "what nobody had goes to the first in the order of names",
    ["b web-2", "a web-1"],
    [],
    ["a"],
    ["b: pod default/web is already defined by a; default/web stays as it was"],
  ],
  [
    "a copy does not take the pod from its manifest, however it is called",
    ["a web-2", "b web-1"],
    ["b web-1"],
    ["b"],
    ["a: pod default/web is already defined by b; default/web stays as it was"],
  ],
  [
    "a manifest keeps its pod while it changes",
    ["a web-2", "b web-3"],
    ["b web-1"],
    ["b"],
    ["a: pod default/web is already defined by b; default/web stays as it was"],
  ],
  [
    "a uid is kept as a name is",
    ["a db-1", "b web-1"],
    ["b web-1"],
    ["b"],
    ["a: pod uid 1 is already defined by b; default/web stays as it was"],
  ],
  ["what was given up is free", ["a web-2", "b db-3"], ["b web-1"], ["a", "b"], []],
  ["a file that is gone holds nothing", ["a web-2"], ["b web-1"], ["a"], []],
  [
    "a manifest that has one pod does not get another's besides",
    ["a web-2", "b db-2"],
    ["a web-1", "b db-2"],
    ["b"],
    ["a: pod uid 2 is already defined by b; default/db stays as it was"],
  ],
  [
    "what a refused manifest has lost goes to the next that asks for it",
    ["a web-2", "b db-2", "c web-3"],
    ["a web-1", "b db-2"],
    ["b", "c"],
    ["a: pod uid 2 is already defined by b; default/db stays as it was"],
  ],
];
for (const [sentence, now, before, granted, refused] of rows)
  test(sentence, () => {
    const settled = settleClaims(now.map(claimantOf), before.map(claimantOf));
    expect(settled.granted.map(({ file }) => file)).toEqual(granted);
    expect(settled.refused.map(({ file, problem }) => `${file}: ${problem}`)).toEqual(refused);
  });

test("a pod that is refused for its name is known, one that is refused for its uid alone is not", () => {
  const { refused: all } = settleClaims(["a web-1", "b web-2", "c db-1"].map(claimantOf), []);
  expect(all.map(({ file, namesake }) => `${file} ${namesake?.metadata.uid}`)).toEqual(["b 2", "c undefined"]);
});

test("among pods the first of a name is no namesake", () => {
  const pods = ["a web-1", "b db-2", "c web-3", "d web-4"].map((text) => claimantOf(text).pod);
  expect(namesakesAmong(pods).map(({ metadata }) => metadata.uid)).toEqual(["3", "4"]);
});
