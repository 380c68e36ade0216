import { expect, test } from "bun:test";
import { memoryOf, usageOf } from "./process-usage.ts";

/** Uses the CPU until the process's own clock shows so much more. */
function work(ms: number): void {
  const before = process.cpuUsage();
  for (;;) {
    const { user, system } = process.cpuUsage(before);
    if (user + system >= ms * 1000) return;
  }
}

test("reads a process's CPU time in fractions of a millisecond, and that of other processes", async () => {
  const before = await usageOf(process.pid);
  work(30);
  const after = await usageOf(process.pid);
  const { user, system } = process.cpuUsage();
  expect(after.cpuMs - before.cpuMs).toBeGreaterThanOrEqual(30);
  expect(Math.abs(after.cpuMs - (user + system) / 1000)).toBeLessThan(50);
  expect((await usageOf(process.ppid)).cpuMs).toBeGreaterThan(0);
  expect(after.cpuMs % 10).not.toBe(0);
});

test("reads the resident, proportional and anonymous memory", async () => {
  const { rssBytes, pssBytes, anonymousBytes } = await memoryOf(process.pid);
  expect(rssBytes).toBeGreaterThanOrEqual(pssBytes);
  expect(anonymousBytes).toBeGreaterThan(0);
});
