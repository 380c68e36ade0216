import { expect, test } from "bun:test";
import { allCases } from "./cases/all.ts";
import { joinRuns, type KnownDifference } from "./compare.ts";
import { knownDifferences } from "./known-differences.ts";
import { readRecording } from "./kubelet-recording.ts";
import { findOpenPatterns, findUnboundedStates } from "./open-patterns.ts";

const event = 'event Warning FailedMount: MountVolume.SetUp failed for volume "v" : secret "none" not found';
const message = 'failed to prepare subPath for volumeMount "data" of container "main"';
const recording = new Map([["p", joinRuns([new Map(Object.entries({ [event]: "×3", message }))])]]);
const entry: KnownDifference = { pod: "p", field: "x", kubelet: "1", berth: "2", reason: "so" };
const { kubelet: _kubelet, ...withoutKubelet } = entry;
const { berth: _berth, ...withoutBerth } = entry;

/** The number of open patterns of an entry, in each of the lists. */
const openIn = (each: KnownDifference) =>
  [
    { deliberate: [each], timingDependent: [] },
    { deliberate: [], timingDependent: [each] },
  ].map((lists) => findOpenPatterns(lists, recording).length);

test("no pattern of the lists matches a recorded text or an example with nonsense in it", async () => {
  const { inOneRun, ofLiveKubelets } = knownDifferences;
  const recorded = await readRecording(allCases);
  expect(findOpenPatterns(knownDifferences, recorded)).toEqual([]);
  expect(findOpenPatterns({ deliberate: [...inOneRun, ...ofLiveKubelets], timingDependent: [] }, recorded)).toEqual([]);
});

test.each<[pattern: RegExp]>([
  [/^/],
  [/./],
  [/^failed to prepare subPath for volumeMount /],
  [/of container "main"$/],
  [/^failed to prepare subPath for volumeMount .* of container "main"$/],
  [/^failed to (prepare subPath|create subPath directory) for volumeMount "data" of container \S+/],
  [/^(MountVolume\.|failed to )/],
  [/^failed to prepare subPath for volumeMount (?!"none").*$/],
])("a value that %p bounds is open on each side", (pattern) => {
  expect(openIn({ ...entry, kubelet: pattern })).toEqual([1, 1]);
  expect(openIn({ ...entry, berth: [pattern, undefined] })).toEqual([1, 1]);
  expect(openIn({ ...withoutBerth, kubelet: pattern, within: 2 })).toEqual([1, 1]);
  expect(openIn({ ...withoutKubelet, berth: pattern })).toEqual([1, 1]);
});

test.each<[pattern: RegExp]>([
  [/^failed to prepare subPath for volumeMount "[^"]+" of container "[a-z-]+"$/],
  [/^failed to (prepare subPath|create subPath directory) for volumeMount "data" of container \S+$/],
  [/^×\d$/],
  [/^(×3|2)$/],
])("a value that %p bounds is not open", (pattern) => {
  expect(openIn({ ...entry, kubelet: pattern, berth: [pattern, undefined] })).toEqual([0, 0]);
});

test("the field of an event has its whole message where a side may lack it", () => {
  const prefix = /^event Warning FailedMount: .* : secret /;
  expect(openIn({ ...withoutKubelet, field: prefix })).toEqual([1, 0]);
  expect(openIn({ ...withoutBerth, field: prefix })).toEqual([1, 0]);
  expect(openIn({ ...entry, field: prefix, kubelet: ["1", undefined] })).toEqual([1, 0]);
  expect(openIn({ ...entry, field: prefix })).toEqual([0, 0]);
  expect(openIn({ ...withoutKubelet, field: event })).toEqual([0, 0]);
  const whole = /^event Warning FailedMount: MountVolume\.SetUp failed for volume "[^"]+" : secret "[^"]+" not found$/;
  expect(openIn({ ...withoutKubelet, field: whole })).toEqual([0, 0]);
});

test("a pattern that matches nothing in the recording needs an example, and is open if it matches that with nonsense", () => {
  const [whole, prefix] = [/^unseen \w+$/, /^unseen /];
  expect(openIn({ ...entry, berth: whole })).toEqual([1, 1]);
  expect(openIn({ ...entry, berth: whole, examples: ["unseen text"] })).toEqual([0, 0]);
  expect(openIn({ ...entry, berth: whole, examples: ["another"] })).toEqual([1, 1]);
  expect(openIn({ ...entry, berth: prefix, examples: ["unseen text"] })).toEqual([1, 1]);
});

test("no entry of the lists accepts both states from Berth", () => {
  expect(findUnboundedStates(Object.values(knownDifferences).flat())).toEqual([]);
  const both = [["True", "False"], ["false", "true", undefined], /^(True|False)$/] as const;
  const planted = both.map((berth) => ({ ...entry, berth }));
  expect(findUnboundedStates([...planted, { ...entry, kubelet: ["True", "False"], berth: "False" }])).toEqual(planted);
});
