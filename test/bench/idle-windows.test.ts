import { expect, test } from "bun:test";
import { joined, measurePeriods, perMinute, samplesOf } from "./idle-windows.ts";

test("each period has agents that have just started, and they alternate who begins", async () => {
  const order: string[] = [];
  const restart = async (side: string) => order.push(side);
  let periods = 0;
  const measured = await measurePeriods(["kubelet", "berth"], 3, restart, async () => {
    order.push("idle");
    periods++;
    return { kubelet: periods, berth: 10 * periods };
  });
  expect(order.join(" ")).toBe("kubelet berth idle berth kubelet idle kubelet berth idle");
  expect(measured).toEqual({ kubelet: { ofStarts: [1, 2, 3] }, berth: { ofStarts: [10, 20, 30] } });
});

test("windows of several starts are samples each, and those of one process in a row are one", () => {
  const windows = [
    { lastedMs: 10, cpuMs: 3, memory: { pssBytes: 1 } },
    { lastedMs: 20, cpuMs: 4, memory: { pssBytes: 2 } },
  ];
  expect(samplesOf({ ofStarts: windows })).toEqual(windows);
  expect(samplesOf(windows)).toEqual([{ lastedMs: 30, cpuMs: 7, memory: { pssBytes: 2 } }]);
  expect(joined(windows)).toEqual({ lastedMs: 30, cpuMs: 7, memory: { pssBytes: 2 } });
});

test("bytes a minute are those of all windows together", () => {
  const windows = [
    { lastedMs: 30_000, bytes: 100 },
    { lastedMs: 90_000, bytes: 0 },
  ];
  expect(perMinute(windows, ({ bytes }) => bytes)).toEqual({ value: 50, low: 0, high: 200, samples: [200, 0] });
});
