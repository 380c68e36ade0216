import { expect, test } from "bun:test";
import { KubeError } from "../../../kube/error.ts";
import * as resources from "../../../kube/resource.ts";
import { pods } from "../../../kube/resource.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { FakeKube } from "../../../test/fakes/kube.ts";
import { clusterStatus, withWatchHealth } from "./cluster-status.ts";

const server = new URL("https://10.0.0.1:6443/prefix");
const nothing = {
  server,
  connection: { kind: "never connected" },
  node: {
    status: { reportedAt: undefined, error: undefined, failedAt: undefined },
    lease: { renewedAt: undefined, error: undefined, failedAt: undefined },
  },
  watch: { receivedAt: undefined, error: undefined, failedAt: undefined },
} as const;
const at = FakeClock.start;
const away = new KubeError("UNREACHABLE", "nobody listens");

test("before the first response the status contains only the server and the connection state", () => {
  expect(clusterStatus(nothing)).toEqual({
    server: "10.0.0.1:6443",
    connection: { state: "connecting" },
    lease: {},
    nodeStatus: {},
    watch: {},
  });
});

test("the status contains the last success and the last error of each task, with times", () => {
  const failedAt = at + 20_000;
  const node = {
    status: { reportedAt: at, error: undefined, failedAt: undefined },
    lease: { renewedAt: at + 10_500, error: away, failedAt },
  };
  const watch = { receivedAt: at + 2_000, error: away, failedAt };
  const lastError = { at: "2026-01-01T00:00:20Z", message: "nobody listens" };
  const { connection, ...others } = clusterStatus({
    ...nothing,
    connection: { kind: "connected", since: at, lastFailure: undefined },
    node,
    watch,
  });
  expect(connection).toEqual({ state: "connected", since: "2026-01-01T00:00:00Z" });
  expect(others).toEqual({
    server: "10.0.0.1:6443",
    lease: { last: "2026-01-01T00:00:10Z", error: lastError },
    nodeStatus: { last: "2026-01-01T00:00:00Z" },
    watch: { last: "2026-01-01T00:00:02Z", error: lastError },
  });
  const lastFailure = { at: failedAt, error: away };
  const connectionOf = (kind: "away" | "connected") =>
    clusterStatus({ ...nothing, connection: { kind, since: at, lastFailure } }).connection;
  for (const state of ["away", "connected"] as const)
    expect(connectionOf(state)).toEqual({ state, since: "2026-01-01T00:00:00Z", lastError });
});

test("a watch records the time of the last list, change or bookmark, and keeps an error until the outage ends", async () => {
  const clock = new FakeClock();
  const fake = new FakeKube({ clock });
  const { kube, watch } = withWatchHealth(fake, clock);
  const reported: string[] = [];
  const stop = new AbortController();
  const listener = {
    onReplaced: () => reported.push("replaced"),
    onChanged: (kind: string) => reported.push(kind),
    onOutage: () => reported.push("away"),
    onRecovered: () => reported.push("back"),
  };
  const ended = kube.listAndWatch<Pod>(pods(), {}, listener, stop.signal);
  const received = () => [(watch().receivedAt ?? Number.NaN) - at, watch().error?.code];
  expect(watch()).toEqual({ receivedAt: undefined, error: undefined, failedAt: undefined });
  await clock.advance(5_000);
  expect(received()).toEqual([0, undefined]);
  const web = { metadata: { name: "web", namespace: "shop" }, spec: { containers: [] } };
  await fake.user.create(pods("shop"), web as Pod);
  await settlePromises();
  expect(received()).toEqual([5_000, undefined]);
  await clock.advance(60_000);
  expect(received()).toEqual([60_000, undefined]);
  fake.goDown();
  await clock.advance(30_000);
  expect(received()).toEqual([60_000, "UNREACHABLE"]);
  fake.comeBack();
  await clock.advance(60_000);
  expect(received()[1]).toBeUndefined();
  expect(reported).toEqual(["replaced", "added", "away", "back"]);
  // Only the watch of pods counts.
  const before = watch();
  const services = kube.listAndWatch(resources.services(), {}, listener, stop.signal);
  await clock.advance(100);
  expect(reported.at(-1)).toBe("replaced");
  expect(watch()).toBe(before);
  stop.abort();
  await ended;
  await services;
});
