import { expect, test } from "bun:test";
import type { Event, Pod } from "../../proto/kubernetes/gen/types.ts";
import { EVENT_ORDER, emptyViewParts, missedSnapshots, normalise, toRows } from "./comparison-rows.ts";

const id = "0123456789abcdef".repeat(4);
const texts: readonly [sentence: string, text: string, expected: string][] = [
  ["the longer of two names goes first", "node-a-1 on node-a", "OTHER on NODE"],
  ["ids of containers", `containerd://${id}`, "containerd://ID"],
  ["times", "2026-01-01T10:00:00Z and 2026-01-01T10:00:00.123456Z", "TIME and TIME"],
  [
    "the duration of a pull",
    'pulled image "a" in 1.2s (12.5ms including waiting).',
    'pulled image "a" in A WHILE (A WHILE including waiting).',
  ],
  ["namespaces of the pod", "net:[4026531840]", "OWN"],
  ["resources used by other pods", "requested: 5, used: 340, capacity: 2", "requested: 5, used: SOME, capacity: 2"],
  ["digits that are not an id", "0123456789abcdef", "0123456789abcdef"],
];
for (const [sentence, text, expected] of texts)
  test(`normalises text to be equal on all sides: ${sentence}`, () => {
    const names = [
      ["node-a", "NODE"],
      ["node-a-1", "OTHER"],
      ["", "NEVER"],
    ] as const;
    expect(normalise(text, names)).toBe(expected);
  });

const pod: Pod = {
  metadata: { name: "p", uid: "u-1", annotations: { "kubernetes.io/config.source": "file", other: "x" } },
  spec: { containers: [] },
  status: {
    hostIPs: [{ ip: "192.0.2.1" }],
    podIPs: [{ ip: "10.0.0.2" }],
    conditions: [{ type: "Ready", status: "True", lastTransitionTime: "2026-01-01T10:00:00Z" }],
    containerStatuses: [
      {
        name: "main",
        image: "i",
        imageID: "",
        ready: false,
        restartCount: 0,
        state: { terminated: { exitCode: 0, message: "view\nenv IP=10.0.0.2\nenv A=1\nresolv x\nresolv y\n" } },
      },
    ],
  },
};
const event = (reason: string, nanos: string, count = 1, component = "kubelet"): Event => ({
  metadata: { name: `p.${nanos}` },
  involvedObject: { fieldPath: "spec.containers{main}" },
  source: { component },
  type: "Normal",
  reason,
  message: `of u-1`,
  count,
});

test("makes a row for each status field, view fact, annotation and event", () => {
  const events = [event("Started", "1f", 2), event("Pulled", "a"), event("Scheduled", "1", 1, "default-scheduler")];
  expect(Object.fromEntries(toRows([{ name: "settled", pod }], events, []))).toEqual({
    "settled hostIPs[0].ip": "HOST-IP",
    "settled podIPs[0].ip": "POD-IP",
    "settled conditions[Ready].type": "Ready",
    "settled conditions[Ready].status": "True",
    "settled conditions[Ready].lastTransitionTime": "TIME",
    "settled containerStatuses[main].name": "main",
    "settled containerStatuses[main].image": "i",
    "settled containerStatuses[main].imageID": "",
    "settled containerStatuses[main].ready": "false",
    "settled containerStatuses[main].restartCount": "0",
    "settled containerStatuses[main].state.terminated.exitCode": "0",
    "settled inside main: env IP": "POD-IP",
    "settled inside main: env A": "1",
    "settled inside main: resolv": "x\ny",
    "settled annotation kubernetes.io/config.source": "file",
    "event Normal Pulled spec.containers{main}: of UID": "×1",
    "event Normal Started spec.containers{main}: of UID": "×2",
    [EVENT_ORDER]:
      "event Normal Pulled spec.containers{main}: of UID\nevent Normal Started spec.containers{main}: of UID",
  });
});

test("reports whether the containers of a deleted pod have used up their grace period", () => {
  const terminated = { exitCode: 137, finishedAt: "2026-01-01T10:00:03Z" };
  const ended = (deletionTimestamp?: string, deletionGracePeriodSeconds = 2) => {
    const [own] = pod.status?.containerStatuses ?? [];
    const status = { containerStatuses: [{ ...own!, state: { terminated } }] };
    const metadata = {
      name: "p",
      ...(deletionTimestamp !== undefined && { deletionTimestamp, deletionGracePeriodSeconds }),
    };
    return toRows([{ name: "gone", pod: { ...pod, metadata, status } }], [], []).get("gone end of main");
  };
  expect(ended("2026-01-01T10:00:03Z")).toBe("after its grace period");
  expect(ended("2026-01-01T10:00:04Z")).toBe("within its grace period");
  expect([ended(), ended("2026-01-01T10:00:03Z", 0)]).toEqual([undefined, undefined]);
});

test("ignores the order of container stops", () => {
  const stop = (container: string, nanos: string): Event => ({
    ...event("Killing", nanos),
    involvedObject: { fieldPath: `spec.containers{${container}}` },
  });
  const orders = [
    [stop("a", "1"), stop("b", "2")],
    [stop("b", "1"), stop("a", "2")],
  ].map((events) => toRows([{ name: "gone", pod }], events, []).get(EVENT_ORDER));
  expect(orders[0]).toBe(orders[1]!);
});

test("finds the empty parts of a view", () => {
  const rows = new Map([
    ["settled inside main: limit cpu.max", ""],
    ["settled inside main: env A", ""],
    ["settled inside main: env B", "1"],
    ["settled inside main: mount /proc", "proc rw"],
    ["gone inside main: oom", "1000"],
  ]);
  expect(emptyViewParts(["limits", "env", "mounts", "oom", "args"], rows)).toEqual(["limits", "oom", "args"]);
  expect(emptyViewParts(["limits"], new Map([["settled inside main: limit cpu.max", "max 100000"]]))).toEqual([]);
});

test("finds the snapshots that were not reached in time", () => {
  expect(
    missedSnapshots(
      new Map([
        ["later in time", "no"],
        ["settled phase", "Running"],
      ]),
    ),
  ).toEqual(["later in time"]);
});
