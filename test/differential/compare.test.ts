import { expect, test } from "bun:test";
import { compare, type Entry, fieldsOf, isBoundless, stale, tell } from "./compare.ts";
import { ORDER, type Rows } from "./comparison-rows.ts";
import { lists } from "./known-differences.ts";

const rows = (entries: Readonly<Record<string, string>>): Rows => new Map(Object.entries(entries));
const kinds = (
  a: Readonly<Record<string, string>>,
  b: Readonly<Record<string, string>>,
  berth: Readonly<Record<string, string>>,
  deliberate: readonly Entry[] = [],
  momentary: readonly Entry[] = [],
) =>
  compare({ pod: "p", kubelet: [rows(a), rows(b)], berth: rows(berth) }, { deliberate, momentary }).map(
    ({ field, kind }) => `${kind} ${field}`,
  );
const entry: Entry = { pod: "p", field: "x", kubelet: "1", berth: "2", reason: "so" };

test("what all three show alike is no finding", () => {
  expect(kinds({ x: "1" }, { x: "1" }, { x: "1" })).toEqual([]);
});

test("what Berth alone shows otherwise is a difference, also where a side shows nothing", () => {
  expect(kinds({ x: "1" }, { x: "1" }, { x: "2" })).toEqual(["difference x"]);
  expect(kinds({ x: "1" }, { x: "1" }, {})).toEqual(["difference x"]);
  expect(kinds({}, {}, { x: "1" })).toEqual(["difference x"]);
});

test("where the kubelet shows otherwise than itself, what Berth shows is noise if one of the runs shows it", () => {
  expect(kinds({ x: "1" }, { x: "2" }, { x: "1" })).toEqual(["noise x"]);
  expect(kinds({ x: "1" }, {}, {})).toEqual(["noise x"]);
  expect(kinds({ x: "1" }, {}, { x: "3" })).toEqual(["difference x"]);
  expect(kinds({ x: "1" }, { x: "2" }, {})).toEqual(["difference x"]);
});

test("what depends on moments is noise as far as the list says", () => {
  const list: readonly Entry[] = [{ ...entry, kubelet: ["1", undefined], berth: ["2", "3"] }];
  expect(kinds({ x: "1" }, {}, { x: "3" }, [], list)).toEqual(["noise x"]);
  expect(kinds({ x: "1" }, { x: "1" }, { x: "2" }, [], list)).toEqual(["noise x"]);
  expect(kinds({ x: "1" }, { x: "4" }, { x: "2" }, [], list)).toEqual(["difference x"]);
  expect(kinds({ x: "1" }, {}, { x: "4" }, [], list)).toEqual(["difference x"]);
});

test("numbers may be apart as far as the list says", () => {
  const list: readonly Entry[] = [{ ...entry, kubelet: /^×\d$/, berth: /^×\d+$/, within: 2 }];
  expect(kinds({ x: "×1" }, { x: "×2" }, { x: "×3" }, [], list)).toEqual(["noise x"]);
  expect(kinds({ x: "×1" }, { x: "×2" }, { x: "×4" }, [], list)).toEqual(["difference x"]);
  expect(kinds({ x: "×1" }, { x: "×1" }, { x: "×50" }, [], list)).toEqual(["difference x"]);
  expect(kinds({ x: "×1" }, { x: "×1" }, {}, [], list)).toEqual(["difference x"]);
});

test("a difference that is listed is deliberate, where both sides are as the list says", () => {
  expect(kinds({ x: "1" }, { x: "1" }, { x: "2" }, [entry])).toEqual(["deliberate x"]);
  expect(kinds({ x: "1" }, { x: "1" }, { x: "3" }, [entry])).toEqual(["difference x"]);
  expect(kinds({ x: "4" }, { x: "4" }, { x: "2" }, [entry])).toEqual(["difference x"]);
  expect(kinds({ x: "1" }, { x: "1" }, {}, [entry])).toEqual(["difference x"]);
  expect(kinds({ x: "1" }, { x: "4" }, { x: "2" }, [entry])).toEqual(["difference x"]);
  const pattern = { ...entry, pod: /^p/, field: /./, kubelet: /\d/ };
  expect(kinds({ x: "1" }, { x: "1" }, { x: "2" }, [{ ...pattern, berth: /\d/ }])).toEqual(["deliberate x"]);
  expect(kinds({ x: "1" }, { x: "1" }, { x: "2" }, [{ ...pattern, pod: ["q"], berth: /\d/ }])).toEqual([
    "difference x",
  ]);
});

test("no pattern is about what is not there", () => {
  const pattern = { ...entry, kubelet: /\d/, berth: /^/ };
  expect(kinds({ x: "1" }, { x: "1" }, {}, [pattern])).toEqual(["difference x"]);
});

