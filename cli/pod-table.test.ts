import { expect, test } from "bun:test";
import type { PodSummary } from "../agent/serve/local/pod-list.ts";
import { formatPods } from "./pod-table.ts";

const now = Date.parse("2026-01-01T12:00:00Z");
const web: PodSummary = {
  namespace: "default",
  name: "web-node",
  uid: "u",
  phase: "Running",
  reason: "",
  message: "",
  ready: "1/1",
  restarts: 0,
  ip: "10.0.0.7",
  startTime: "2026-01-01T11:59:30Z",
  steps: [
    { what: "volumes", ms: 1.4 },
    { what: "sandbox", ms: 84.6 },
    { what: "create", container: "a", ms: 6 },
    { what: "start", container: "a", ms: 35 },
    { what: "create", container: "b", ms: 7 },
  ],
  status: {},
};
const pending: PodSummary = {
  ...web,
  namespace: "a-long-namespace",
  name: "x",
  phase: "Pending",
  reason: "ImagePullBackOff",
  message: "no such image",
  ready: "0/1",
  restarts: 12,
  ip: "",
  startTime: "",
  steps: [],
};

test("pods are shown in columns, with the reasons of failing pods below", () => {
  expect(formatPods({ pods: [web, pending] }, { now })).toMatchInlineSnapshot(`
    "NAMESPACE         POD       READY  STATE             RESTARTS  IP        AGE  START (ms)
    default           web-node  1/1    Running           0         10.0.0.7  30s  volumes 1, sandbox 85, a: create 6 start 35, b: create 7
    a-long-namespace  x         0/1    ImagePullBackOff  12        -         -    -

    x: no such image
    "
  `);
});

test("a row shows the volumes before the sandbox, even if the sandbox was ready first", () => {
  const [volumes, sandbox, ...others] = web.steps;
  const swapped = { ...web, steps: [sandbox!, volumes!, ...others] };
  expect(formatPods({ pods: [swapped] }, { now })).toBe(formatPods({ pods: [web] }, { now }));
});

test('an empty list is shown as "no pods", and ready pods have no notes', () => {
  expect(formatPods({ pods: [] }, { now })).toBe("no pods\n");
  expect(formatPods({ pods: [] }, { now, namespace: "shop" })).toBe("no pods in namespace shop\n");
  expect(formatPods({ pods: [web] }, { now }).split("\n")).toHaveLength(3);
});

test("a failure that keeps a pod from starting has the name by which berth status counts it", () => {
  const failing = { ...pending, reason: "ContainerCreating", failure: "FailedMount", message: "no such folder" };
  expect(formatPods({ pods: [failing] }, { now }).split("\n")[3]).toBe("x: FailedMount: no such folder");
});

test("the kubelet's message is shown whole, and beside it what it means", () => {
  const message = "Pod was rejected: Node didn't have enough resource: cpu, requested: 4000, used: 250, capacity: 2000";
  const explanation = "the pod requests 4 CPUs, and the node has 1.75 of 2 free";
  const rejected = { ...pending, phase: "Failed", reason: "OutOfcpu", message, explanation };
  const [, row = "", , note] = formatPods({ pods: [rejected] }, { now }).split("\n");
  expect(row).toContain(" OutOfcpu ");
  expect(note).toBe(`x: ${message} (${explanation})`);
});

test("rejected manifests are shown below the pods by file name, and the runtime's outage last", () => {
  const refused = [
    { file: "/etc/kubernetes/manifests/web.yaml", problem: "line 8: spec.containers: Required value" },
    { file: "http://pods.example/list", problem: "the server answered 503; the known pods stay as they are" },
  ];
  const runtime = { state: "away", since: "2026-01-01T11:00:00Z", message: "connect ENOENT /run/c.sock" } as const;
  expect(formatPods({ pods: [pending], refused, runtime }, { now })).toMatchInlineSnapshot(`
    "NAMESPACE         POD  READY  STATE             RESTARTS  IP  AGE  START (ms)
    a-long-namespace  x    0/1    ImagePullBackOff  12        -   -    -

    x: no such image

    web.yaml: refused: line 8: spec.containers: Required value
    http://pods.example/list: refused: the server answered 503; the known pods stay as they are

    the container runtime is away since 2026-01-01T11:00:00Z: connect ENOENT /run/c.sock
    "
  `);
  const empty = "no pods are known yet\n\nthe container runtime";
  expect(formatPods({ pods: [], runtime })).toBe(`${empty} is away since ${runtime.since}: ${runtime.message}\n`);
  expect(formatPods({ pods: [], runtime: { ...runtime, state: "notReady", message: "no answer" } })).toBe(
    `${empty} is not ready since ${runtime.since}: no answer\n`,
  );
  expect(formatPods({ pods: [], runtime: { state: "connecting", since: "" } })).toBe(`${empty} has not answered yet\n`);
  expect(formatPods({ pods: [], refused: [], runtime: { state: "ready" } })).toBe("no pods\n");
});

/** The cell below a heading. */
function cell(pod: PodSummary, heading: string): string {
  const [header = "", row = ""] = formatPods({ pods: [pod] }, { now }).split("\n");
  return row.slice(header.indexOf(heading)).split("  ")[0] ?? "";
}

const ages: readonly [startTime: string, age: string][] = [
  ["2026-01-01T12:00:00Z", "0s"],
  ["2026-01-01T11:57:30Z", "2m30s"],
  ["", "-"],
  ["yesterday", "-"],
];
for (const [startTime, age] of ages)
  test(`at noon the age of a pod that started at ${JSON.stringify(startTime)} is ${age}`, () => {
    expect(cell({ ...web, startTime }, "AGE")).toBe(age);
  });

