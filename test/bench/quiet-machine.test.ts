import { expect, test } from "bun:test";
import { busyShare, waitUntilQuiet } from "./quiet-machine.ts";

const stat = (user: number, idle: number, waiting: number, stolen: number) =>
  `cpu  ${user} 0 0 ${idle} ${waiting} 0 0 ${stolen} 0 0\ncpu0 9 9 9 9 9 9 9 9 9 9\nintr 1\n`;

test("a machine is busy while its CPUs are neither idle nor wait for a disk, and while others have them", () => {
  expect(busyShare(stat(100, 1000, 50, 0), stat(100, 1180, 70, 0))).toBe(0);
  expect(busyShare(stat(100, 1000, 50, 0), stat(130, 1150, 50, 20))).toBe(0.25);
});

test("waits for a quiet machine, but not longer than that many attempts", async () => {
  const shares = [0.5, 0.3, 0.01, 0.9];
  expect(await waitUntilQuiet(9, async () => shares.shift() ?? 1)).toBe(0.01);
  expect(await waitUntilQuiet(2, async () => 0.5)).toBe(0.5);
  expect(shares).toEqual([0.9]);
});
