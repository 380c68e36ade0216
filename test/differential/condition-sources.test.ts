import { expect, test } from "bun:test";
import { allCases } from "./cases/all.ts";
import { createConditionSources, readConditionSources } from "./condition-sources.ts";

/** Two modules: the conditions of the first one call functions of both. */
const files: Readonly<Record<string, string>> = {
  "/cases/conditions.ts": `import { statusOf as statusIn } from "../status.ts";
    const phases: readonly string[] = ["Failed"];
    const hasFailed = (pod: Pod) => phases.includes(statusIn(pod));
    export const isLate = (pod) => pod.late;`,
  "/status.ts": `export function statusOf({ status }: Pod): string {
      return nameOf(status);
    }
    const nameOf = (status: Status) => status.name;
    export const other = 1;`,
};
const condition = Object.assign(() => true, { toString: () => "(pod) => hasFailed(pod) && pod.isLate" });

/** What the description of the condition is with a change of the modules. */
const describeWith = (change: (source: string) => string) =>
  createConditionSources(["/cases/conditions.ts"], (path) => change(files[path] ?? "")).describe(condition);
const asIs = describeWith((source) => source);

test("a condition is described with all that it refers to, in the modules that it is imported from", () => {
  expect(JSON.parse(asIs)).toEqual([
    "(pod) => hasFailed(pod) && pod.isLate",
    [],
    "const hasFailed = (pod) => phases.includes(statusIn(pod));",
    "const nameOf = (status) => status.name;",
    'const phases = ["Failed"];',
    "function statusOf({ status }) { return nameOf(status); }",
  ]);
});

test.each<[what: string, from: string, to: string]>([
  ["what it calls", "phases.includes", "!phases.includes"],
  ["a value that it reads", '"Failed"', '"Succeeded"'],
  ["what is called in another module", "nameOf(status)", "nameOf(status.old)"],
  ["what that calls", "status.name;", "status.phase;"],
])("a change of %s changes the description", (_, from, to) => {
  expect(describeWith((source) => source.replace(from, to))).not.toBe(asIs);
});

test.each<[what: string, from: string | RegExp, to: string]>([
  ["format", /\n */g, "\n\n\t"],
  ["a comment", "const nameOf", "/** The name. */\n const nameOf"],
  ["a type", "(status: Status)", "(status: OtherStatus | undefined)"],
  ["what it does not call", "other = 1", "other = 2"],
  ["what has the name of a property", "pod.late", "pod.later"],
  ["whether others may import it", "const nameOf", "export const nameOf"],
])("a change of %s leaves the description", (_, from, to) => {
  expect(describeWith((source) => source.replace(from, to))).toBe(asIs);
});

test("what a spread names is followed only where that is asked for", () => {
  const source = "const own = { late: 1 };\nexport const isLate = (pod) => ({ ...own, ...pod }).late;";
  const [without, withSpreads] = [false, true].map((followsSpreads) =>
    JSON.parse(
      createConditionSources(["/cases.ts"], () => source, followsSpreads).describe({ toString: () => "isLate" }),
    ),
  );
  expect(without.slice(2)).toEqual(["const isLate = (pod) => ({ ...own, ...pod }).late;"]);
  expect(withSpreads.slice(2)).toEqual([
    "const isLate = (pod) => ({ ...own, ...pod }).late;",
    "const own = { late: 1 };",
  ]);
});

test("the description of a case's condition has each function that it calls", () => {
  const sources = readConditionSources();
  const conditions = allCases.flatMap(({ until, afterwards }) => [until, ...(afterwards ? [afterwards.until] : [])]);
  const called = conditions.map((each) => {
    const names = [...each.toString().matchAll(/(?<!\w|(?<!\.\.)\.)([\w$]+)\(/g)].map(([, name]) => name ?? "");
    const [, , ...declarations] = JSON.parse(sources.describe(each)) as readonly string[];
    const declared = [each.toString(), ...declarations].flatMap(
      (text) => /^(?:const|function) ([\w$]+)/.exec(text)?.[1] ?? [],
    );
    return { names, missing: names.filter((name) => !declared.includes(name)) };
  });
  expect(called.flatMap(({ missing }) => missing)).toEqual([]);
  expect(called.filter(({ names }) => names.length > 0).length).toBeGreaterThan(50);
});
