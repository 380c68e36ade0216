import { expect, test } from "bun:test";
import { hashOfBed } from "./bed-settings.ts";
import { allCases } from "./cases/all.ts";
import type { PodCase } from "./cases/pod-case.ts";
import { findUnrecordedPods, findUnsupportedDistances } from "./compare.ts";
import { createConditionSources, readConditionSources } from "./condition-sources.ts";
import { knownDifferences } from "./known-differences.ts";
import { hashOf, isCurrent, MINIMUM_RUNS, readRecording } from "./kubelet-recording.ts";

const sources = readConditionSources();
const isThere = (pod: unknown) => pod !== undefined;
const podCase: PodCase = { name: "p", until: isThere, afterwards: { kind: "wait", until: isThere } };

/** The same case with one change, which makes a recording of it stale. */
const changed: Readonly<Record<string, PodCase>> = {
  "other condition": { ...podCase, until: (pod) => pod.status !== undefined },
  "other condition of its change": { ...podCase, afterwards: { kind: "wait", until: (pod) => pod === undefined } },
  "other values of its condition": { ...podCase, until: Object.assign(() => true, { parameters: ["Failed"] }) },
  "other name": { ...podCase, name: "q" },
  "other spec": { ...podCase, spec: { terminationGracePeriodSeconds: 1 } },
  "static pod": { ...podCase, isStatic: true },
  "tolerated taint": { ...podCase, afterwards: { kind: "taint the node", until: isThere } },
};
for (const [name, other] of Object.entries(changed))
  test(`a recording is stale for a case with another hash: ${name}`, () => {
    const recorded = { hash: hashOf(podCase, sources), runs: MINIMUM_RUNS };
    expect(isCurrent(recorded, podCase, sources)).toBe(true);
    expect(isCurrent(recorded, other, sources)).toBe(false);
  });

test("the values that made a condition are part of its hash", () => {
  const condition = (phase: string) => Object.assign(() => phase === "", { parameters: [phase] });
  expect(hashOf({ ...podCase, until: condition("Failed") }, sources)).not.toBe(
    hashOf({ ...podCase, until: condition("Running") }, sources),
  );
});

test("a recording is stale for a case whose condition calls a function that has changed", () => {
  const calls: PodCase = { ...podCase, until: Object.assign(() => true, { toString: () => "(pod) => isEnded(pod)" }) };
  const sourcesWith = (phase: string) =>
    createConditionSources(["/cases.ts"], () => `const isEnded = (pod) => pod.phase === "${phase}";`);
  const recorded = { hash: hashOf(calls, sourcesWith("Failed")), runs: MINIMUM_RUNS };
  expect(isCurrent(recorded, calls, sourcesWith("Failed"))).toBe(true);
  expect(isCurrent(recorded, calls, sourcesWith("Succeeded"))).toBe(false);
});

test("a recording of too few runs is stale", () => {
  expect(isCurrent({ hash: hashOf(podCase, sources), runs: 8 }, podCase, sources)).toBe(false);
});

test("the recording has enough runs of every case as it is", async () => {
  expect((await readRecording(allCases)).size).toBe(allCases.length);
});

test("a changed condition makes the recording of a case stale", async () => {
  const runs = allCases.find(({ name }) => name === "runs")!;
  await expect(readRecording([{ ...runs, until: () => true }])).rejects.toThrow(/too few runs: runs: /);
});

test("a recording of another bed is refused", async () => {
  await expect(readRecording([], { bed: hashOfBed({}) })).rejects.toThrow(/of a bed with other objects or settings/);
});

test("a recording by other code of the rows is refused, and the message has the hash to write if they stay the same", async () => {
  await expect(readRecording([], { rows: "0123456789abcdef" })).rejects.toThrow(
    /of other code of the rows: record .*; if the rows stay the same, write "rows": "0123456789abcdef" into recording\.json$/,
  );
});

// Conditions that a function made have one text: the hash tells them apart by the parameters that they name.
test("conditions with the same text are one function or name their parameters", () => {
  const conditions = allCases.flatMap(({ until, afterwards }) => [until, ...(afterwards ? [afterwards.until] : [])]);
  const byText = Map.groupBy(
    conditions.filter(({ parameters }) => parameters === undefined),
    (condition) => sources.describe(condition),
  );
  expect([...byText].filter(([, alike]) => new Set(alike).size > 1).map(([text]) => text)).toEqual([]);
});

test("the recording of each pod has the kubelet's side of the known differences that name it", async () => {
  const recording = await readRecording(allCases);
  expect(findUnrecordedPods(Object.values(knownDifferences).flat(), recording)).toEqual([]);
  const [first] = knownDifferences.deliberate;
  const planted = { ...first!, pod: ["deadline", "runs"] };
  expect(findUnrecordedPods([planted], recording)).toEqual([`${first!.field}: runs`]);
});

test("a distance from what the kubelet's runs agree on is one by which they differ elsewhere", async () => {
  const recording = await readRecording(allCases);
  expect(findUnsupportedDistances(knownDifferences.timingDependent, recording)).toEqual([]);
  const allowed = knownDifferences.timingDependent.filter(({ withinAgreed }) => withinAgreed !== undefined);
  const planted = allowed.map((entry) => ({ ...entry, withinAgreed: 3 }));
  expect(findUnsupportedDistances(planted, recording)).toEqual(planted);
});
