import { expect, test } from "bun:test";
import { CriError } from "../../../cri/error.ts";
import { FakeClock } from "../../../test/fakes/clock.ts";
import { FakeRuntime } from "../../../test/fakes/runtime.ts";
import type { ObservedPods } from "./pod-cache.ts";
import { withRuntimeStory } from "./runtime-outages.ts";

test("what the runtime can do is asked before the first list, and again after each outage, which is told", async () => {
  const runtime = new FakeRuntime({ clock: new FakeClock() });
  const told: string[] = [];
  const pods: Partial<ObservedPods> = { audit: async () => void told.push("listed"), lose: () => {} };
  const followed = withRuntimeStory(pods as ObservedPods, runtime, (why) => told.push(why));
  const known = () => [followed.runtimeName(), followed.facts({}).handlersWithUsers?.get("")];
  expect(known()).toEqual(["", undefined]);
  await followed.audit();
  await followed.audit();
  expect(known()).toEqual(["fake", true]);
  runtime.abilities = { userNamespaces: false, supplementalGroupsPolicy: false };
  followed.lose({
    error: new CriError("UNAVAILABLE", "listContainers", "no such socket"),
    socket: "/run/x.sock",
  });
  expect(followed.runtimeName()).toBe("");
  await followed.audit();
  expect(known()).toEqual(["fake", false]);
  expect(told).toEqual(["listed", "listed", "no such socket", "listed"]);
});
