import { expect, test } from "bun:test";
import type { AgentStatus, ClusterStatus } from "../agent/serve/local/agent-status.ts";
import { formatStatus } from "./status-text.ts";

const now = Date.parse("2026-01-01T12:00:00Z");
const alone: AgentStatus = {
  node: { name: "berth", version: "v1.36.3+berth" },
  runtime: { state: "ready" },
  pods: {},
  refused: 0,
};
const cluster: ClusterStatus = {
  server: "10.0.0.1:6443",
  connection: { state: "connected", since: "2026-01-01T11:00:00Z" },
  lease: { last: "2026-01-01T11:59:56Z" },
  nodeStatus: { last: "2026-01-01T11:57:00Z" },
  watch: { last: "2026-01-01T11:59:20Z" },
};

test("a standalone node shows no cluster", () => {
  expect(formatStatus(alone, now)).toMatchInlineSnapshot(`
    "node     berth, v1.36.3+berth
    runtime  ready
    cluster  no cluster: pods come from files
    pods     none
    refused  none
    "
  `);
});

test("a network that is not ready is shown with its reason", () => {
  const networkProblem = 'NetworkPluginNotReady: the container runtime reads /n: set conf_dir = "/d"';
  expect(formatStatus({ ...alone, networkProblem }, now)).toContain(
    `runtime  ready\nnetwork  not ready: ${networkProblem}\ncluster `,
  );
});

test("a node of a cluster shows when each periodic task last succeeded", () => {
  const pods = { Pending: 1, Running: 12, Failed: 1 };
  expect(formatStatus({ ...alone, cluster, pods, refused: 1 }, now)).toMatchInlineSnapshot(`
    "node           berth, v1.36.3+berth
    runtime        ready
    cluster        10.0.0.1:6443, connected since 2026-01-01T11:00:00Z (60m)
    lease          renewed 4s ago
    node status    reported 3m ago
    watch of pods  updated 40s ago
    pods           14: 12 Running, 1 Failed, 1 Pending
    refused        1 manifest (berth pods shows why)
    "
  `);
});

test("a failing task shows its last success and its error", () => {
  const error = { at: "2026-01-01T11:59:58Z", message: "PUT /apis/…/leases/berth: forbidden" };
  const denied: ClusterStatus = {
    ...cluster,
    lease: { last: "2026-01-01T11:59:05Z", error },
    nodeStatus: { error: { at: "2026-01-01T11:59:57Z", message: "no" } },
  };
  expect(formatStatus({ ...alone, cluster: denied, refused: 2 }, now)).toMatchInlineSnapshot(`
    "node           berth, v1.36.3+berth
    runtime        ready
    cluster        10.0.0.1:6443, connected since 2026-01-01T11:00:00Z (60m)
    lease          renewed 55s ago, failing since: PUT /apis/…/leases/berth: forbidden (2s ago, trying again)
    node status    not reported yet: no (3s ago, trying again)
    watch of pods  updated 40s ago
    pods           none
    refused        2 manifests (berth pods shows why)
    "
  `);
});

test("the reason of an outage of the server or the runtime is shown once", () => {
  const error = { at: "2026-01-01T11:59:58Z", message: "GET /api: the API server cannot be reached" };
  const lastError = { at: "2026-01-01T11:59:58Z", message: "connection refused by 10.0.0.1:6443" };
  const away: ClusterStatus = {
    ...cluster,
    connection: { state: "away", since: "2026-01-01T11:58:40Z", lastError },
    lease: { last: "2026-01-01T11:58:36Z", error },
    nodeStatus: { error },
    watch: { error },
  };
  const runtime = { state: "away", since: "2026-01-01T11:59:50Z", message: "connect ENOENT /run/c.sock" } as const;
  expect(formatStatus({ ...alone, runtime, cluster: away }, now)).toMatchInlineSnapshot(`
    "node           berth, v1.36.3+berth
    runtime        away since 2026-01-01T11:59:50Z (10s): connect ENOENT /run/c.sock
    cluster        10.0.0.1:6443, away since 2026-01-01T11:58:40Z (80s), trying again
    last error     2s ago: connection refused by 10.0.0.1:6443
    lease          renewed 84s ago
    node status    not reported yet
    watch of pods  not updated yet
    pods           none
    refused        none
    "
  `);
});

test("a past outage is shown as resolved", () => {
  const lastError = { at: "2026-01-01T11:10:00Z", message: "connection refused by 10.0.0.1:6443" };
  const back: ClusterStatus = {
    ...cluster,
    connection: { state: "connected", since: "2026-01-01T11:10:02Z", lastError },
  };
  expect(formatStatus({ ...alone, cluster: back }, now)).toMatchInlineSnapshot(`
    "node           berth, v1.36.3+berth
    runtime        ready
    cluster        10.0.0.1:6443, connected since 2026-01-01T11:10:02Z (49m)
    last error     50m ago, resolved: connection refused by 10.0.0.1:6443
    lease          renewed 4s ago
    node status    reported 3m ago
    watch of pods  updated 40s ago
    pods           none
    refused        none
    "
  `);
});