/** Two runs of the kubelet that agree, and what would be wrong of Berth. */
const wrong: readonly (readonly [
  pod: string,
  field: string,
  kubelet: string | undefined,
  berth: string | undefined,
])[] = [
  ["runs", 'event Normal Pulled spec.containers{main}: Container image "i" already present on machine', "×1", "×50"],
  ["root-by-number", "event Normal Pulled spec.containers{main}: x", "×2", "×50"],
  ["root-by-number", "event Normal Pulled spec.containers{main}: x", "×2", undefined],
  ["deadline", "event Normal DeadlineExceeded: x", "×2", "×2000"],
  ["crash-loop", "event Warning BackOff spec.containers{main}: x", "×2", "×9"],
  ["crash-loop", "later containerStatuses[main].restartCount", "2", "99"],
  ["crash-loop", "later containerStatuses[main].restartCount", "2", "3"],
  ["crash-loop", "later containerStatuses[main].lastState.terminated.exitCode", "1", "137"],
  ["crash-loop", "later containerStatuses[main].state.waiting.reason", undefined, "ErrImagePull"],
  ["crash-loop", "gone containerStatuses[main].lastState.terminated.exitCode", "1", "2"],
  ["static", "gone phase", "Running", "Failed"],
  ["static", "gone containerStatuses[main].state.terminated.exitCode", undefined, "137"],
  ["static", "gone containerStatuses[main].restartCount", "0", "1"],
  ["runs", "settled conditions[PodReadyToStartContainers].status", "True", "False"],
  ["succeeds", "settled conditions[PodReadyToStartContainers].status", "True", undefined],
  ["runs", "settled resources.requests.cpu", "1", undefined],
  ["burstable", "settled resources.requests.cpu", "25m", "1"],
  ["host-path-no-file", "event Warning FailedMount: /x is not a file", "×3", "×3000"],
  [
    "runs",
    ORDER,
    "event Normal Created x: y\nevent Normal Started x: z",
    "event Normal Started x: z\nevent Normal Created x: y",
  ],
];
for (const [pod, field, kubelet, berth] of wrong)
  test(`the lists do not excuse ${pod}: ${field} as ${berth}`, () => {
    const side = (value: string | undefined) => rows(value === undefined ? {} : { [field]: value });
    const runs = { pod, kubelet: [side(kubelet), side(kubelet)], berth: side(berth) } as const;
    expect(compare(runs, lists).map(({ kind }) => kind)).toEqual(["difference"]);
  });

test("of a crash loop's second wait one run of the kubelet may show nothing, and the other the wait that comes next", () => {
  const wait = (seconds: number) => ({
    "later initContainerStatuses[first].state.waiting.message": `back-off ${seconds}s restarting failed container=first pod=P`,
  });
  const found = (a: Rows, b: Rows, berth: Rows) =>
    compare({ pod: "init-loop", kubelet: [a, b], berth }, lists).map(({ kind }) => kind);
  expect(found(rows({}), rows(wait(40)), rows(wait(20)))).toEqual(["noise"]);
  expect(found(rows(wait(20)), rows(wait(20)), rows(wait(10)))).toEqual(["difference"]);
  expect(found(rows({}), rows(wait(40)), rows(wait(80)))).toEqual(["difference"]);
});

test("no entry of the lists takes whatever both sides show", () => {
  expect([...lists.deliberate, ...lists.momentary].filter(isBoundless)).toEqual([]);
  expect(isBoundless({ ...entry, kubelet: /^/, berth: [/^/, undefined] })).toBe(true);
  expect(isBoundless({ ...entry, kubelet: /^/ })).toBe(false);
  expect(isBoundless({ ...entry, kubelet: /^/, berth: /^×\d$/ })).toBe(false);
});

test("the fields of a pod are those that any run has", () => {
  expect([...fieldsOf({ pod: "p", kubelet: [rows({ x: "1" }), rows({ y: "1" })], berth: rows({ z: "1" }) })]).toEqual([
    "x",
    "y",
    "z",
  ]);
});

test("of the order of events only those count that all sides tell", () => {
  expect(kinds({ [ORDER]: "a\nb\nc" }, { [ORDER]: "a\nb" }, { [ORDER]: "a\nx\nb" })).toEqual([]);
  expect(kinds({ [ORDER]: "a\nb" }, { [ORDER]: "a\nb" }, { [ORDER]: "b\na" })).toEqual([`difference ${ORDER}`]);
  expect(kinds({ [ORDER]: "a\nb" }, { [ORDER]: "b\na" }, { [ORDER]: "b\na" })).toEqual([`noise ${ORDER}`]);
});

test("an entry is stale when nothing is found that it is about", () => {
  const found = (a: string, b: string, berth: string) =>
    compare(
      { pod: "p", kubelet: [rows({ x: a }), rows({ x: b })], berth: rows({ x: berth }) },
      { deliberate: [entry], momentary: [] },
    );
  expect(stale([entry], found("1", "1", "2"))).toEqual([]);
  expect(stale([entry], found("0", "1", "2"))).toEqual([]);
  expect(stale([entry], found("1", "1", "3"))).toEqual([entry]);
  expect(stale([entry], [])).toEqual([entry]);
});

test("a finding is told with each side", () => {
  const found = compare(
    { pod: "p", kubelet: [rows({ x: "1" }), rows({ x: "1" })], berth: rows({}) },
    { deliberate: [], momentary: [] },
  );
  expect(tell(found)).toBe("difference: p: x\n    kubelet        1\n    berth          (nothing)");
});
