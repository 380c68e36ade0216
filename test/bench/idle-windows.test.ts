import { expect, test } from "bun:test";
import { describeIdle, idleMsOf, measurePeriods, perMinute } from "./idle-windows.ts";

test("each period has agents that have just started, and they alternate who begins", async () => {
  const order: string[] = [];
  const restart = async (side: string) => order.push(side);
  let periods = 0;
  const measured = await measurePeriods(["kubelet", "berth"], 3, restart, async (period) => {
    order.push(`idle ${period}`);
    periods++;
    return { kubelet: periods, berth: 10 * periods };
  });
  expect(order.join(" ")).toBe("kubelet berth idle 0 berth kubelet idle 1 kubelet berth idle 2");
  expect(measured).toEqual({ kubelet: { ofStarts: [1, 2, 3] }, berth: { ofStarts: [10, 20, 30] } });
});

test("the window after the last start contains the relist of the runtime", () => {
  const effort = { idlePeriods: 3, idleMs: 30_000, lastIdleMs: 310_000 };
  expect([0, 1, 2].map((period) => idleMsOf(effort, period))).toEqual([30_000, 30_000, 310_000]);
  expect(describeIdle(effort, "both agents")).toBe(
    "idle for 30 s after each of 2 starts of both agents, and for 310 s after another",
  );
  const equal = { ...effort, lastIdleMs: 30_000 };
  expect(describeIdle(equal, "the agent")).toBe("idle for 30 s after each of 3 starts of the agent");
  expect(describeIdle({ ...effort, idlePeriods: 1 }, "the agent")).toBe("idle for 310 s after one start of the agent");
});

test("bytes a minute are those of all windows together", () => {
  const windows = [
    { lastedMs: 30_000, bytes: 100 },
    { lastedMs: 90_000, bytes: 0 },
  ];
  expect(perMinute(windows, ({ bytes }) => bytes)).toEqual({ value: 50, low: 0, high: 200, samples: [200, 0] });
});
