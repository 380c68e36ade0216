import { expect, test } from "bun:test";
import {
  compareRuns,
  type Finding,
  fieldsOf,
  findStalePods,
  findUnboundedAgreements,
  findUnrecordedPods,
  formatFindings,
  joinRuns,
  type KnownDifference,
} from "./compare.ts";
import { EVENT_ORDER, type Rows } from "./comparison-rows.ts";
import { knownDifferences } from "./known-differences.ts";

const rows = (entries: Readonly<Record<string, string>>): Rows => new Map(Object.entries(entries));
const kinds = (
  a: Readonly<Record<string, string>>,
  b: Readonly<Record<string, string>>,
  berth: Readonly<Record<string, string>>,
  deliberate: readonly KnownDifference[] = [],
  timingDependent: readonly KnownDifference[] = [],
) =>
  compareRuns(
    { pod: "p", kubelet: joinRuns([rows(a), rows(b)]), berth: rows(berth) },
    { deliberate, timingDependent },
  ).map(({ field, kind }) => `${kind} ${field}`);
const entry: KnownDifference = { pod: "p", field: "x", kubelet: "1", berth: "2", reason: "so" };

test("reports no finding when all three runs agree", () => {
  expect(kinds({ x: "1" }, { x: "1" }, { x: "1" })).toEqual([]);
});

test("reports a difference when only Berth deviates, also when a side lacks the field", () => {
  expect(kinds({ x: "1" }, { x: "1" }, { x: "2" })).toEqual(["difference x"]);
  expect(kinds({ x: "1" }, { x: "1" }, {})).toEqual(["difference x"]);
  expect(kinds({}, {}, { x: "1" })).toEqual(["difference x"]);
});

test("reports noise when the kubelet's runs disagree and Berth equals one of them", () => {
  expect(kinds({ x: "1" }, { x: "2" }, { x: "1" })).toEqual(["noise x"]);
  expect(kinds({ x: "1" }, {}, {})).toEqual(["noise x"]);
  expect(kinds({ x: "1" }, {}, { x: "3" })).toEqual(["difference x"]);
  expect(kinds({ x: "1" }, { x: "2" }, {})).toEqual(["difference x"]);
});

test("an entry that may agree has Berth's counts beside the kubelet's only one, the instance after it, or messages of events", () => {
  const { deliberate, timingDependent } = knownDifferences;
  expect(findUnboundedAgreements([...deliberate, ...timingDependent])).toEqual([]);
  const count: KnownDifference = { ...entry, mayAgree: true, kubelet: "×2", berth: ["×1", "×3"] };
  const others: readonly Partial<KnownDifference>[] = [
    { berth: ["×1", "×4"] },
    { berth: "×3" },
    { berth: /^×[13]$/ },
    { berth: ["×1", undefined, "×3"] },
    { kubelet: /^×2$/ },
    { kubelet: ["×2", undefined] },
  ];
  const instance: KnownDifference = { ...entry, mayAgree: true, kubelet: "INSTANCE 1 OF a", berth: "INSTANCE 2 OF a" };
  const otherInstances: readonly Partial<KnownDifference>[] = [
    { berth: "INSTANCE 3 OF a" },
    { berth: "INSTANCE 0 OF a" },
    { berth: ["INSTANCE 2 OF a", undefined] },
    { berth: /^INSTANCE 2/ },
    { kubelet: /^INSTANCE 1/ },
    { kubelet: "INSTANCE", berth: "INSTANCE" },
  ];
  const { kubelet: _, ...ofBerthAlone } = entry;
  const message = { ...ofBerthAlone, mayAgree: "in some pods", berth: ["a", "b"], eventReasons: ["Failed"] } as const;
  const { eventReasons: __, ...ofNoEvent } = message;
  const planted: readonly KnownDifference[] = [
    ofNoEvent,
    { ...message, berth: /^a/ },
    { ...message, berth: ["a", undefined] },
    { ...message, kubelet: "c" },
    { ...message, mayAgree: true },
    ...others.map((other) => ({ ...count, ...other })),
    ...otherInstances.map((other) => ({ ...instance, ...other })),
  ];
  expect(findUnboundedAgreements([count, instance, message, ...planted])).toEqual(planted);
});

