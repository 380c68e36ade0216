import { expect, test } from "bun:test";
import { podCgroupName } from "../../../proto/cgroup/cgroup-name.ts";
import type { PodUid } from "../../../proto/ids.ts";
import { FakeCgroups } from "../../../test/fakes/cgroups.ts";
import type { ActDeps, ActInput } from "./performer.ts";
import { resourceActionPerformers } from "./resource-performers.ts";

/** A pod that is no longer desired: its QoS class is unknown. */
function createFixture(uid: string, driver: "cgroupfs" | "systemd") {
  const cgroups = new FakeCgroups({ driver });
  const name = podCgroupName(uid, "Burstable");
  cgroups.add(name);
  const calls: string[] = [];
  cgroups.before = (verb, made) => void calls.push(`${verb} ${made.at(-1)}`);
  const deps = { cgroups } as Partial<ActDeps> as ActDeps;
  const input = { uid: uid as PodUid, desired: undefined } as Partial<ActInput> as ActInput;
  const { signal } = new AbortController();
  return { cgroups, calls, name, deps, input, signal };
}

for (const [driver, uid] of [
  ["cgroupfs", "1-2"],
  ["systemd", "1-2"],
  ["systemd", "1_2"],
] as const)
  test(`with ${driver} the cgroup of pod ${uid} is removed by one call`, async () => {
    const { cgroups, calls, deps, input, signal } = createFixture(uid, driver);
    const action = { kind: "removeResource", resource: { of: "cgroup" }, why: "why" } as const;
    await resourceActionPerformers.removeResource.perform(deps, input, action, signal);
    expect(calls).toEqual([`remove pod${uid}`]);
    expect(cgroups.names).toEqual(["kubepods", "kubepods/burstable"]);
    await resourceActionPerformers.removeResource.perform(deps, input, action, signal);
    expect(calls).toHaveLength(1);
  });

test("limits are written to the cgroup of a pod whose QoS class is unknown", async () => {
  const { cgroups, calls, name, deps, input, signal } = createFixture("1-2", "cgroupfs");
  const action = { kind: "writePodCgroup", limits: { cpuWeight: 1 }, why: "why" } as const;
  await resourceActionPerformers.writePodCgroup.perform(deps, input, action, signal);
  expect(calls).toEqual(["make pod1-2"]);
  expect(cgroups.limitsOf(name)).toMatchObject({ cpuWeight: 1 });
});
