import { expect, test } from "bun:test";
import { cpuQuotaUs, cpuShares, cpuWeight, quotaToMilliCpu, sharesToMilliCpu, weightToShares } from "./cpu-units.ts";

test("the weight of a request, and the request that is read back from its shares", () => {
  const requests = [0, 1, 2, 3, 10, 27, 28, 100, 250, 500, 1000, 2000, 128_000, 255_999, 256_000, 1_000_000];
  const lines = requests.map((milli) => {
    const [shares, weight] = [cpuShares(milli), cpuWeight(milli)];
    return `${milli}m: ${shares} shares (${sharesToMilliCpu(shares)}m), weight ${weight} (${weightToShares(weight)} shares)`;
  });
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    0m: 2 shares (2m), weight 1 (2 shares)
    1m: 2 shares (2m), weight 1 (2 shares)
    2m: 2 shares (2m), weight 1 (2 shares)
    3m: 3 shares (3m), weight 1 (2 shares)
    10m: 10 shares (10m), weight 1 (2 shares)
    27m: 27 shares (27m), weight 1 (2 shares)
    28m: 28 shares (28m), weight 1 (2 shares)
    100m: 102 shares (100m), weight 4 (80 shares)
    250m: 256 shares (250m), weight 10 (237 shares)
    500m: 512 shares (500m), weight 20 (500 shares)
    1000m: 1024 shares (1000m), weight 39 (998 shares)
    2000m: 2048 shares (2000m), weight 79 (2046 shares)
    128000m: 131072 shares (128000m), weight 5000 (131059 shares)
    255999m: 262142 shares (255999m), weight 9999 (262117 shares)
    256000m: 262144 shares (256000m), weight 10000 (262144 shares)
    1000000m: 262144 shares (256000m), weight 10000 (262144 shares)
    "
  `);
});

test("below two shares there is no request", () => {
  expect([0, 1].map(sharesToMilliCpu)).toEqual([0, 0]);
});

test("the weight grows with the request and keeps the kernel's range", () => {
  const weights = Array.from({ length: 600 }, (_, index) => cpuWeight(index * 500));
  expect(weights).toEqual(weights.toSorted((a, b) => a - b));
  expect([weights[0], weights.at(-1)]).toEqual([1, 10_000]);
});

test("the quota of a limit, and the limit that is read back from it", () => {
  const rows = [
    [1, 100_000],
    [9, 100_000],
    [10, 100_000],
    [11, 100_000],
    [500, 100_000],
    [2000, 100_000],
    [500, 10_000],
    [99, 10_000],
    [1, 1000],
  ] as const;
  const lines = rows.map(([milli, periodUs]) => {
    const quotaUs = cpuQuotaUs(milli, periodUs);
    return `${milli}m of ${periodUs}: ${quotaUs} (${quotaToMilliCpu(quotaUs, periodUs)}m)`;
  });
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    1m of 100000: 1000 (10m)
    9m of 100000: 1000 (10m)
    10m of 100000: 1000 (10m)
    11m of 100000: 1100 (11m)
    500m of 100000: 50000 (500m)
    2000m of 100000: 200000 (2000m)
    500m of 10000: 5000 (500m)
    99m of 10000: 1000 (100m)
    1m of 1000: 1000 (1000m)
    "
  `);
});

test("no quota stands for no limit", () => {
  expect([quotaToMilliCpu(-1, 100_000), quotaToMilliCpu(0, 100_000), quotaToMilliCpu(1000, 0)]).toEqual([0, 0, 0]);
});
