import { expect, test } from "bun:test";
import { allCases } from "./cases/all.ts";
import { type Finding, findUnsupportedDistances, type KnownDifference } from "./compare.ts";
import { EVENT_ORDER } from "./comparison-rows.ts";
import { knownDifferences } from "./known-differences.ts";
import { readRecording } from "./kubelet-recording.ts";
import { mayComeOnce, unrepeatedFindings, withoutUnrepeated } from "./unrepeated-differences.ts";

const entry: KnownDifference = { pod: "p", field: "named", kubelet: "1", berth: "2", reason: "so" };
const finding = (field: string, kubelet: Finding["kubelet"], berth: string | undefined = "2"): Finding => ({
  pod: "p",
  field,
  kubelet,
  berth,
  kind: "difference",
});
const order = (kubelet: readonly string[], berth: string) => finding(EVENT_ORDER, kubelet, berth);
const exitCode = "gone containerStatuses[main].state.terminated.exitCode";

test.each<[what: string, found: Finding, mayComeOnce: boolean]>([
  ["a third text of a field in which the kubelet's runs differ", finding("x", ["1", "3"]), false],
  ["a second text of a field that one run of the kubelet lacks", finding("x", ["1", undefined]), false],
  ["a field that all of the kubelet's different runs have", { ...finding("x", ["1", "3"]), berth: undefined }, false],
  ["a field in which the kubelet's runs agree", finding("x", ["1"]), false],
  ["a field that no run of the kubelet has", finding("x", [undefined]), false],
  ["an order in which the common events of all of the kubelet's runs agree", order(["a\nb", "a\nb"], "b\na"), false],
  [
    "a third order of pairs that some run of the kubelet has",
    order(["a\nb\nc", "b\na\nc", "a\nc\nb"], "c\na\nb"),
    false,
  ],
  ["an order of which two runs of the kubelet have half each", order(["a\nb\nc\nd", "b\na\nd\nc"], "a\nb\nd\nc"), true],
  ["an order with a pair that no run of the kubelet has", order(["a\nb\nc", "b\na\nc"], "b\nc\na"), false],
  ["two events that no run of the kubelet has together", order(["a\nb\nx", "b\na\ny"], "y\na\nb\nx"), false],
  ["an exit code in which the kubelet's runs differ", finding(exitCode, ["1", "3"]), false],
  ["a count beside the kubelet's by their own distance", finding("event x", ["×2", "×3"], "×4"), true],
  [
    "a count that is farther from the kubelet's than they are from each other",
    finding("event x", ["×2", "×3"], "×5"),
    false,
  ],
  [
    "an absent event of which the kubelet's runs have some",
    { ...finding("event x", ["×2", "×3"]), berth: undefined },
    false,
  ],
  [
    "an absent event that all of the kubelet's runs have once or twice",
    { ...finding("event x", ["×1", "×2"]), berth: undefined },
    false,
  ],
  ["twice an event that some of the kubelet's runs have once", finding("event x", ["×1", undefined], "×2"), true],
  ["a field and the values that an entry names", finding("named", ["1"]), true],
  ["such a field of another pod", { ...finding("named", ["1"]), pod: "q" }, false],
  ["such a field with another value of the kubelet", finding("named", ["3"]), false],
  ["such a field with another value of Berth", finding("named", ["1"], "3"), false],
  ["such a field that Berth lacks", { ...finding("named", ["1"]), berth: undefined }, false],
])("%s", (_, found, expected) => {
  expect(mayComeOnce(found, [entry])).toBe(expected);
  expect(mayComeOnce({ ...found, kind: "deliberate" }, [entry])).toBe(false);
});

const noise = [finding("event x", ["×1", "×2"], "×3")];

test.each<[what: string, furtherRuns: readonly (readonly Finding[])[], kind: Finding["kind"]]>([
  ["without a further run it is a difference", [], "difference"],
  ["a difference that one of two further runs shows stays one", [[], noise], "difference"],
  ["a difference that no further run shows is noise", [[], []], "noise"],
  ["a further run shows it as a known difference", [[{ ...noise[0]!, kind: "deliberate" }]], "noise"],
  ["a further run shows another difference that may come once", [[finding("event y", ["×1", "×2"], "×3")]], "noise"],
])("%s", (_, furtherRuns, kind) => {
  const found = withoutUnrepeated(noise, furtherRuns, []);
  expect(found.map((each) => each.kind)).toEqual([kind]);
  expect(unrepeatedFindings(found)).toEqual(kind === "noise" ? found : []);
});

