import { expect, test } from "bun:test";
import type { Pod, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { qosCgroupLimits, qosRequestsOf } from "./qos-cgroups.ts";

const podOf = (resources: ResourceRequirements, more: Partial<Pod["spec"]> = {}): Pod => ({
  metadata: {},
  spec: { containers: [{ name: "c", resources }], ...more },
});
const equal = (cpu: string, memory: string) => ({ requests: { cpu, memory }, limits: { cpu, memory } });
const burstable = podOf({ requests: { cpu: "500m", memory: "64Mi" } });
const guaranteed = podOf(equal("1", "1Gi"));
const bestEffort = podOf({});

test("the weight of burstable follows what its pods request", () => {
  const rows: readonly (readonly [string, readonly Pod[]])[] = [
    ["no pods", []],
    ["Guaranteed and BestEffort pods do not count", [guaranteed, bestEffort]],
    ["one pod", [burstable]],
    ["three pods", [burstable, burstable, burstable, guaranteed]],
    ["overhead counts", [podOf({ requests: { cpu: "500m" } }, { overhead: { cpu: "500m" } })]],
    ["overhead of BestEffort pods does not", [podOf({}, { overhead: { cpu: "500m" } })]],
    ["the pod's own request counts", [podOf({ requests: { cpu: "1" } }, { resources: { requests: { cpu: "2" } } })]],
    ["more CPU than the kernel can weigh", Array.from({ length: 300 }, () => podOf({ requests: { cpu: "1" } }))],
  ];
  const lines = rows.map(([sentence, pods]) => {
    const limits = qosCgroupLimits(pods.map(qosRequestsOf), { hugePageSizes: [], memoryReservationPolicy: undefined });
    return `${sentence}: burstable ${limits.burstable.cpuWeight}, besteffort ${limits.besteffort.cpuWeight}`;
  });
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    no pods: burstable 1, besteffort 1
    Guaranteed and BestEffort pods do not count: burstable 1, besteffort 1
    one pod: burstable 20, besteffort 1
    three pods: burstable 59, besteffort 1
    overhead counts: burstable 39, besteffort 1
    overhead of BestEffort pods does not: burstable 1, besteffort 1
    the pod's own request counts: burstable 79, besteffort 1
    more CPU than the kernel can weigh: burstable 10000, besteffort 1
    "
  `);
});

test("the cgroups burstable and besteffort have no other limit", () => {
  const settings = { hugePageSizes: [2 ** 21, 2 ** 30], memoryReservationPolicy: undefined };
  const hugetlbMax = { "2MB": 2 ** 62, "1GB": 2 ** 62 };
  expect(qosCgroupLimits([burstable].map(qosRequestsOf), settings)).toEqual({
    kubepods: {},
    burstable: { cpuWeight: 20, hugetlbMax },
    besteffort: { cpuWeight: 1, hugetlbMax },
  });
});

test("MemoryQoS protects the memory that pods request, on the levels above them too", () => {
  const requests = [guaranteed, guaranteed, burstable, bestEffort].map(qosRequestsOf);
  const protectionOf = (memoryReservationPolicy: "None" | "TieredReservation") => {
    const limits = qosCgroupLimits(requests, { hugePageSizes: [], memoryReservationPolicy });
    return [limits.kubepods.memoryMin, limits.burstable.memoryLow, limits.besteffort.memoryLow];
  };
  expect(protectionOf("TieredReservation")).toEqual([2 ** 31 + 2 ** 26, 2 ** 26, undefined]);
  expect(protectionOf("None")).toEqual([0, 0, undefined]);
});
