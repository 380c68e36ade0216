import { expect, test } from "bun:test";
import type { Container, Pod, PodQOSClass, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import type { NodeFacts } from "../node-facts.ts";
import { amountsOf, linuxResources, oomScoreAdj, podAmounts } from "./linux-resources.ts";

function linux(resources: ResourceRequirements | undefined, facts: Partial<NodeFacts> = {}) {
  const { cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes } = linuxResources(amountsOf(resources), {
    ...nodeFacts,
    ...facts,
  });
  return { cpuShares, cpuQuota, cpuPeriod, memoryLimitInBytes };
}

const shares: readonly [sentence: string, resources: ResourceRequirements | undefined, shares: bigint][] = [
  ["without resources they are the minimum", undefined, 2n],
  ["a request of 0 gives the minimum", { requests: { cpu: "0" } }, 2n],
  ["1m gives the minimum", { requests: { cpu: "1m" } }, 2n],
  ["3m gives 3", { requests: { cpu: "3m" } }, 3n],
  ["100m gives 102", { requests: { cpu: "100m" } }, 102n],
  ["one CPU gives 1024", { requests: { cpu: "1" } }, 1024n],
  ["a limit replaces a missing request", { limits: { cpu: "2" } }, 2048n],
  ["a request takes precedence over the limit", { requests: { cpu: "250m" }, limits: { cpu: "2" } }, 256n],
  ["255 CPUs stay below the maximum", { requests: { cpu: "255" } }, 261_120n],
  ["256 CPUs give the maximum", { requests: { cpu: "256" } }, 262_144n],
  ["1000 CPUs give the maximum", { requests: { cpu: "1000" } }, 262_144n],
];
for (const [sentence, resources, cpuShares] of shares)
  test(`cpu shares: ${sentence}`, () => {
    expect(linux(resources).cpuShares).toBe(cpuShares);
  });

const quotas: readonly [string, ResourceRequirements | undefined, Partial<NodeFacts>, quota: bigint, period: bigint][] =
  [
    ["without a limit there is no quota", { requests: { cpu: "1" } }, {}, 0n, 100_000n],
    ["a limit of 0 means no quota", { limits: { cpu: "0" } }, {}, 0n, 100_000n],
    ["half a CPU gives half a period", { limits: { cpu: "500m" } }, {}, 50_000n, 100_000n],
    ["two CPUs give two periods", { limits: { cpu: "2" } }, {}, 200_000n, 100_000n],
    ["1m gives the minimum of 1 ms", { limits: { cpu: "1m" } }, {}, 1000n, 100_000n],
    ["10m gives exactly 1 ms", { limits: { cpu: "10m" } }, {}, 1000n, 100_000n],
    ["11m gives more than 1 ms", { limits: { cpu: "11m" } }, {}, 1100n, 100_000n],
    ["the quota follows the node's period", { limits: { cpu: "500m" } }, { cpuCFSQuotaPeriodMs: 10 }, 5000n, 10_000n],
    [
      "the period may be a fraction of a millisecond",
      { limits: { cpu: "1" } },
      { cpuCFSQuotaPeriodMs: 1.5 },
      1500n,
      1500n,
    ],
    ["cpuCFSQuota false sets no quota", { limits: { cpu: "1" } }, { cpuCFSQuota: false }, 0n, 0n],
  ];
for (const [sentence, resources, facts, cpuQuota, cpuPeriod] of quotas)
  test(`cpu quota: ${sentence}`, () => {
    expect(linux(resources, facts)).toMatchObject({ cpuQuota, cpuPeriod });
  });

test("the memory limit is the container's, or unset", () => {
  expect(linux({ limits: { memory: "64Mi" } }).memoryLimitInBytes).toBe(67_108_864n);
  expect(linux({ requests: { memory: "64Mi" } }).memoryLimitInBytes).toBe(0n);
});

test("a limit above the int64 range is clamped", () => {
  for (const [cpu, memory] of [
    ["1e15", "1000E"],
    ["1e100", "1e100"],
  ] as const) {
    const { cpuQuota, memoryLimitInBytes } = linux({ limits: { cpu, memory } });
    expect([cpuQuota, memoryLimitInBytes]).toEqual([2n ** 63n - 1n, 2n ** 63n - 1n]);
  }
});

test("the OOM killer spares a sidecar as long as the main container with the smallest request", () => {
  const asking = (name: string, memory?: string): Container => ({
    name,
    ...(memory === undefined ? {} : { resources: { requests: { memory } } }),
  });
  const score = (own: string | undefined, ...others: readonly (string | undefined)[]) => {
    const sidecar: Container = { ...asking("proxy", own), restartPolicy: "Always" };
    const containers = others.map((memory, index) => asking(`c${index}`, memory));
    const pod: Pod = { metadata: {}, spec: { initContainers: [sidecar], containers } };
    return oomScoreAdj(pod, sidecar, "Burstable", nodeFacts);
  };
  expect(score("1Gi", "4Gi", "2Gi")).toBe(750);
  expect(score("4Gi", "2Gi")).toBe(500);
  expect(score(undefined, "2Gi", undefined)).toBe(999);
});

test("the limits of a sandbox are the sums of those that are set, as with the kubelet", () => {
  const pod = podOf({ requests: { cpu: "100m", memory: "1Mi" } }, { limits: { cpu: "1", memory: "2Mi" } }, {});
  expect(podAmounts(pod)).toEqual({
    cpuRequest: 100,
    cpuLimit: 1000,
    memoryRequest: 2 ** 20,
    memoryLimit: 2 ** 21,
  });
});

test("a sandbox without a CPU request gets the shares of its limit", () => {
  const amounts = podAmounts(podOf({ limits: { cpu: "500m" } }));
  expect(amounts.cpuRequest).toBeUndefined();
  expect(linuxResources(amounts, nodeFacts)).toMatchObject({ cpuShares: 512n, cpuQuota: 50_000n });
});

test("the resources of the pod itself replace those of its containers in its sandbox", () => {
  const { metadata, spec } = podOf({ requests: { cpu: "1" }, limits: { memory: "1Mi" } });
  const resources = { requests: { cpu: "2" }, limits: { memory: "8Mi" } };
  expect(podAmounts({ metadata, spec: { ...spec, resources } })).toMatchObject({
    cpuRequest: 2000,
    memoryLimit: 2 ** 23,
  });
});

const scores: readonly [
  sentence: string,
  PodQOSClass,
  memory: string | undefined,
  spec: Partial<Pod["spec"]>,
  score: number,
][] = [
  ["Guaranteed", "Guaranteed", "1Gi", {}, -997],
  ["BestEffort", "BestEffort", undefined, {}, 1000],
  ["a Burstable container without a memory request", "Burstable", undefined, {}, 999],
  ["a Burstable container with a small memory request", "Burstable", "1Mi", {}, 999],
  ["a Burstable container that requests a quarter of the node", "Burstable", "2Gi", {}, 750],
  ["a Burstable container that requests half of the node", "Burstable", "4Gi", {}, 500],
  ["a Burstable container that requests all of the node", "Burstable", "8Gi", {}, 3],
  ["a Burstable container that requests more than the node", "Burstable", "16Gi", {}, 3],
  ["a critical pod", "BestEffort", undefined, { priority: 2_000_001_000 }, -997],
  ["a pod just below critical", "BestEffort", undefined, { priority: 1_999_999_999 }, 1000],
];
for (const [sentence, qosClass, memory, spec, score] of scores)
  test(`OOM score: ${sentence} has ${score}`, () => {
    const container: Container = {
      name: "a",
      ...(memory === undefined ? {} : { resources: { requests: { memory } } }),
    };
    const pod: Pod = { metadata: {}, spec: { containers: [container], ...spec } };
    expect(oomScoreAdj(pod, container, qosClass, nodeFacts)).toBe(score);
  });

function podOf(...all: readonly ResourceRequirements[]): Pod {
  return { metadata: {}, spec: { containers: all.map((resources, index) => ({ name: `c${index}`, resources })) } };
}

test("a pod's request is the larger of: app containers and sidecars together; each init container and the sidecars before it", () => {
  const cpu = (name: string, amount: string, more: Partial<Container> = {}): Container => ({
    name,
    resources: { requests: { cpu: amount }, limits: { memory: amount } },
    ...more,
  });
  const sidecar = cpu("proxy", "2", { restartPolicy: "Always" });
  const amounts = (initContainers: readonly Container[]) => {
    const { cpuRequest, memoryLimit } = podAmounts({
      metadata: {},
      spec: { initContainers, containers: [cpu("app", "3")] },
    });
    return [cpuRequest, memoryLimit];
  };
  expect(amounts([cpu("first", "4")])).toEqual([4000, 4]);
  expect(amounts([sidecar, cpu("first", "4")])).toEqual([6000, 6]);
  expect(amounts([cpu("first", "4"), sidecar])).toEqual([5000, 5]);
  expect(amounts([cpu("first", "1")])).toEqual([3000, 3]);
});

test("OOM score: the containers of a pod share what the pod itself requests beyond them", () => {
  const asking = (memory: string | undefined, more: Partial<Container> = {}): Container => ({
    name: "c",
    ...(memory !== undefined && { resources: { requests: { memory } } }),
    ...more,
  });
  const scoresOf = (request: string | undefined, init: readonly Container[], containers: readonly Container[]) => {
    const resources = request === undefined ? { limits: { memory: "8Gi" } } : { requests: { memory: request } };
    const pod: Pod = { metadata: {}, spec: { initContainers: init, containers, resources } };
    return [...init, ...containers].map((each) => oomScoreAdj(pod, each, "Burstable", nodeFacts));
  };
  const proxy = asking("512Mi", { restartPolicy: "Always" });
  // Of 8 GiB. 4 GiB less 1 + 1 leave 2, which is 1 GiB for each.
  expect(scoresOf("4Gi", [], [asking("1Gi"), asking("1Gi")])).toEqual([750, 750]);
  expect(scoresOf("4Gi", [], [asking(undefined), asking(undefined)])).toEqual([750, 750]);
  // The sidecar counts, and is spared as long as the smallest app container: 4 less 1.5 leave 1.25 for each.
  expect(scoresOf("4Gi", [proxy], [asking("1Gi")])).toEqual([719, 719]);
  // An init container takes part, although it runs alone: 4 less max(2, 1) leave 1 for each.
  expect(scoresOf("4Gi", [asking("2Gi")], [asking("1Gi")])).toEqual([625, 750]);
  expect(scoresOf("2Gi", [], [asking("1Gi"), asking("1Gi")])).toEqual([875, 875]);
  expect(scoresOf(undefined, [], [asking("1Gi")])).toEqual([875]);
  expect(scoresOf("8Gi", [], [asking("1Gi")])).toEqual([3]);
});
