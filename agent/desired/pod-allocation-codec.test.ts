import { expect, test } from "bun:test";
import type { ContainerId } from "../../proto/ids.ts";
import type { PodAllocation } from "../decide/resize/allocation.ts";
import { fromAllocationRecord, isAllocationRecord, toAllocationRecord } from "./pod-allocation-codec.ts";

const sandboxLimits = { cpuWeight: 4, cpuMax: { quotaUs: 20_000, periodUs: 100_000 }, memoryMax: "max" } as const;
const whole: PodAllocation = {
  allocated: {
    pod: { requests: { cpu: "1" } },
    containers: { a: { requests: { cpu: "100m" }, limits: { memory: "64Mi" } }, b: {} },
  },
  actuated: {
    a: { id: "a0" as ContainerId, amounts: { cpuRequest: 50, cpuLimit: 0, memoryRequest: 0, memoryLimit: 2 ** 26 } },
  },
  pending: { reason: "Deferred", message: "no room", generation: 3, since: 30 },
  started: { generation: 2, error: "refused", since: 20, sandboxLimits },
};

test("a record comes back as it was, and a small one is small", () => {
  const read = (allocation: PodAllocation) => JSON.parse(JSON.stringify(toAllocationRecord(allocation)));
  expect(isAllocationRecord(read(whole))).toBe(true);
  expect(fromAllocationRecord(read(whole))).toEqual(whole);
  const small: PodAllocation = { allocated: { containers: { a: {} } }, actuated: {} };
  expect(JSON.stringify(toAllocationRecord(small))).toBe('{"allocated":{"containers":{"a":{}}},"actuated":{}}');
  expect(fromAllocationRecord(read(small))).toEqual(small);
});

const spoiled: Readonly<Record<string, object>> = {
  "no containers": { allocated: {} },
  "a list of containers": { allocated: { containers: [] } },
  "a quantity that cannot be read": { allocated: { containers: { a: { requests: { cpu: "much" } } } } },
  "a quantity that is a number": { allocated: { containers: { a: { limits: { cpu: 1 } } } } },
  "no amounts": { actuated: { a: { id: "a0" } } },
  "an unknown reason": { pending: { ...whole.pending, reason: "Later" } },
  "a time that is a text": { started: { ...whole.started, since: "today" } },
  "no limits of the CPU": { started: { ...whole.started, sandboxLimits: { cpuWeight: 1, memoryMax: 1 } } },
  "a limit that is a word": { started: { ...whole.started, sandboxLimits: { ...sandboxLimits, memoryMax: "much" } } },
};
for (const [what, change] of Object.entries(spoiled))
  test(`a record with ${what} is refused`, () => {
    expect(isAllocationRecord({ ...toAllocationRecord(whole), ...change })).toBe(false);
  });