test("what must not come once is a difference in a further run, too", () => {
  const wrong = finding("y", ["1"]);
  expect(withoutUnrepeated(noise, [[], [wrong]], []).filter(({ kind }) => kind === "difference")).toEqual([wrong]);
  expect(withoutUnrepeated([], [[wrong]], [])).toEqual([wrong]);
});

test("further runs excuse nothing in which the kubelet's runs agree, and leave known differences as they are", () => {
  const found: readonly Finding[] = [finding("x", ["1"]), { ...finding("y", ["1"]), kind: "deliberate" }];
  expect(withoutUnrepeated(found, [[], []], [entry])).toEqual(found);
});

for (const field of [
  exitCode,
  "later containerStatuses[main].restartCount",
  "settled phase",
  "gone containerStatuses[main].lastState.terminated.containerID",
  "gone containerStatuses[main].state.terminated.signal",
  "settled initContainerStatuses[first].state.terminated.reason",
  "settled conditions[Ready].status",
  "gone conditions[berth.test/open].status",
  "settled containerStatuses[main].ready",
  "later initContainerStatuses[first].started",
  "gone containerStatuses[main].state.waiting.reason",
  "settled times",
])
  test(`a wrong ${field} is a difference even if it comes once`, () => {
    expect(withoutUnrepeated([finding(field, ["1", "3"])], [[], []], [])).toEqual([finding(field, ["1", "3"])]);
  });

test("an event whose text ends like such a field may come once", () => {
  const started = finding("event Normal Started spec.containers{main}: Container started", ["×3", "×4"], "×5");
  expect(mayComeOnce(started, [])).toBe(true);
});

/** Values on which all runs of the kubelet agree, and Berth's. */
const once: readonly (readonly [pod: string, field: string, kubelet: string, berth: string, mayComeOnce: boolean])[] = [
  ["out-of-memory", "gone containerStatuses[main].state.terminated.reason", "OOMKilled", "Error", true],
  ["out-of-memory", "gone containerStatuses[main].state.terminated.reason", "OOMKilled", "Completed", false],
  ["out-of-memory", "gone containerStatuses[main].state.terminated.reason", "Error", "OOMKilled", false],
  ["fails", "gone containerStatuses[main].state.terminated.reason", "OOMKilled", "Error", false],
  ["pull-refused", "event Warning Failed spec.containers{main}: Error: ImagePullBackOff", "×1", "×2", true],
  ["pull-refused", 'event Normal BackOff spec.containers{main}: Back-off pulling image "i"', "×1", "×2", true],
  ["pull-refused", 'event Normal BackOff spec.containers{main}: Back-off pulling image "i"', "×1", "×3", false],
  ["pull-refused", "event Warning Failed spec.containers{main}: Error: ErrImagePull", "×1", "×2", false],
  ["pull-refused-until-its-deadline", "event Warning Failed x: Error: ImagePullBackOff", "×1", "×2", false],
  ["crash-loop", "event Warning BackOff spec.containers{main}: x", "×2", "×3", true],
  ["crash-loop", "event Warning BackOff spec.containers{main}: x", "×2", "×1", false],
  ["crash-loop", "event Warning BackOff spec.containers{main}: x", "×3", "×4", false],
  ["crash-loop", "event Warning BackOff spec.containers{main}: x", "×2", "×4", false],
  ["runs", "event Warning BackOff spec.containers{main}: x", "×2", "×3", false],
];
for (const [pod, field, kubelet, berth, expected] of once)
  test(`${pod}: ${field} ${expected ? "may" : "must not"} be ${berth} once instead of ${kubelet}`, () => {
    const found: Finding = { pod, field, kubelet: [kubelet], berth, kind: "difference" };
    expect(mayComeOnce(found, knownDifferences.inOneRun)).toBe(expected);
  });

test("a distance that may come once is one by which the kubelet's runs differ elsewhere", async () => {
  const distances = knownDifferences.inOneRun.filter(({ within }) => within !== undefined);
  const recording = await readRecording(allCases);
  const ofAgreed = (all: readonly KnownDifference[]) =>
    all.map((each) => (each.within === undefined ? each : { ...each, withinAgreed: each.within }));
  expect(distances.length).toBeGreaterThan(0);
  expect(findUnsupportedDistances(ofAgreed(distances), recording)).toEqual([]);
  const planted = ofAgreed(distances.map((each) => ({ ...each, within: 3 })));
  expect(findUnsupportedDistances(planted, recording)).toEqual(planted);
});
