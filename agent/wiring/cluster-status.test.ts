import { expect, test } from "bun:test";
import { KubeError } from "../../kube/error.ts";
import * as resources from "../../kube/resource.ts";
import { pods } from "../../kube/resource.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { FakeClock, rest } from "../../test/fakes/clock.ts";
import { FakeKube } from "../../test/fakes/kube.ts";
import { clusterStatus, withWatchState } from "./cluster-status.ts";

const server = new URL("https://10.0.0.1:6443/prefix");
const nothing = {
  server,
  connection: { kind: "never connected" },
  node: {
    status: { reportedAt: undefined, error: undefined, failedAt: undefined },
    lease: { renewedAt: undefined, error: undefined, failedAt: undefined },
  },
  watch: { heardAt: undefined, error: undefined, failedAt: undefined },
} as const;
const at = FakeClock.start;
const away = new KubeError("UNREACHABLE", "nobody listens");

test("before anything was answered there is nothing to say", () => {
  expect(clusterStatus(nothing)).toEqual({
    server: "10.0.0.1:6443",
    connection: { state: "connecting" },
    lease: {},
    nodeStatus: {},
    watch: {},
  });
});

test("what succeeded and what went wrong since are told with their times and reasons", () => {
  const failedAt = at + 20_000;
  const node = {
    status: { reportedAt: at, error: undefined, failedAt: undefined },
    lease: { renewedAt: at + 10_500, error: away, failedAt },
  };
  const watch = { heardAt: at + 2_000, error: away, failedAt };
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
  const lastFailure = { at: failedAt, why: away };
  const connectionOf = (kind: "away" | "connected") =>
    clusterStatus({ ...nothing, connection: { kind, since: at, lastFailure } }).connection;
  for (const state of ["away", "connected"] as const)
    expect(connectionOf(state)).toEqual({ state, since: "2026-01-01T00:00:00Z", lastError });
});

test("a watch was heard when it last told of everything, of a change, or that there was none; an outage is kept until it ends", async () => {
  const clock = new FakeClock();
  const fake = new FakeKube({ clock });
  const { kube, watch } = withWatchState(fake, clock);
  const told: string[] = [];
  const stop = new AbortController();
  const listener = {
    replaced: () => told.push("replaced"),
    changed: (kind: string) => told.push(kind),
    away: () => told.push("away"),
    back: () => told.push("back"),
  };
  const ended = kube.follow<Pod>(pods(), {}, listener, stop.signal);
  const heard = () => [(watch().heardAt ?? Number.NaN) - at, watch().error?.code];
  expect(watch()).toEqual({ heardAt: undefined, error: undefined, failedAt: undefined });
  await clock.advance(5_000);
  expect(heard()).toEqual([0, undefined]);
  const web = { metadata: { name: "web", namespace: "shop" }, spec: { containers: [] } };
  await fake.user.create(pods("shop"), web as Pod);
  await rest();
  expect(heard()).toEqual([5_000, undefined]);
  await clock.advance(60_000);
  expect(heard()).toEqual([60_000, undefined]);
  fake.goDown();
  await clock.advance(30_000);
  expect(heard()).toEqual([60_000, "UNREACHABLE"]);
  fake.comeBack();
  await clock.advance(60_000);
  expect(heard()[1]).toBeUndefined();
  expect(told).toEqual(["replaced", "added", "away", "back"]);
  // What else is followed is not the watch of pods.
  const before = watch();
  const services = kube.follow(resources.services(), {}, listener, stop.signal);
  await clock.advance(100);
  expect(told.at(-1)).toBe("replaced");
  expect(watch()).toBe(before);
  stop.abort();
  await ended;
  await services;
});
