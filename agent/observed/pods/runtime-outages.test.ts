import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeLog } from "../../../test/fakes/log.ts";
import { FakeRuntime } from "../../../test/fakes/runtime.ts";
import { createRuntimeStatusReader } from "../node/runtime-status.ts";
import type { PodCache } from "./pod-cache.ts";
import { withRuntimeOutages } from "./runtime-outages.ts";

test("the runtime's features are read before the first list, and again after each outage, which is reported", async () => {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  const calls: string[] = [];
  const pods: Partial<PodCache> = { relist: async () => void calls.push("listed"), markDisconnected: () => {} };
  const status = createRuntimeStatusReader({
    runtime,
    readCgroupDriver: async () => undefined,
    clock,
    log: new FakeLog(),
    onChange: () => void calls.push("the status has changed"),
    onDisconnected: () => {},
  });
  const observed = withRuntimeOutages(pods as PodCache, status, (why) => calls.push(why));
  const known = () => [status.name(), status.features()?.handlers[0]?.userNamespaces];
  expect(known()).toEqual(["", undefined]);
  await observed.relist();
  await observed.relist();
  expect(known()).toEqual(["fake", true]);
  runtime.features = { userNamespaces: false, supplementalGroupsPolicy: false };
  observed.markDisconnected({
    error: new CriError("UNAVAILABLE", "listContainers", "no such socket"),
    socket: "/run/x.sock",
  });
  expect(status.name()).toBe("");
  await observed.relist();
  expect(known()).toEqual(["fake", false]);
  expect(calls).toEqual([
    "the status has changed",
    "listed",
    "listed",
    "no such socket",
    "the status has changed",
    "listed",
  ]);
  expect(runtime.calls.map((call) => call.trim())).toEqual(["status", "version", "status", "version"]);
});

test("nothing is listed while the runtime does not report its status", async () => {
  const clock = new FakeClock();
  const runtime = new FakeRuntime({ clock });
  runtime.failures = { status: [new CriError("UNAVAILABLE", "status", "the runtime is down")] };
  const calls: string[] = [];
  const pods: Partial<PodCache> = { relist: async () => void calls.push("listed") };
  const none = () => {};
  const status = createRuntimeStatusReader({
    runtime,
    readCgroupDriver: async () => undefined,
    clock,
    log: new FakeLog(),
    onChange: none,
    onDisconnected: none,
  });
  const observed = withRuntimeOutages(pods as PodCache, status, none);
  await expect(observed.relist()).rejects.toThrow("the runtime is down");
  expect(calls).toEqual([]);
});
