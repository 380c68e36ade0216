import { describe, expect, test } from "bun:test";
import { formatExposition } from "../stats/exposition.ts";
import { createMetricStore } from "./metric-store.ts";

const definitions = {
  calls_total: { type: "counter", help: "Calls.", labels: ["code", "host"] },
  ends_total: { type: "counter", help: "Ends.", labels: [] },
  pods: { type: "gauge", help: "Pods.", labels: [] },
  seconds: { type: "histogram", help: "Seconds.", labels: ["verb"], buckets: [0.5, 1] },
  start_seconds: { type: "histogram", help: "Starts.", labels: [], buckets: [1], startsEmpty: true },
} as const;

const start = () => {
  const store = createMetricStore(definitions);
  const page = () =>
    formatExposition(store.families(), "text")
      .split("\n")
      .filter((line) => !/^#|^$/.test(line));
  return { store, page };
};

describe("a page", () => {
  test("begins with the metrics that have no labels, at zero, except for those that start empty", () => {
    expect(start().page()).toEqual(["ends_total 0", "pods 0"]);
  });

  test("has the series that were recorded, in order", () => {
    const { store, page } = start();
    store.add("calls_total", ["200", "b"]);
    store.add("calls_total", ["200", "a"], 2);
    store.add("calls_total", ["200", "b"]);
    store.set("pods", 3);
    store.set("pods", 2);
    for (const seconds of [0.5, 0.6, 7]) store.observe("seconds", seconds, ["GET"]);
    expect(page()).toEqual([
      'calls_total{code="200",host="a"} 2',
      'calls_total{code="200",host="b"} 2',
      "ends_total 0",
      "pods 2",
      'seconds_bucket{le="0.5",verb="GET"} 1',
      'seconds_bucket{le="1",verb="GET"} 2',
      'seconds_bucket{le="+Inf",verb="GET"} 3',
      'seconds_sum{verb="GET"} 8.1',
      'seconds_count{verb="GET"} 3',
    ]);
  });

  test("loses the series that are removed", () => {
    const { store, page } = start();
    for (const host of ["a", "b"]) store.add("calls_total", ["200", host]);
    store.removeSeries("calls_total", { host: "a", code: "404" });
    store.removeSeries("calls_total", { host: "a", code: "200" });
    expect(page()).toEqual(['calls_total{code="200",host="b"} 1', "ends_total 0", "pods 0"]);
    store.clear("calls_total");
    expect(page()).toEqual(["ends_total 0", "pods 0"]);
  });

  test("does not grow with values that containers choose: those beyond two thousand are counted together", () => {
    const { store, page } = start();
    for (let code = 0; code < 10_000; code++) store.add("calls_total", [String(code), "a"]);
    expect(page()).toHaveLength(2_003);
    expect(page()).toContain('calls_total{code="unexpected",host="unexpected"} 8000');
  });
});
