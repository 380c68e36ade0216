import { expect, test } from "bun:test";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { allocationOf, areSameResources, resourcesOf, withAllocated } from "./allocation.ts";

const cpu = (amount: string) => ({ requests: { cpu: amount } });
const pod = (init: string, app: string, podLevel?: string): Pod => ({
  metadata: { name: "web" },
  spec: {
    initContainers: [{ name: "init", resources: cpu(init) }],
    containers: [{ name: "app", resources: cpu(app) }, { name: "plain" }],
    ...(podLevel !== undefined && { resources: cpu(podLevel) }),
  },
});

test("a pod that is admitted gets what its spec requests", () => {
  expect(allocationOf(pod("1", "2", "3"))).toEqual({
    allocated: { pod: cpu("3"), containers: { init: cpu("1"), app: cpu("2"), plain: {} } },
    actuated: {},
  });
});

test("what is allocated stands in for what the spec requests", () => {
  const { allocated } = allocationOf(pod("1", "2", "3"));
  expect(withAllocated(pod("5", "6", "7"), allocated).spec).toEqual({
    ...pod("1", "2", "3").spec,
    containers: [{ name: "app", resources: cpu("2") }, { name: "plain" }],
  });
  expect(withAllocated(pod("5", "6", "7"), allocationOf(pod("1", "2")).allocated).spec.resources).toBeUndefined();
});

test("resources are equal whatever their notation", () => {
  const same = (one: Pod, other: Pod) => areSameResources(resourcesOf(one.spec), resourcesOf(other.spec));
  expect(same(pod("100m", "1"), pod("0.1", "1000m"))).toBe(true);
  expect(same(pod("100m", "1"), pod("100m", "2"))).toBe(false);
  expect(same(pod("100m", "1"), pod("100m", "1", "1"))).toBe(false);
  expect(same(pod("100m", "1", "2000m"), pod("100m", "1", "2"))).toBe(true);
});