test("nothing is connected right after the start", () => {
  const started: ClusterStatus = {
    ...cluster,
    connection: { state: "connecting" },
    lease: {},
    nodeStatus: {},
    watch: {},
  };
  const runtime = { state: "connecting", since: "2026-01-01T11:59:58Z" } as const;
  expect(formatStatus({ ...alone, runtime, cluster: started }, now)).toMatchInlineSnapshot(`
    "node           berth, v1.36.3+berth
    runtime        has not answered yet, trying since 2026-01-01T11:59:58Z (2s)
    cluster        10.0.0.1:6443, not connected yet
    lease          not renewed yet
    node status    not reported yet
    watch of pods  not updated yet
    pods           none
    refused        none
    "
  `);
});

test("pods that are not ready have a line with their reasons, the most frequent first", () => {
  const notReady = { NotReady: 1, CrashLoopBackOff: 2 };
  expect(
    formatStatus({ ...alone, pods: { Running: 9 }, notReady }, now)
      .split("\n")
      .slice(3, 5),
  ).toEqual(["pods       9: 9 Running", "not ready  3: 2 CrashLoopBackOff, 1 NotReady (berth pods shows why)"]);
});

test("pods are counted by the states of berth pods, and failed ones have a line", () => {
  const pods = { Running: 3, Failed: 1, Succeeded: 1 };
  const states = { Running: 2, CrashLoopBackOff: 1, OutOfcpu: 1, Succeeded: 1 };
  const shown = formatStatus(
    { ...alone, pods, states, notReady: { CrashLoopBackOff: 1 }, failed: { OutOfcpu: 1 } },
    now,
  );
  expect(shown.split("\n").slice(3, 6)).toEqual([
    "pods       5: 2 Running, 1 CrashLoopBackOff, 1 OutOfcpu, 1 Succeeded",
    "not ready  1: 1 CrashLoopBackOff (berth pods shows why)",
    "failed     1: 1 OutOfcpu (berth pods shows why)",
  ]);
});

test("on a terminal long lines break between words, below their text", () => {
  const states = { Running: 3, CrashLoopBackOff: 2, Succeeded: 1, UnexpectedAdmissionError: 1 };
  expect(
    formatStatus({ ...alone, states }, now, 80)
      .split("\n")
      .slice(3, 5),
  ).toEqual(["pods     7: 3 Running, 2 CrashLoopBackOff, 1 Succeeded, 1", "         UnexpectedAdmissionError"]);
});

test("images that are being pulled have a line", () => {
  const pulls = ["57:00", "59:30", "59:58", "59:59"].map((since, n) => ({
    image: `app:${n}`,
    since: `2026-01-01T11:${since}Z`,
  }));
  const lineOf = (count: number) => formatStatus({ ...alone, pulls: pulls.slice(0, count) }, now).split("\n")[4];
  expect([lineOf(1), lineOf(4)]).toEqual([
    "pulls    1 image: app:0 for 3m",
    "pulls    4 images: app:0 for 3m, app:1 for 30s, app:2 for 2s and 1 more",
  ]);
});

test("a runtime that is connected and does not respond is not ready", () => {
  const runtime = { state: "notReady", since: "2026-01-01T11:59:48Z", message: "Status: no answer" } as const;
  expect(formatStatus({ ...alone, runtime }, now).split("\n")[1]).toBe(
    "runtime  not ready since 2026-01-01T11:59:48Z (12s): Status: no answer",
  );
});

test("control characters in messages are escaped, so they cannot drive the terminal", () => {
  const message = "no\u001b[2J\ncluster  all is well\u009b31m";
  const runtime = { state: "away", since: "2026-01-01T11:59:00Z", message } as const;
  expect(formatStatus({ ...alone, runtime }, now).split("\n")[1]).toBe(
    String.raw`runtime  away since 2026-01-01T11:59:00Z (60s): no\u001b[2J\ncluster  all is well\u009b31m`,
  );
});

test("objects that were kept on the disk are counted until the API server answers", () => {
  const lines = formatStatus({ ...alone, cluster, kept: 3 }, now).split("\n");
  expect(lines.filter((line) => line.startsWith("kept"))).toEqual([
    "kept           3 objects of pods come from the disk: the API server has not answered yet",
  ]);
});

test("the address of the node's API is shown where it is served", () => {
  expect(formatStatus({ ...alone, api: "0.0.0.0:10250" }, now)).toMatch(/^API +served on 0\.0\.0\.0:10250$/m);
  expect(formatStatus(alone, now)).not.toContain("API");
});

test("the command that it refers to asks the same agent", () => {
  const text = formatStatus({ ...alone, refused: 2 }, now, Number.POSITIVE_INFINITY, "berth pods --root-dir /a");
  expect(text).toContain("2 manifests (berth pods --root-dir /a shows why)");
});
