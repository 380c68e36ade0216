import { expect, test } from "bun:test";
import { containerAmounts, formatAmounts, parseAmounts, requirementsOf } from "./container-amounts.ts";

test("a container without a limit has the pod's", () => {
  const podLevel = { limits: { cpu: "2", memory: "1Gi" } };
  const none = { cpuRequest: 0, cpuLimit: 0, memoryRequest: 0, memoryLimit: 0 };
  expect(containerAmounts()).toEqual(none);
  expect(containerAmounts({}, podLevel)).toEqual({ ...none, cpuLimit: 2000, memoryLimit: 2 ** 30 });
  expect(containerAmounts({ requests: { memory: "1Mi" }, limits: { cpu: "1", memory: "0" } }, podLevel)).toEqual({
    cpuRequest: 0,
    cpuLimit: 1000,
    memoryRequest: 2 ** 20,
    memoryLimit: 2 ** 30,
  });
});

test("amounts are the resources again, without those of 0", () => {
  const amounts = containerAmounts({ requests: { cpu: "0.1" }, limits: { memory: "1Mi" } });
  expect(requirementsOf(amounts)).toEqual({ requests: { cpu: "100m" }, limits: { memory: "1048576" } });
  expect(containerAmounts(requirementsOf(amounts))).toEqual(amounts);
  const huge = containerAmounts({ limits: { memory: "1e30", cpu: "1" } });
  expect(containerAmounts(requirementsOf(huge))).toEqual(huge);
});

test("an annotation gives the amounts back, and one that another program has written gives none", () => {
  const amounts = containerAmounts({ requests: { cpu: "100m", memory: "64Mi" }, limits: { cpu: "1" } });
  expect(parseAmounts(formatAmounts(amounts))).toEqual(amounts);
  for (const text of [
    undefined,
    "",
    "{",
    "null",
    "{}",
    '{"cpuRequest":1}',
    formatAmounts(amounts).replace("100", '"x"'),
  ])
    expect(parseAmounts(text)).toBeUndefined();
});
