import { expect, test } from "bun:test";
import type { Container, Pod, PodQOSClass, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import type { NodeFacts } from "../node-facts.ts";
import { containerResources } from "./container-resources.ts";

interface TestInput {
  readonly resources?: ResourceRequirements;
  readonly facts?: Partial<NodeFacts>;
  readonly qosClass?: PodQOSClass;
  readonly pod?: Partial<Pod["metadata"]> & Partial<Pod["spec"]>;
  readonly podLevel?: ResourceRequirements;
}

function resourcesOf(input: TestInput) {
  const { resources, facts, qosClass = "Burstable", podLevel, pod: { annotations, priority } = {} } = input;
  const container: Container = { name: "a", ...(resources && { resources }) };
  const pod: Pod = {
    metadata: { ...(annotations && { annotations }) },
    spec: {
      containers: [container],
      ...(priority !== undefined && { priority }),
      ...(podLevel !== undefined && { resources: podLevel }),
    },
  };
  return containerResources(pod, container, qosClass, { ...nodeFacts, ...facts });
}

const v1: Partial<NodeFacts> = { hasCgroupV2: false };
const GI = 2 ** 30;

const hugePages: readonly [
  sentence: string,
  limits: Readonly<Record<string, string>>,
  sizes: number[],
  held: string[],
][] = [
  ["every size gets 0 without a limit", {}, [2 ** 21, GI], ["2MB 0", "1GB 0"]],
  ["a limit applies to its size only", { "hugepages-2Mi": "64Mi" }, [2 ** 21, GI], ["2MB 67108864", "1GB 0"]],
  ["both", { "hugepages-1Gi": "2Gi", "hugepages-2Mi": "4Mi" }, [2 ** 21, GI], ["2MB 4194304", "1GB 2147483648"]],
  ["a size that the kernel lacks is ignored", { "hugepages-16Mi": "32Mi" }, [2 ** 21], ["2MB 0"]],
  ["a kernel without huge pages gets no limits", { "hugepages-2Mi": "2Mi" }, [], []],
  [
    "the page sizes of other architectures are formatted",
    {},
    [2 ** 16, 2 ** 25, 2 ** 34],
    ["64KB 0", "32MB 0", "16GB 0"],
  ],
  ["a size in another unit is recognised", { "hugepages-2048Ki": "2Mi" }, [2 ** 21], ["2MB 2097152"]],
];
for (const [sentence, limits, hugePageSizes, held] of hugePages)
  test(`huge pages: ${sentence}`, () => {
    const { hugepageLimits } = resourcesOf({ resources: { limits }, facts: { hugePageSizes } });
    expect(hugepageLimits.map(({ pageSize, limit }) => `${pageSize} ${limit}`)).toEqual(held);
  });

const oomKills: readonly [sentence: string, facts: Partial<NodeFacts>, file: string | undefined][] = [
  ["all its processes by default", {}, "1"],
  ["one process under singleProcessOOMKill", { singleProcessOOMKill: true }, undefined],
  ["one process under cgroup v1, which has no group kill", v1, undefined],
];
for (const [sentence, facts, file] of oomKills)
  test(`the OOM killer ends ${sentence} of a container`, () => {
    expect(resourcesOf({ facts }).unified["memory.oom.group"]).toBe(file);
  });

const resourcesWith = (request: string | undefined, limit?: string): ResourceRequirements => ({
  ...(request !== undefined && { requests: { memory: request } }),
  ...(limit !== undefined && { limits: { memory: limit } }),
});
const limited: Partial<NodeFacts> = { swapBehavior: "LimitedSwap" };
/** The node has 8 GiB of memory and 2 GiB of swap. */
const swapLimits: readonly [sentence: string, TestInput, bytes: string | undefined][] = [
  ["a container gets none by default", { resources: resourcesWith("1Gi", "2Gi") }, "0"],
  [
    "a container gets none under NoSwap",
    { resources: resourcesWith("1Gi", "2Gi"), facts: { swapBehavior: "NoSwap" } },
    "0",
  ],
  [
    "a Burstable container gets the node's swap in proportion to its memory request",
    { resources: resourcesWith("1Gi", "2Gi"), facts: limited },
    String(GI / 4),
  ],
  [
    "a container without a memory limit gets its share",
    { resources: resourcesWith("4Gi"), facts: limited },
    String(GI),
  ],
  ["the share is rounded down to whole bytes", { resources: resourcesWith("1000"), facts: limited }, "250"],
  ["a share below one byte is 0", { resources: resourcesWith("3"), facts: limited }, "0"],
  [
    "a container that requests all memory gets all swap",
    { resources: resourcesWith("8Gi"), facts: limited },
    String(2 * GI),
  ],
  ["a request above the node's memory gets none", { resources: resourcesWith("9Gi"), facts: limited }, "0"],
  ["a container without a memory request gets none", { facts: limited }, "0"],
  [
    "a container whose request equals its limit gets none",
    { resources: resourcesWith("1Gi", "1Gi"), facts: limited },
    "0",
  ],
  ["a Guaranteed pod gets none", { resources: resourcesWith("1Gi"), qosClass: "Guaranteed", facts: limited }, "0"],
  ["a BestEffort pod gets none", { qosClass: "BestEffort", facts: limited }, "0"],
  [
    "a critical pod gets none",
    { resources: resourcesWith("1Gi"), pod: { priority: 2_000_000_000 }, facts: limited },
    "0",
  ],
  [
    "a pod just below critical gets its share",
    { resources: resourcesWith("1Gi"), pod: { priority: 1_999_999_999 }, facts: limited },
    String(GI / 4),
  ],
  [
    "a static pod gets none",
    {
      resources: resourcesWith("1Gi"),
      pod: { annotations: { "kubernetes.io/config.source": "file" } },
      facts: limited,
    },
    "0",
  ],
  [
    "a pod of the API gets its share",
    { resources: resourcesWith("1Gi"), pod: { annotations: { "kubernetes.io/config.source": "api" } }, facts: limited },
    String(GI / 4),
  ],
  [
    "a node without swap gives none",
    { resources: resourcesWith("1Gi"), facts: { ...limited, swapCapacityBytes: 0 } },
    "0",
  ],
  [
    "the limit is left out when the kernel does not account for swap",
    { facts: { ...limited, limitsSwap: false } },
    undefined,
  ],
  [
    "the cgroup v2 file is left out under cgroup v1",
    { resources: resourcesWith("1Gi"), facts: { ...limited, ...v1 } },
    undefined,
  ],
];
for (const [sentence, fixture, bytes] of swapLimits)
  test(`swap: ${sentence}`, () => {
    expect(resourcesOf(fixture).unified["memory.swap.max"]).toBe(bytes);
    expect(resourcesOf({ ...fixture, facts: { ...fixture.facts, hasCgroupV2: true } }).memorySwapLimitInBytes).toBe(0n);
  });

test("swap: under cgroup v1 the memory-and-swap limit equals the memory limit, whatever swapBehavior is", () => {
  for (const swapBehavior of ["", "NoSwap", "LimitedSwap"] as const) {
    const facts: Partial<NodeFacts> = { ...v1, swapBehavior };
    expect(resourcesOf({ resources: resourcesWith("1Gi", "2Gi"), facts }).memorySwapLimitInBytes).toBe(BigInt(2 * GI));
    expect(resourcesOf({ resources: resourcesWith("1Gi"), facts }).memorySwapLimitInBytes).toBe(0n);
    const uncounted = { ...facts, limitsSwap: false };
    expect(resourcesOf({ resources: resourcesWith("1Gi", "2Gi"), facts: uncounted }).memorySwapLimitInBytes).toBe(0n);
  }
});

const pidLimits: readonly [sentence: string, facts: Partial<NodeFacts>, file: string | undefined][] = [
  ["is not set by default", {}, undefined],
  ["is not set when podPidsLimit is 0", { podPidsLimit: 0 }, undefined],
  ["is the node's podPidsLimit", { podPidsLimit: 100 }, "100"],
  ["accepts the largest value below the kernel's PID limit", { podPidsLimit: 4_194_303 }, "4194303"],
  ["is not set at the kernel's PID limit", { podPidsLimit: 4_194_304 }, undefined],
  ["is not set under cgroup v1", { ...v1, podPidsLimit: 100 }, undefined],
  ["is not set when the pod has a cgroup of its own", { podPidsLimit: 100, cgroupsPerQOS: true }, undefined],
];
for (const [sentence, facts, file] of pidLimits)
  test(`pids.max ${sentence}`, () => {
    expect(resourcesOf({ facts }).unified["pids.max"]).toBe(file);
  });

test("containerResources keeps CPU, memory and the OOM score beside the unified files", () => {
  const resources = { requests: { cpu: "250m", memory: "2Gi" }, limits: { memory: "4Gi" } };
  expect(resourcesOf({ resources, facts: v1 })).toMatchObject({
    cpuShares: 256n,
    memoryLimitInBytes: BigInt(4 * GI),
    oomScoreAdj: 750n,
    unified: {},
  });
});

const podLevelRows: readonly [
  sentence: string,
  podLevel: ResourceRequirements,
  resources: ResourceRequirements | undefined,
  held: string,
][] = [
  [
    "a container without limits has the pod's",
    { limits: { cpu: "2", memory: "1Gi" } },
    undefined,
    "2048 200000 1073741824",
  ],
  [
    "a container keeps its own limits",
    { limits: { cpu: "2", memory: "1Gi" } },
    { limits: { cpu: "1", memory: "1Mi" } },
    "1024 100000 1048576",
  ],
  ["a limit of 0 is none", { limits: { cpu: "2" } }, { limits: { cpu: "0" } }, "2048 200000 0"],
  ["a request sets the shares", { limits: { cpu: "2" } }, { requests: { cpu: "100m" } }, "102 200000 0"],
  ["a request of the pod alone is no container's", { requests: { cpu: "2" } }, undefined, "2 0 0"],
];
for (const [sentence, podLevel, resources, held] of podLevelRows)
  test(`pod-level resources: ${sentence}`, () => {
    const { cpuShares, cpuQuota, memoryLimitInBytes } = resourcesOf({ podLevel, ...(resources && { resources }) });
    expect(`${cpuShares} ${cpuQuota} ${memoryLimitInBytes}`).toBe(held);
  });

test("pod-level resources: huge pages of the pod, unless the container has its own of that size", () => {
  const podLevel = { limits: { "hugepages-2Mi": "8Mi", "hugepages-1Gi": "2Gi" } };
  const resources = { limits: { "hugepages-2048Ki": "4Mi" } };
  const facts = { hugePageSizes: [2 ** 16, 2 ** 21, GI] };
  const { hugepageLimits } = resourcesOf({ podLevel, resources, facts });
  expect(hugepageLimits.map(({ pageSize, limit }) => `${pageSize} ${limit}`)).toEqual([
    "64KB 0",
    "2MB 4194304",
    "1GB 2147483648",
  ]);
});

const memoryQoS = { throttlingFactor: 0.9, reservationPolicy: "None" } as const;
const tiered = { ...memoryQoS, reservationPolicy: "TieredReservation" } as const;
/** The node has 8 GiB, and pods may use all of it. */
const memoryFiles: readonly [sentence: string, TestInput, files: string][] = [
  ["off: no files", { resources: resourcesWith("1Gi", "2Gi") }, ""],
  ["under cgroup v1: no files", { resources: resourcesWith("1Gi", "2Gi"), facts: { ...v1, memoryQoS } }, ""],
  [
    "throttled at nine tenths between request and limit",
    { resources: resourcesWith("1000Mi", "2000Mi"), facts: { memoryQoS } },
    `memory.high=${1900 * 2 ** 20} memory.low=0 memory.min=0`,
  ],
  [
    "whole pages, rounded down",
    { resources: resourcesWith("0", "10000"), facts: { memoryQoS } },
    "memory.high=8192 memory.low=0 memory.min=0",
  ],
  [
    "pages of 16 KiB",
    { resources: resourcesWith("0", "40000"), facts: { memoryQoS, pageBytes: 16_384 } },
    "memory.high=32768 memory.low=0 memory.min=0",
  ],
  [
    "another factor",
    { resources: resourcesWith("0", "40960"), facts: { memoryQoS: { ...memoryQoS, throttlingFactor: 0.5 } } },
    "memory.high=20480 memory.low=0 memory.min=0",
  ],
  [
    "without a limit, what pods may use of the node",
    { resources: resourcesWith("0.5Gi"), facts: { memoryQoS, allocatable: new Map([["memory", 2n ** 32n]]) } },
    `memory.high=${Math.floor((2 ** 29 + (2 ** 32 - 2 ** 29) * 0.9) / 4096) * 4096} memory.low=0 memory.min=0`,
  ],
  [
    "not where request and limit are equal",
    { resources: resourcesWith("1Gi", "1Gi"), facts: { memoryQoS } },
    "memory.low=0 memory.min=0",
  ],
  ["not without both", { facts: { memoryQoS } }, "memory.low=0 memory.min=0"],
  [
    "not at the request or below it",
    { resources: resourcesWith("8192", "8193"), facts: { memoryQoS } },
    "memory.low=0 memory.min=0",
  ],
  [
    "reserved in a Guaranteed pod",
    { resources: resourcesWith("1Gi", "1Gi"), qosClass: "Guaranteed", facts: { memoryQoS: tiered } },
    `memory.min=${GI}`,
  ],
  [
    "reserved in a Burstable pod",
    { resources: resourcesWith("1Gi", "1Gi"), facts: { memoryQoS: tiered } },
    `memory.low=${GI}`,
  ],
  [
    "nothing to reserve without a request",
    { resources: resourcesWith(undefined, "1Mi"), facts: { memoryQoS: tiered } },
    "memory.high=942080 memory.low=0 memory.min=0",
  ],
];
for (const [sentence, input, files] of memoryFiles)
  test(`MemoryQoS: ${sentence}`, () => {
    const { unified } = resourcesOf(input);
    const held = Object.entries(unified).filter(([name]) => /^memory\.(min|low|high)$/.test(name));
    expect(
      held
        .map((entry) => entry.join("="))
        .toSorted()
        .join(" "),
    ).toBe(files);
  });
