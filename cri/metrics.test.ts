import { expect, test } from "bun:test";
import { createCallMetrics } from "./metrics.ts";

test("calls are counted by method, failures by code, and durations are added up", () => {
  const metrics = createCallMetrics();
  expect(metrics.snapshot()).toEqual({});
  metrics.record({ verb: "Status", code: "OK", durationMs: 3 });
  metrics.record({ verb: "Status", code: "UNAVAILABLE", durationMs: 5 });
  metrics.record({ verb: "Status", code: "UNAVAILABLE", durationMs: 1 });
  metrics.record({ verb: "GetContainerEvents", code: "CANCELLED", durationMs: undefined });
  expect(metrics.snapshot()).toEqual({
    Status: { count: 3, errors: { UNAVAILABLE: 2 }, totalMs: 9, maxMs: 5 },
    GetContainerEvents: { count: 1, errors: { CANCELLED: 1 }, totalMs: 0, maxMs: 0 },
  });
});
