import { expect, test } from "bun:test";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import { podCgroupLimits } from "../../decide/cgroups/pod-cgroup.ts";
import { qosClassOf } from "../../decide/status/qos.ts";
import { sandboxUpdate } from "./sandbox-update.ts";

function updateOf(
  resources: NonNullable<Pod["spec"]["containers"][0]["resources"]>,
  overhead?: Record<string, string>,
) {
  const pod: Pod = { metadata: {}, spec: { containers: [{ name: "a", resources }], ...(overhead && { overhead }) } };
  const { cpuWeight, cpuMax, memoryMax } = podCgroupLimits(pod, qosClassOf(pod), nodeFacts);
  if (cpuWeight === undefined || cpuMax === undefined || memoryMax === undefined) throw new Error("limits are missing");
  const update = sandboxUpdate(pod, { cpuWeight, cpuMax, memoryMax }, nodeFacts);
  const shown = ({ cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes }: typeof update.resources) =>
    [cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes].map(Number);
  return { resources: shown(update.resources), overhead: update.overhead && shown(update.overhead) };
}

test("a runtime is informed of a pod's limits in CRI's units", () => {
  const limited = { requests: { cpu: "1", memory: "64Mi" }, limits: { cpu: "2", memory: "128Mi" } };
  // A weight has fewer steps than shares: 1024 and 102 do not come back exactly.
  expect(updateOf(limited)).toEqual({ resources: [998, 200_000, 100_000, 128 * 2 ** 20], overhead: undefined });
  expect(updateOf({ requests: { cpu: "100m" } })).toEqual({ resources: [80, -1, 100_000, 0], overhead: undefined });
});

test("the overhead of a pod has a field of its own, and does not count twice", () => {
  const limited = { requests: { cpu: "1", memory: "64Mi" }, limits: { cpu: "2", memory: "128Mi" } };
  const { resources, overhead } = updateOf(limited, { cpu: "250m", memory: "32Mi" });
  expect(overhead).toEqual([256, 25_000, 100_000, 32 * 2 ** 20]);
  expect(resources).toEqual([1004, 200_000, 100_000, 128 * 2 ** 20]);
});
