import { expect, test } from "bun:test";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { seededRandom } from "../random.ts";
import { judged } from "./judged.ts";
import { describeMutant, draw, faultOf, mutantsOf } from "./mutants.ts";
import { mutationDocument, share, unjudgedFaults } from "./mutation-document.ts";

const source = `/** Whether a < b, and true. */
export function decide(a: number, b: 1 | 2, isOn: boolean): readonly number[] {
  if (a < b && isOn) return [];
  return a === 7 ? [a, b] : [...(isOn ? [b] : [])];
}
const settings: { on: true } = { on: true };
async function plan(actions: string[], done?: { add(action: string): void }) {
  let last = "";
  if (done) actions.push(last);
  else last = "b";
  done?.add(last);
  await Promise.all(actions);
  void actions.map((action) => action);
}
`;

test("faults are planted in code, not in comments and types", () => {
  expect(mutantsOf("x.ts", source).map((mutant) => describeMutant(mutant, source))).toMatchInlineSnapshot(`
    [
      "x.ts:3: \`if (a < b && isOn) return [];\` → \`if (!(a < b && isOn)) return [];\`",
      "x.ts:3: \`if (a < b && isOn) return [];\` → \`if (a < b || isOn) return [];\`",
      "x.ts:3: \`if (a < b && isOn) return [];\` → \`if (a <= b && isOn) return [];\`",
      "x.ts:4: \`return a === 7 ? [a, b] : [...(isOn ? [b] : [])];\` → \`return !(a === 7) ? [a, b] : [...(isOn ? [b] : [])];\`",
      "x.ts:4: \`return a === 7 ? [a, b] : [...(isOn ? [b] : [])];\` → \`return a !== 7 ? [a, b] : [...(isOn ? [b] : [])];\`",
      "x.ts:4: \`return a === 7 ? [a, b] : [...(isOn ? [b] : [])];\` → \`return a === 8 ? [a, b] : [...(isOn ? [b] : [])];\`",
      "x.ts:4: \`return a === 7 ? [a, b] : [...(isOn ? [b] : [])];\` → \`return a === 7 ? [b] : [...(isOn ? [b] : [])];\`",
      "x.ts:4: \`return a === 7 ? [a, b] : [...(isOn ? [b] : [])];\` → \`return a === 7 ? [a, b] : [];\`",
      "x.ts:4: \`return a === 7 ? [a, b] : [...(isOn ? [b] : [])];\` → \`return a === 7 ? [a, b] : [...(!(isOn) ? [b] : [])];\`",
      "x.ts:4: \`return a === 7 ? [a, b] : [...(isOn ? [b] : [])];\` → \`return a === 7 ? [a, b] : [...(isOn ? [] : [])];\`",
      "x.ts:6: \`const settings: { on: true } = { on: true };\` → \`const settings: { on: true } = { on: false };\`",
      "x.ts:9: \`if (done) actions.push(last);\` → \`if (!(done)) actions.push(last);\`",
      "x.ts:9: \`if (done) actions.push(last);\` → \`if (done) ;\`",
      "x.ts:11: \`done?.add(last);\` → \`;\`",
      "x.ts:12: \`await Promise.all(actions);\` → \`;\`",
      "x.ts:13: \`void actions.map((action) => action);\` → \`;\`",
    ]
  `);
});

test("a file that is no TypeScript is refused", () => {
  expect(() => mutantsOf("x.ts", "if (")).toThrow("x.ts: ");
});

test("a draw repeats nothing, and has as many as there are", () => {
  expect(draw([1, 2, 3], 5, seededRandom(1)).toSorted()).toEqual([1, 2, 3]);
  expect(draw([1, 2, 3], 2, seededRandom(1))).toHaveLength(2);
});

test("a fault keeps its judgement when its line moves", () => {
  const [fault = "", why] = Object.entries(judged)[0] ?? [];
  const [path = ""] = fault.split(": ");
  const findings = [7, 8].map((line) => ({ text: fault.replace(path, `${path}:${line}`), foundBy: undefined }));
  const document = mutationDocument({ findings, all: 9, seed: 3, commit: "abc", date: new Date(0) }, []);
  for (const { text } of findings) expect(document).toContain(`- ${text}: ${why}\n`);
});

test("a fault that no suite finds has to be judged", () => {
  const ofJudged = Object.keys(judged)[0]?.replace(": ", ":7: ");
  const findings = [ofJudged, "x.ts:7: `a` → `b`"].map((text = "") => ({ text, foundBy: undefined }));
  expect(unjudgedFaults(findings)).toEqual(["x.ts:7: `a` → `b`"]);
  expect(unjudgedFaults(findings.map((finding) => ({ ...finding, foundBy: "units" })))).toEqual([]);
});

test.each(Object.keys(judged))("the judged fault can still be planted: %s", async (fault) => {
  const [path = ""] = fault.split(": ");
  const text = await readFile(join(import.meta.dirname, "../..", path), "utf8");
  expect(mutantsOf(path, text).map((mutant) => faultOf(describeMutant(mutant, text)))).toContain(fault);
});

test("the document counts the faults by the suite that found them, and lists the others", () => {
  const findings = [
    { text: "a.ts:1: `x` → `y`", foundBy: "scenarios" },
    { text: "b.ts:2: `x` → `y`", foundBy: undefined },
  ];
  expect(share(findings)).toBe(0.5);
  expect(
    mutationDocument({ findings, all: 9, seed: 3, commit: "abc", date: new Date(0) }, ["units", "scenarios"]),
  ).toMatchInlineSnapshot(`
    "# Planted faults

    \`bun test/mutation/run.ts 2 3\` on 1970-01-01, on commit abc, plants 2 of 9 possible faults in
    \`agent/decide\` and \`agent/observed\`, one at a time. The suites run in this order until one fails twice, or runs out of
    time twice: only this first suite counts as the one that has found the fault; later suites do not run for it.

    | first suite | faults found |
    |---|---|
    | units | 0 |
    | scenarios | 1 |
    | none | 1 |

    Not found:

    - b.ts:2: \`x\` → \`y\`

    Found:

    - by scenarios: a.ts:1: \`x\` → \`y\`
    "
  `);
});
