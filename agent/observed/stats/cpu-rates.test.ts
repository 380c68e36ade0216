import { expect, test } from "bun:test";
import { createCpuRates } from "./cpu-rates.ts";

const at = (atMs: number, usageNs: number) => ({ atMs, cpu: { usageNs } });

test("a pass that ends after a later one changes no rate", () => {
  const rates = createCpuRates();
  const slow = rates.begin(0);
  slow.withRate("a", at(0, 0));
  const later = rates.begin(10_000);
  later.withRate("a", at(10_000, 5e9));
  later.end();
  slow.end();
  expect(rates.isOutdated(65_000)).toBe(false);
  // Half a core since the later pass, not since the slow one.
  const reading = rates.begin(20_000).withRate("a", at(20_000, 10e9));
  expect(reading.cpu?.nanoCores).toBe(500e6);
  const changed = rates.begin(20_000).withRate("a", at(20_000, 15e9));
  expect(changed.cpu?.nanoCores).toBe(1e9);
});
