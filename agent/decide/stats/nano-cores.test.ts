import { describe, expect, test } from "bun:test";
import { nanoCoresBetween } from "./nano-cores.ts";
import { sumOfUsages } from "./usage-sum.ts";

describe("usageNanoCores is the rate between two readings a second to a minute apart", () => {
  const rows: readonly (readonly [what: string, passedMs: number, usedNs: number, nanoCores: number | undefined])[] = [
    ["half a CPU for ten seconds", 10_000, 5e9, 500_000_000],
    ["an idle cgroup", 10_000, 0, 0],
    ["exactly a second", 1_000, 1e9, 1e9],
    ["exactly a minute", 60_000, 6e10, 1e9],
    ["less than a second", 999, 1e9, undefined],
    ["more than a minute", 60_001, 1e9, undefined],
    ["a clock that was set back", -5_000, 1e9, undefined],
    ["a counter that begins again", 10_000, -1, undefined],
    ["a fraction", 3_000, 1e9, 333_333_333],
  ];
  for (const [what, passedMs, usedNs, nanoCores] of rows)
    test(what, () => {
      const earlier = { atMs: 1e12, usageNs: 7e9 };
      expect(nanoCoresBetween(earlier, { atMs: 1e12 + passedMs, usageNs: 7e9 + usedNs })).toBe(nanoCores as number);
    });

  test("without an earlier reading there is none", () => {
    expect(nanoCoresBetween(undefined, { atMs: 1e12, usageNs: 7e9 })).toBeUndefined();
  });
});

describe("a pod without figures of its own has the sum of its containers", () => {
  const usage = (n: number) => ({
    atMs: 1000 + n,
    cpu: { usageNs: n, ...(n > 1 && { nanoCores: 10 * n }) },
    memory: { usageBytes: 100 * n, workingSetBytes: 50 * n },
    swap: { usageBytes: n },
    psi: { cpu: { some: { avg10: 1, avg60: 1, avg300: 1, totalUs: 1 } } },
  });

  test("figures that a container lacks do not count, those that all lack stay absent", () => {
    expect(sumOfUsages([usage(1), usage(2), usage(3)])).toEqual({
      atMs: 1003,
      cpu: { usageNs: 6, nanoCores: 50 },
      memory: { usageBytes: 600, workingSetBytes: 300 },
      swap: { usageBytes: 6 },
    });
  });

  test("without containers there is none", () => {
    expect(sumOfUsages([])).toBeUndefined();
  });
});