test("reports listed timing-dependent values as noise where the kubelet's runs differ, and other values as a difference", () => {
  const list: readonly KnownDifference[] = [{ ...entry, kubelet: ["1", undefined], berth: ["2", "3"] }];
  expect(kinds({ x: "1" }, {}, { x: "3" }, [], list)).toEqual(["noise x"]);
  expect(kinds({ x: "1" }, { x: "1" }, { x: "2" }, [], list)).toEqual(["difference x"]);
  expect(kinds({ x: "1" }, { x: "4" }, { x: "2" }, [], list)).toEqual(["difference x"]);
  expect(kinds({ x: "1" }, {}, { x: "4" }, [], list)).toEqual(["difference x"]);
});

test("accepts numbers within the listed distance only", () => {
  const list: readonly KnownDifference[] = [{ ...entry, kubelet: /^×\d$/, berth: /^×\d+$/, within: 2 }];
  expect(kinds({ x: "×1" }, { x: "×2" }, { x: "×3" }, [], list)).toEqual(["noise x"]);
  expect(kinds({ x: "×1" }, { x: "×2" }, { x: "×4" }, [], list)).toEqual(["noise x"]);
  expect(kinds({ x: "×1" }, { x: "×2" }, { x: "×5" }, [], list)).toEqual(["difference x"]);
  expect(kinds({ x: "×1" }, { x: "×1" }, { x: "×50" }, [], list)).toEqual(["difference x"]);
  expect(kinds({ x: "×1" }, { x: "×1" }, {}, [], list)).toEqual(["difference x"]);
});

test("a distance counts only where the kubelet's runs differ", () => {
  const list: readonly KnownDifference[] = [{ ...entry, kubelet: /^×\d$/, berth: /^×\d+$/, within: 2 }];
  expect(kinds({ x: "×1" }, { x: "×1" }, { x: "×2" }, [], list)).toEqual(["difference x"]);
  const agreed = list.map((each) => ({ ...each, withinAgreed: 1 }));
  expect(kinds({ x: "×1" }, { x: "×1" }, { x: "×2" }, [], agreed)).toEqual(["noise x"]);
  expect(kinds({ x: "×1" }, { x: "×1" }, { x: "×3" }, [], agreed)).toEqual(["difference x"]);
});

