import { expect, test } from "bun:test";
import { usageOfCgroup } from "./from-cgroup.ts";

const cpu = { usageUs: 3, userUs: 2, systemUs: 1 };
const limited = { ...cpu, periods: 9, throttledPeriods: 5, throttledUs: 4, bursts: 7, burstUs: 6 };
const times = { usageNs: 3000, userNs: 2000, systemNs: 1000 };

test.each([
  [
    "with a limit",
    limited,
    { ...times, periods: 9, throttledPeriods: 5, throttledNs: 4000, burstPeriods: 7, burstNs: 6000 },
  ],
  ["without a limit", cpu, times],
])("the CPU times of a cgroup %s are nanoseconds", (_, stats, expected) => {
  const usage = usageOfCgroup({ stats: { cpu: stats }, limits: {} }, 1);
  expect(usage.cpu).toEqual(expected);
});
