import { expect, test } from "bun:test";
import { execa } from "execa";
import { childrenOf, memoryOf, statUsageIn, statUsageOf, usageOf, wakeUpsOf } from "./process-usage.ts";

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

test("the CPU time of a process and of its children that have ended are read, whatever its name is", () => {
  const before = ["S", ...Array.from({ length: 10 }, (_, at) => String(at))].join(" ");
  expect(statUsageIn(`41 (a b) c) ${before} 3 4 50 60 20 0 9`)).toEqual({
    ...{ ownCpuMs: 70, childrenCpuMs: 1100 },
    childrenFaults: 7,
  });
});

test("a process that was started shows among the children while it runs, and by its page faults when it has ended", async () => {
  const before = await statUsageOf(process.pid);
  const child = execa("cat");
  expect(await childrenOf(process.pid)).toContain(String(child.pid));
  child.stdin.end();
  await child;
  expect(await childrenOf(process.pid)).not.toContain(String(child.pid));
  expect((await statUsageOf(process.pid)).childrenFaults).toBeGreaterThan(before.childrenFaults);
});

test("a thread that waits shows by its wake-ups", async () => {
  const wakeUps = async () => (await wakeUpsOf(process.pid)).get(String(process.pid)) ?? Number.NaN;
  const before = await wakeUps();
  for (let round = 0; round < 20; round++) await Bun.sleep(2);
  expect((await wakeUps()) - before).toBeGreaterThanOrEqual(20);
});
