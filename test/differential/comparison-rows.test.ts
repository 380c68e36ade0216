import { expect, test } from "bun:test";
import type { ContainerStatus, Event, Pod } from "../../proto/kubernetes/gen/types.ts";
import { type CreatedIds, readCreatedIds } from "../e2e/create-attempts.ts";
import { EVENT_ORDER, emptyViewParts, missedSnapshots, normalise, toRows as rowsOf } from "./comparison-rows.ts";

/** The rows of snapshots that were taken at this time. */
const toRows = (
  snapshots: readonly { readonly name: string; readonly pod: Pod }[],
  events: readonly Event[],
  created: CreatedIds = readCreatedIds(""),
  takenAtMs = Date.parse("2026-01-01T10:00:09Z"),
) =>
  rowsOf(
    snapshots.map((each) => ({ ...each, takenAtMs })),
    events,
    [],
    created,
  );

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
  ["a time that was never set", "1970-01-01T00:00:00Z and 0001-01-01T00:00:00Z", "ZERO TIME and ZERO TIME"],
  ["resources used by other pods", "requested: 5, used: 340, capacity: 2", "requested: 5, used: SOME, capacity: 2"],
  ["the folder of a volume's files", "v/..2026_11_23_16_52_29.2097474637/deep", "v/..TIME/deep"],
  [
    "the local address of a connection that was reset",
    "read tcp 10.195.68.1:60588->POD-IP:8080: read: connection reset by peer",
    "read tcp POD-IP:8080: read: connection reset by peer",
  ],
  ["an address without a connection", "dial tcp POD-IP:8080: connect:", "dial tcp POD-IP:8080: connect:"],
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
  expect(Object.fromEntries(toRows([{ name: "settled", pod }], events))).toEqual({
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
    "settled times": "in order",
    "event Normal Pulled spec.containers{main}: of UID": "×1",
    "event Normal Started spec.containers{main}: of UID": "×2",
    [EVENT_ORDER]:
      "event Normal Pulled spec.containers{main}: of UID\nevent Normal Started spec.containers{main}: of UID",
  });
});

const [ownStatus] = pod.status?.containerStatuses ?? [];
const withStatuses = (statuses: readonly Partial<ContainerStatus>[], startTime?: string): Pod => ({
  ...pod,
  status: {
    ...(startTime !== undefined && { startTime }),
    containerStatuses: statuses.map((each) => ({ ...ownStatus!, state: {}, ...each })),
  },
});
const idOf = (digit: string) => `containerd://${digit.repeat(64)}`;

const view = (network: number) => `view\nnamespace net net:[${network}]\nnamespace ipc ipc:[7]\n`;

test("numbers the namespaces that containers see", () => {
  const seen = (message: string) => ({ terminated: { exitCode: 0, message } });
  const statuses = [{ state: seen(view(5)) }, { name: "other", state: seen(view(6)) }];
  const rows = toRows([{ name: "settled", pod: withStatuses(statuses) }], []);
  const shown = [...rows].filter(([field]) => field.includes("namespace"));
  expect(Object.fromEntries(shown)).toEqual({
    "settled inside main: namespace net": "OWN-1",
    "settled inside main: namespace ipc": "OWN-2",
    "settled inside other: namespace net": "OWN-3",
    "settled inside other: namespace ipc": "OWN-2",
  });
});

/** What containerd says of two pods: of this one three attempts at `main` and one at `other`, of another one `main`; and of a sandbox not in its log. */
const createdIds = readCreatedIds(
  [
    sandboxLine("u-1", "e"),
    createLine("e", "main", 0, "a"),
    createLine("e", "main", 1, "b"),
    createLine("e", "main", 2, "c"),
    createLine("e", "other", 0, "d"),
    sandboxLine("u-2", "f"),
    createLine("f", "main", 0, "9"),
    createLine("7", "main", 0, "8"),
  ].join(""),
);
function sandboxLine(uid: string, id: string): string {
  const metadata = `&PodSandboxMetadata{Name:p,Uid:${uid},Namespace:default,Attempt:0,}`;
  return `level=info msg="RunPodSandbox for ${metadata} returns sandbox id \\"${id.repeat(64)}\\""\n`;
}
function createLine(sandbox: string, name: string, attempt: number, id: string): string {
  const metadata = `&ContainerMetadata{Name:${name},Attempt:${attempt},}`;
  const within = `CreateContainer within sandbox \\"${sandbox.repeat(64)}\\"`;
  return `level=info msg="${within} for ${metadata} returns container id \\"${id.repeat(64)}\\""\n`;
}

test.each<[what: string, restartCount: number, id: string, shown: string]>([
  ["the attempt that the status counts", 2, "c", "INSTANCE 2 OF main"],
  ["an earlier attempt, whatever the status counts", 2, "b", "INSTANCE 1 OF main"],
  ["another container of the pod", 0, "d", "INSTANCE 0 OF other"],
  ["the pod's sandbox", 0, "e", "SANDBOX"],
  ["a container of another pod", 0, "9", "INSTANCE 0 OF main OF ANOTHER POD"],
  ["another pod's sandbox", 0, "f", "SANDBOX OF ANOTHER POD"],
  ["a container whose sandbox the log does not have", 0, "8", "ID"],
  ["what the runtime has never created", 0, "0", "ID"],
])("an id in a status is named by what the runtime has created: %s", (_, restartCount, id, shown) => {
  const ended = { terminated: { exitCode: 1, containerID: idOf(id) } };
  const status = { restartCount, containerID: idOf(id), state: ended, lastState: ended };
  const rows = toRows([{ name: "settled", pod: withStatuses([status]) }], [], createdIds);
  const fields = ["containerID", "state.terminated.containerID", "lastState.terminated.containerID"];
  expect(fields.map((field) => rows.get(`settled containerStatuses[main].${field}`))).toEqual(
    fields.map(() => `containerd://${shown}`),
  );
});

test("the runtime knows a static pod by the uid that its mirror names", () => {
  const mirror = withStatuses([{ containerID: idOf("a") }]);
  const metadata = { name: "p", uid: "u-3", annotations: { "kubernetes.io/config.mirror": "u-1" } };
  const rows = toRows([{ name: "settled", pod: { ...mirror, metadata } }], [], createdIds);
  expect(rows.get("settled containerStatuses[main].containerID")).toBe("containerd://INSTANCE 0 OF main");
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
    return toRows([{ name: "gone", pod: { ...pod, metadata, status } }], []).get("gone end of main");
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
  ].map((events) => toRows([{ name: "gone", pod }], events).get(EVENT_ORDER));
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