test("reports a listed difference as deliberate only when both sides match the entry", () => {
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

test("a pattern does not match a missing field", () => {
  const pattern = { ...entry, kubelet: /\d/, berth: /^/ };
  expect(kinds({ x: "1" }, { x: "1" }, {}, [pattern])).toEqual(["difference x"]);
});

/** A value on which both kubelet runs agree, and a wrong value of Berth. */
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
  ["deadline-ignored", "settled containerStatuses[main].state.terminated.exitCode", "137", "143"],
  ["crash-loop", "event Warning BackOff spec.containers{main}: x", "×2", "×9"],
  ["crash-loop", "later containerStatuses[main].restartCount", "2", "99"],
  ["crash-loop", "later containerStatuses[main].restartCount", "2", "3"],
  ["crash-loop", "later containerStatuses[main].lastState.terminated.exitCode", "1", "137"],
  ["crash-loop", "later containerStatuses[main].state.waiting.reason", undefined, "ErrImagePull"],
  ["crash-loop", "gone containerStatuses[main].lastState.terminated.exitCode", "1", "2"],
  ["static", "gone phase", "Running", "Failed"],
  ["debug-command-missing", "later ephemeralContainerStatuses[debugger].state.terminated.exitCode", undefined, "0"],
  ["debug-command-missing", "later ephemeralContainerStatuses[debugger].state.terminated.reason", undefined, "Error"],
  ["debug-command-missing", "gone ephemeralContainerStatuses[debugger].lastState.terminated.exitCode", "1", undefined],
  ["secret-missing", "event Warning Failed spec.containers{main}: x", "×2", "×3"],
  ["pull-refused", "event Normal Pulling spec.containers{main}: x", "×2", "×3"],
  ["pull-refused", "event Normal BackOff spec.containers{main}: x", "×1", "×2"],
  ["debug-image-refused", "event Warning Failed spec.ephemeralContainers{debugger}: x", "×3", "×4"],
  ["unready-by-grpc", "event Warning Unhealthy spec.containers{main}: x", "×3", "×1"],
  ["unready-by-exec", "event Warning Unhealthy spec.containers{main}: x", "×2", "×4"],
  ["no-volume-nfs", "event Warning FailedMount: x", "×3", "×5"],
  ["projected-volume-changes", "later conditions[PodReadyToStartContainers].status", "False", "True"],
  ["projected-volume-changes", "settled conditions[PodReadyToStartContainers].status", "True", "False"],
  ["static-crash-loop", "gone containerStatuses[main].state.terminated.exitCode", "13", "137"],
  ["sidecar-beside-a-failed-init", "settled initContainerStatuses[side].state.terminated.exitCode", "143", undefined],
  ["post-start-fails", "gone containerStatuses[main].state.terminated.exitCode", "143", "137"],
  ["post-start-without-command", "gone containerStatuses[main].state.terminated.exitCode", "143", "2"],
  ["crash-loop", "later containerStatuses[main].state.terminated.exitCode", "139", undefined],
  ["crash-loop", "settled containerStatuses[main].state.terminated.exitCode", "13", undefined],
  ["crash-loop", "later containerStatuses[main].state.terminated.reason", "Completed", undefined],
  [
    "crash-loop",
    "settled containerStatuses[main].state.terminated.containerID",
    "containerd://INSTANCE 2 OF main",
    undefined,
  ],
  ["init-loop", "later initContainerStatuses[first].state.terminated.exitCode", "12", undefined],
  ["init-loop", "later initContainerStatuses[first].state.terminated.exitCode", "3", undefined],
  ["sidecar-crashes", "settled initContainerStatuses[side].state.terminated.exitCode", "5", undefined],
  ["success-loop", "settled containerStatuses[main].state.terminated.exitCode", "12", undefined],
  ["static", "gone containerStatuses[main].state.terminated.exitCode", undefined, "137"],
  ["static", "gone containerStatuses[main].restartCount", "0", "1"],
  ["runs", "settled conditions[PodReadyToStartContainers].status", "True", "False"],
  ["succeeds", "settled conditions[PodReadyToStartContainers].status", "True", undefined],
  ["runs", "settled resources.requests.cpu", "1", undefined],
  ["burstable", "settled resources.requests.cpu", "25m", "1"],
  ["host-path-no-file", "event Warning FailedMount: /x is not a file", "×3", "×3000"],
  ["no-volume-secret", "event Warning FailedMount: nonsense", undefined, "×2"],
  ["no-volume-secret", 'event Warning FailedMount: secret "none" not found', "×3", undefined],
  [
    "no-volume-secret",
    "settled containerStatuses[main].state.waiting.message",
    undefined,
    'MountVolume.SetUp failed for volume "v" : configmap "none" not found',
  ],
  [
    "runs",
    EVENT_ORDER,
    "event Normal Created x: y\nevent Normal Started x: z",
    "event Normal Started x: z\nevent Normal Created x: y",
  ],
];
for (const [pod, field, kubelet, berth] of wrong)
  test(`the lists do not excuse ${pod}: ${field} as ${berth}`, () => {
    const side = (value: string | undefined) => rows(value === undefined ? {} : { [field]: value });
    const runs = { pod, kubelet: joinRuns([side(kubelet)]), berth: side(berth) };
    expect(compareRuns(runs, knownDifferences).map(({ kind }) => kind)).toEqual(["difference"]);
  });

test("a waiting container names the cause of an event of its own pod, and no other", () => {
  const causeOf = (object: string) => `MountVolume.SetUp failed for volume "v" : ${object} "none" not found`;
  const waiting = "settled containerStatuses[main].state.waiting.message";
  const found = (message: string, event: string) => {
    const kubelet = rows({ [event]: "×2" });
    const runs = {
      pod: "no-volume-secret",
      kubelet: joinRuns([kubelet]),
      berth: rows({ [event]: "×2", [waiting]: message }),
    };
    return compareRuns(runs, knownDifferences).map(({ kind }) => kind);
  };
  expect(found(causeOf("secret"), `event Warning FailedMount: ${causeOf("secret")}`)).toEqual(["deliberate"]);
  expect(found(causeOf("configmap"), `event Warning FailedMount: ${causeOf("secret")}`)).toEqual(["difference"]);
  expect(found(causeOf("secret"), `event Warning Failed: ${causeOf("secret")}`)).toEqual(["difference"]);
});

test("where some runs of the kubelet show no end at the deadline, only the end by SIGTERM is excused", () => {
  const field = "settled containerStatuses[main].state.terminated.exitCode";
  const found = (kubelet: string, berth: string) => {
    const runs = { pod: "deadline", kubelet: joinRuns([rows({ [field]: kubelet }), rows({})]) };
    return compareRuns({ ...runs, berth: rows({ [field]: berth }) }, knownDifferences).map(({ kind }) => kind);
  };
  expect(found("143", "143")).toEqual(["noise"]);
  expect(found("143", "137")).toEqual(["difference"]);
  expect(found("137", "143")).toEqual(["difference"]);
});

test("accepts that one kubelet run misses a crash loop's second wait and the other shows the next wait", () => {
  const field = "later initContainerStatuses[first].state.waiting.message";
  const waitOf = (pod: string) => (seconds: number) => ({
    [field]: `back-off ${seconds}s restarting failed container=first pod=${pod}`,
  });
  const wait = waitOf("init-loop_NAMESPACE(UID)");
  const found = (a: Rows, b: Rows, berth: Rows) =>
    compareRuns({ pod: "init-loop", kubelet: joinRuns([a, b]), berth }, knownDifferences).map(({ kind }) => kind);
  expect(found(rows({}), rows(wait(40)), rows(wait(20)))).toEqual(["noise"]);
  expect(found(rows(wait(20)), rows(wait(20)), rows(wait(10)))).toEqual(["difference"]);
  expect(found(rows({}), rows(wait(40)), rows(wait(80)))).toEqual(["difference"]);
  expect(found(rows({}), rows({}), rows(wait(20)))).toEqual(["deliberate"]);
  expect(found(rows({}), rows({}), rows(wait(10)))).toEqual(["difference"]);
  expect(found(rows({}), rows({}), rows(waitOf("init-loop_NAMESPACE(another)")(20)))).toEqual(["difference"]);
});

test("the counts of probe events and of tries of a subPath have a limit", () => {
  const found = (pod: string, field: string, kubelet: string | undefined, berth: string | undefined) => {
    const rowOf = (value: string | undefined) => rows(value === undefined ? {} : { [field]: value });
    const runs = { pod, kubelet: joinRuns([rowOf(kubelet)]), berth: rowOf(berth) };
    return compareRuns(runs, knownDifferences).map(({ kind }) => kind);
  };
  const counts = Array.from({ length: 10 }, (_, count) => `×${count + 1}`);
  const probe =
    "event Warning Unhealthy spec.containers{main}: Readiness probe errored and resulted in unknown state: ";
  const excused = (count: (value: string) => readonly string[]) =>
    counts.filter((value) => count(value)[0] === "deliberate");
  const ofPort = `${probe}container main has no port "none"`;
  expect(excused((value) => found("unready-by-name", ofPort, undefined, value))).toEqual(["×2", "×3"]);
  const ofParser = `${probe}strconv.Atoi: parsing "none": invalid syntax`;
  expect(excused((value) => found("unready-by-name", ofParser, value, undefined))).toEqual(["×3", "×4", "×5"]);
  const ofSubPath =
    'event Warning Failed spec.containers{absolute}: Error: failed to prepare subPath for volumeMount "data" of container "absolute"';
  const pod = "sub-paths-that-leave-the-volume";
  expect(excused((value) => found(pod, ofSubPath, undefined, value))).toEqual(["×1", "×2", "×3", "×4"]);
  const canceled = `${probe}rpc error: code = Canceled desc = context canceled`;
  expect(excused((value) => found("ready-by-exec", canceled, value, undefined))).toEqual(["×1", "×2", "×3"]);
  expect(found("ready-by-exec", canceled, "×1", "×2")).toEqual(["difference"]);
});

test("compares the fields of all runs of a pod", () => {
  expect([
    ...fieldsOf({ pod: "p", kubelet: joinRuns([rows({ x: "1" }), rows({ y: "1" })]), berth: rows({ z: "1" }) }),
  ]).toEqual(["x", "y", "z"]);
});

test("compares the order of only those events that all sides have", () => {
  expect(kinds({ [EVENT_ORDER]: "a\nb\nc" }, { [EVENT_ORDER]: "a\nb" }, { [EVENT_ORDER]: "a\nx\nb" })).toEqual([]);
  expect(kinds({ [EVENT_ORDER]: "a\nb" }, { [EVENT_ORDER]: "a\nb" }, { [EVENT_ORDER]: "b\na" })).toEqual([
    `difference ${EVENT_ORDER}`,
  ]);
  expect(kinds({ [EVENT_ORDER]: "a\nb" }, { [EVENT_ORDER]: "b\na" }, { [EVENT_ORDER]: "b\na" })).toEqual([
    `noise ${EVENT_ORDER}`,
  ]);
});

test("a pod is stale that an entry names and that no longer shows the difference", () => {
  const found = (pod: string, kubelet: readonly string[], berth: string) =>
    compareRuns(
      { pod, kubelet: joinRuns(kubelet.map((x) => rows({ x }))), berth: rows({ x: berth }) },
      { deliberate: [{ ...entry, pod: /./ }], timingDependent: [] },
    );
  const ofTwo = { ...entry, pod: ["p", "q"] };
  const shown = found("p", ["1", "1"], "2");
  const stale = (entries: readonly KnownDifference[], findings: readonly Finding[]) =>
    findStalePods(entries, findings, ["p", "q", "r"]);
  expect(stale([ofTwo], [...shown, ...found("q", ["1", "1"], "2")])).toEqual([]);
  expect(stale([ofTwo], [...shown, ...found("q", ["0", "1"], "2")])).toEqual([]);
  // The pod shows what the kubelet shows, or another value, or only another pod shows the difference.
  expect(stale([ofTwo], [...shown, ...found("q", ["1", "1"], "1")])).toEqual(["x: q"]);
  expect(stale([ofTwo], [...shown, ...found("q", ["1", "1"], "3")])).toEqual(["x: q"]);
  expect(stale([ofTwo], [...shown, ...found("r", ["1", "1"], "2")])).toEqual(["x: q"]);
  expect(stale([ofTwo], [])).toEqual(["x: p, q"]);
  // A pattern names each pod that it matches, and has to match one.
  expect(stale([{ ...entry, pod: /^[pr]$/ }], shown)).toEqual(["x: r"]);
  expect(stale([{ ...entry, pod: /^s$/ }], shown)).toEqual(["x: no pod matches /^s$/"]);
  expect(stale([{ ...entry, pod: "s" }], shown)).toEqual(["x: s"]);
  expect(stale([{ ...ofTwo, mayAgree: true }], [])).toEqual([]);
  expect(stale([{ ...ofTwo, mayAgree: "in some pods" }], shown)).toEqual([]);
  expect(stale([{ ...ofTwo, mayAgree: "in some pods" }], found("r", ["1", "1"], "2"))).toEqual(["x: no pod shows it"]);
});

test("a side that agrees with Berth is no difference", () => {
  const same: KnownDifference = { ...entry, kubelet: ["1", "2"] };
  const found: Finding = { pod: "p", field: "x", kubelet: ["2", "3"], berth: "2", kind: "noise" };
  expect(findStalePods([same], [found], ["p"])).toEqual(["x: p"]);
  expect(findStalePods([same], [{ ...found, kubelet: ["2", "1"] }], ["p"])).toEqual([]);
});

test("a pod is unrecorded whose recording lacks the kubelet's side of its entry", () => {
  const recording = new Map([
    ["p", joinRuns([rows({ x: "0" }), rows({ x: "1" })])],
    ["q", joinRuns([rows({ x: "0" })])],
  ]);
  const { kubelet: _, ...ofBerthAlone } = entry;
  const absent = { ...ofBerthAlone, field: "y" };
  expect(findUnrecordedPods([entry, absent], recording)).toEqual([]);
  expect(findUnrecordedPods([{ ...entry, pod: ["p", "q"] }], recording)).toEqual(["x: q"]);
  expect(findUnrecordedPods([{ ...entry, pod: /^[pq]$/ }], recording)).toEqual(["x: q"]);
  const unrecorded = [
    { ...entry, kubelet: "3" },
    { ...entry, pod: "r" },
    { ...entry, pod: /^r$/ },
    { ...entry, field: "y" },
    ofBerthAlone,
  ];
  expect(findUnrecordedPods(unrecorded, recording)).toEqual([
    "x: p",
    "x: r",
    "x: no pod matches /^r$/",
    "y: p",
    "x: p",
  ]);
});

test("formats a finding with the value of each side", () => {
  const found = compareRuns(
    { pod: "p", kubelet: joinRuns([rows({ x: "1" })]), berth: rows({}) },
    { deliberate: [], timingDependent: [] },
  );
  expect(formatFindings(found)).toBe("difference: p: x\n    kubelet        1\n    berth          (nothing)");
  expect(formatFindings(found, "live kubelet")).toContain("\n    live kubelet   (nothing)");
});