const states: readonly [phase: string, reason: string, state: string][] = [
  ["Running", "", "Running"],
  ["Running", "CrashLoopBackOff", "CrashLoopBackOff"],
  ["Succeeded", "Completed", "Succeeded"],
  ["Failed", "DeadlineExceeded", "DeadlineExceeded"],
];
for (const [phase, reason, state] of states)
  test(`a pod that is ${phase}${reason && ` with the reason ${reason}`} shows ${state}`, () => {
    expect(cell({ ...web, phase, reason }, "STATE")).toBe(state);
  });

test("the duration of image pulls is shown after the reason, with a hint for long pulls", () => {
  const pull = (image: string, since: string, attempt = 1) => ({ image, since: `2026-01-01T11:${since}Z`, attempt });
  const linesOf = (changes: Partial<PodSummary>) =>
    formatPods({ pods: [{ ...pending, ...changes }] }, { now }).split("\n")[3];
  const message = 'image "app:1" is being pulled since 2026-01-01T11:59:55Z';
  expect(linesOf({ message, pulls: [pull("app:1", "59:55")] })).toBe(`x: ${message} (for 5s)`);
  expect(linesOf({ message: "", pulls: [pull("app:1", "57:00", 3), pull("app:2", "59:58")] })).toBe(
    "x: images are being pulled (app:1 for 3m, attempt 3, app:2 for 2s; the container runtime reports no progress)",
  );
});

test("control characters in messages are escaped, so they cannot drive the terminal", () => {
  const message = "bye\u001b[2J\r\ncluster  all is well\u009b31m\u007f";
  const shown = formatPods(
    { pods: [{ ...pending, message }], refused: [{ file: "a.yaml", problem: "\u001b]0;x\u0007" }] },
    { now },
  );
  expect(shown.split("\n").slice(3)).toEqual([
    String.raw`x: bye\u001b[2J\r\ncluster  all is well\u009b31m\u007f`,
    "",
    String.raw`a.yaml: refused: \u001b]0;x\u0007`,
    "",
  ]);
});

/** What `npm run up` shows: five pods of one namespace. */
const examples = ["crash-berth", "edited-page-berth", "shared-folder-berth"].map((name, at) => ({
  ...web,
  name,
  ip: `10.194.120.${at + 7}`,
  ...(at === 0 && { reason: "CrashLoopBackOff", message: "back-off 10s restarting failed container" }),
}));
const linesAt = (columns: number, pods: readonly PodSummary[] = examples) =>
  formatPods({ pods }, { now, columns }).trimEnd().split("\n");

test("no line is longer than the terminal is wide, and a pipe gets whole rows", () => {
  for (const columns of [40, 60, 80, 100, 120, 132])
    expect(Math.max(...linesAt(columns).map((line) => line.length))).toBeLessThanOrEqual(columns);
  expect(linesAt(Number.POSITIVE_INFINITY)[1]).toEndWith("volumes 1, sandbox 85, a: create 6 start 35, b: create 7");
});

test("80 columns show name, readiness, state, restarts, address and age whole, and which columns are missing", () => {
  expect(`\n${linesAt(80).join("\n")}\n`).toBe(`
POD                  READY  STATE              RESTARTS  IP            AGE
crash-berth          1/1    CrashLoopBackOff   0         10.194.120.7  30s
edited-page-berth    1/1    Running            0         10.194.120.8  30s
shared-folder-berth  1/1    Running            0         10.194.120.9  30s

crash-berth: back-off 10s restarting failed container

not shown in 80 columns: START (ms), NAMESPACE; see berth pods | cat
`);
  expect(linesAt(120)[2]).toBe(
    "default    edited-page-berth    1/1    Running            0         10.194.120.8  30s  volumes 1, sandbox 85, a: create…",
  );
});

test("the columns of a terminal do not move while a pod starts and crashes", () => {
  const headers = ["Running", "ContainerCreating", "CrashLoopBackOff"].map(
    (reason) => linesAt(80, [{ ...web, name: "edited-page-berth", reason }])[0],
  );
  expect(new Set(headers).size).toBe(1);
});

test("pods of several namespaces keep that column, and long names are cut in the middle", () => {
  const pods = [
    ...examples,
    { ...web, namespace: "kube-system", name: "kube-apiserver-of-the-first-control-plane-node-1" },
  ];
  expect(linesAt(80, pods).slice(0, 5)).toEqual([
    "NAMESPACE    POD                READY  STATE              RESTARTS  IP",
    "default      crash-berth        1/1    CrashLoopBackOff   0         10.194.120.7",
    "default      edited-page-berth  1/1    Running            0         10.194.120.8",
    "default      shared-f…er-berth  1/1    Running            0         10.194.120.9",
    "kube-system  kube-api…e-node-1  1/1    Running            0         10.0.0.7",
  ]);
});

test("a long message is broken between words, or cut in the middle where rows are few", () => {
  const message = "failed to pull image: the registry does not answer: dial tcp: lookup registry.example: no such host";
  const note = (longNotes: "break" | "cut") =>
    formatPods({ pods: [{ ...pending, message }] }, { now, columns: 60, longNotes })
      .split("\n")
      .slice(3, 6);
  expect(note("break").slice(0, 2)).toEqual([
    "x: failed to pull image: the registry does not answer: dial",
    "tcp: lookup registry.example: no such host",
  ]);
  expect(note("cut")[0]).toBe("x: failed to pull image: the r…egistry.example: no such host");
});
