import { expect, test } from "bun:test";
import { FakeClock } from "../../test/fakes/clock.ts";
import { readAll } from "./reading.ts";

test("a reader that hangs, fails or throws does not delay or spoil the others", async () => {
  const clock = new FakeClock();
  const readings = readAll<{ disk: number; file: string; bug: string; kernel: string }>(
    {
      disk: () => new Promise(() => undefined),
      file: () => Promise.reject(new Error("/etc/a cannot be accessed: permission denied")),
      bug: () => {
        throw new Error("thrown");
      },
      kernel: () => Promise.resolve("6.12"),
    },
    { clock, limitMs: 10_000 },
  );
  await clock.advance(10_000);
  expect(await readings).toEqual({
    disk: { problem: "no answer within 10 s" },
    file: { problem: "/etc/a cannot be accessed: permission denied" },
    bug: { problem: "thrown" },
    kernel: { value: "6.12" },
  });
});

test("no timer is left when everything was read", async () => {
  const clock = new FakeClock();
  expect(await readAll({ kernel: () => Promise.resolve("6.12") }, { clock, limitMs: 10_000 })).toEqual({
    kernel: { value: "6.12" },
  });
  expect(clock.pendingTimers).toBe(0);
});
