import { describe, expect, test } from "bun:test";
import { decodeBatch, usageBetween } from "./metrics-server.ts";
import { recordedPage } from "./page-shape.ts";

const labels = (container: string) => `{container="${container}",namespace="default",pod="web"}`;
const pageOf = (cpu: number, atMs: number, startSeconds = 100) => `# HELP container_cpu_usage_seconds_total CPU
# TYPE container_cpu_usage_seconds_total counter
container_cpu_usage_seconds_total${labels("app")} ${cpu} ${atMs}
container_memory_working_set_bytes${labels("app")} 4.096e+06 ${atMs}
container_start_time_seconds${labels("app")} ${startSeconds}
node_cpu_usage_seconds_total ${cpu * 10} ${atMs}
node_memory_working_set_bytes 1e+09 ${atMs}
pod_cpu_usage_seconds_total{namespace="default",pod="web"} 7 ${atMs}
resource_scrape_error 0
`;
const at = (seconds: number) => seconds * 1000;

test("a scrape has the node and the containers, in nanoseconds and bytes", () => {
  const { node, pods } = decodeBatch(pageOf(1.5, at(200)), 0);
  expect(node).toEqual({ atMs: at(200), cpuNs: 15e9, memoryBytes: 1e9 });
  expect(pods.get("default/web")?.get("app")).toEqual({
    ...{ startMs: at(100), atMs: at(200), cpuNs: 1.5e9, memoryBytes: 4_096_000 },
  });
});

test("a sample without a time has that of the scrape", () => {
  const page = pageOf(1, at(200)).replaceAll(` ${at(200)}`, "");
  expect(decodeBatch(page, at(300)).node?.atMs).toBe(at(300));
});

test("the kubelet's page for the recorded pods has all their containers, each started before its sample", () => {
  const { node, pods } = decodeBatch(recordedPage("resource.txt"), 0);
  expect(node).toBeDefined();
  expect([...pods.keys()].toSorted()).toEqual(["default/burstable", "default/guaranteed", "default/host-network"]);
  for (const containers of pods.values())
    for (const { startMs = Number.POSITIVE_INFINITY, atMs } of containers.values()) expect(startMs).toBeLessThan(atMs);
});

const dropped: readonly (readonly [what: string, page: string])[] = [
  ["no CPU time", pageOf(0, at(200))],
  ["no memory", pageOf(1, at(200)).replace(/container_memory.*/, "")],
  [
    "a second container without CPU time",
    `${pageOf(1, at(200))}container_memory_working_set_bytes${labels("b")} 1 1\n`,
  ],
];
for (const [what, page] of dropped)
  test(`a pod with ${what} is dropped`, () => expect(decodeBatch(page, 0).pods.size).toBe(0));

test("a line that is no sample is an error", () => {
  expect(() => decodeBatch("container_cpu_usage_seconds_total{ 1\n", 0)).toThrow("no sample of the text format");
});

describe("two scrapes", () => {
  const usage = (first: string, second: string, resolutionMs = at(15)) =>
    usageBetween(decodeBatch(first, 0), decodeBatch(second, 0), resolutionMs);

  test("give the CPU and the memory in between", () => {
    expect(Object.fromEntries(usage(pageOf(1, at(200)), pageOf(2, at(220))))).toEqual({
      node: { cpuNanoCores: 0.5e9, memoryBytes: 1e9 },
      "default/web/app": { cpuNanoCores: 0.05e9, memoryBytes: 4_096_000 },
    });
  });

  const without: readonly (readonly [what: string, first: string, second: string])[] = [
    ["at the same time", pageOf(1, at(200)), pageOf(2, at(200))],
    ["of two instances", pageOf(1, at(200)), pageOf(1, at(220), 215)],
    ["of an instance that starts after its first sample", pageOf(1, at(200), 300), pageOf(2, at(220), 300)],
  ];
  for (const [what, first, second] of without)
    test(`${what} give nothing`, () => expect(usage(first, second).has("default/web/app")).toBe(false));

  test("are not needed for a container that is between ten seconds and one resolution old", () => {
    const second = pageOf(1, at(212), 200);
    expect(usage("", second).get("default/web/app")?.cpuNanoCores).toBeCloseTo(1e9 / 12);
    expect(usage("", pageOf(1, at(209), 200)).size).toBe(0);
    expect(usage("", pageOf(1, at(216), 200)).size).toBe(0);
  });

  test("with a CPU time that has decreased are an error", () => {
    expect(() => usage(pageOf(2, at(200)), pageOf(1, at(220)))).toThrow("has decreased");
  });
});
