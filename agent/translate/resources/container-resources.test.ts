import { expect, test } from "bun:test";
import type { Container, Pod, PodQOSClass, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import type { NodeFacts } from "../node-facts.ts";
import { containerResources } from "./container-resources.ts";

interface Scene {
  readonly resources?: ResourceRequirements;
  readonly facts?: Partial<NodeFacts>;
  readonly qosClass?: PodQOSClass;
  readonly pod?: Partial<Pod["metadata"]> & Partial<Pod["spec"]>;
}

function resourcesOf({ resources, facts, qosClass = "Burstable", pod: { annotations, priority } = {} }: Scene) {
  const container: Container = { name: "a", ...(resources && { resources }) };
  const pod: Pod = {
    metadata: { ...(annotations && { annotations }) },
    spec: { containers: [container], ...(priority !== undefined && { priority }) },
  };
  return containerResources(pod, container, qosClass, { ...nodeFacts, ...facts });
}

const v1: Partial<NodeFacts> = { hasCgroupV2: false };
const GI = 2 ** 30;

const pages: readonly [sentence: string, limits: Readonly<Record<string, string>>, sizes: number[], held: string[]][] =
  [
    ["nothing of any size without a limit", {}, [2 ** 21, GI], ["2MB 0", "1GB 0"]],
    [
      "what it says of one size, nothing of the other",
      { "hugepages-2Mi": "64Mi" },
      [2 ** 21, GI],
      ["2MB 67108864", "1GB 0"],
    ],
    ["both", { "hugepages-1Gi": "2Gi", "hugepages-2Mi": "4Mi" }, [2 ** 21, GI], ["2MB 4194304", "1GB 2147483648"]],
    ["a size that the kernel does not have is passed over", { "hugepages-16Mi": "32Mi" }, [2 ** 21], ["2MB 0"]],
    ["a kernel without any", { "hugepages-2Mi": "2Mi" }, [], []],
    ["the sizes of other machines", {}, [2 ** 16, 2 ** 25, 2 ** 34], ["64KB 0", "32MB 0", "16GB 0"]],
    ["a size said in other words", { "hugepages-2048Ki": "2Mi" }, [2 ** 21], ["2MB 2097152"]],
  ];
for (const [sentence, limits, hugePageSizes, held] of pages)
  test(`huge pages: ${sentence}`, () => {
    const { hugepageLimits } = resourcesOf({ resources: { limits }, facts: { hugePageSizes } });
    expect(hugepageLimits.map(({ pageSize, limit }) => `${pageSize} ${limit}`)).toEqual(held);
  });

const deaths: readonly [sentence: string, facts: Partial<NodeFacts>, file: string | undefined][] = [
  ["all of it, unless said otherwise", {}, "1"],
  ["one process of it, where that is said", { singleProcessOOMKill: true }, undefined],
  ["one process of it with cgroup v1, which cannot do otherwise", v1, undefined],
];
for (const [sentence, facts, file] of deaths)
  test(`out of memory, a container loses ${sentence}`, () => {
    expect(resourcesOf({ facts }).unified["memory.oom.group"]).toBe(file);
  });

const asks = (request: string | undefined, limit?: string): ResourceRequirements => ({
  ...(request !== undefined && { requests: { memory: request } }),
  ...(limit !== undefined && { limits: { memory: limit } }),
});
const limited: Partial<NodeFacts> = { swapBehavior: "LimitedSwap" };
/** The node has 8 GiB of memory and 2 of swap. */
const swaps: readonly [sentence: string, Scene, bytes: string | undefined][] = [
  ["none by default", { resources: asks("1Gi", "2Gi") }, "0"],
  ["none where none is said", { resources: asks("1Gi", "2Gi"), facts: { swapBehavior: "NoSwap" } }, "0"],
  ["its share, by the memory that it asks for", { resources: asks("1Gi", "2Gi"), facts: limited }, String(GI / 4)],
  ["its share, also without a limit", { resources: asks("4Gi"), facts: limited }, String(GI)],
  ["its share in whole bytes", { resources: asks("1000"), facts: limited }, "250"],
  ["a fraction of a byte is none", { resources: asks("3"), facts: limited }, "0"],
  ["all for a container that asks for all memory", { resources: asks("8Gi"), facts: limited }, String(2 * GI)],
  ["none for one that asks for more than there is", { resources: asks("9Gi"), facts: limited }, "0"],
  ["none for one that asks for no memory", { facts: limited }, "0"],
  ["none for one that has its limit at hand", { resources: asks("1Gi", "1Gi"), facts: limited }, "0"],
  ["none in a Guaranteed pod", { resources: asks("1Gi"), qosClass: "Guaranteed", facts: limited }, "0"],
  ["none in a BestEffort pod", { qosClass: "BestEffort", facts: limited }, "0"],
  ["none in a critical pod", { resources: asks("1Gi"), pod: { priority: 2_000_000_000 }, facts: limited }, "0"],
  [
    "its share in a pod just below critical",
    { resources: asks("1Gi"), pod: { priority: 1_999_999_999 }, facts: limited },
    String(GI / 4),
  ],
  [
    "none in a static pod",
    { resources: asks("1Gi"), pod: { annotations: { "kubernetes.io/config.source": "file" } }, facts: limited },
    "0",
  ],
  [
    "its share in a pod of the API",
    { resources: asks("1Gi"), pod: { annotations: { "kubernetes.io/config.source": "api" } }, facts: limited },
    String(GI / 4),
  ],
  ["none on a node without swap", { resources: asks("1Gi"), facts: { ...limited, swapCapacityBytes: 0 } }, "0"],
  ["nothing is said where the kernel does not count it", { facts: { ...limited, limitsSwap: false } }, undefined],
  ["nothing is said by a file with cgroup v1", { resources: asks("1Gi"), facts: { ...limited, ...v1 } }, undefined],
];
for (const [sentence, scene, bytes] of swaps)
  test(`swap: ${sentence}`, () => {
    expect(resourcesOf(scene).unified["memory.swap.max"]).toBe(bytes);
    expect(resourcesOf({ ...scene, facts: { ...scene.facts, hasCgroupV2: true } }).memorySwapLimitInBytes).toBe(0n);
  });

test("swap: with cgroup v1 memory and swap together are what memory alone may be, whatever the node is told", () => {
  for (const swapBehavior of ["", "NoSwap", "LimitedSwap"] as const) {
    const facts: Partial<NodeFacts> = { ...v1, swapBehavior };
    expect(resourcesOf({ resources: asks("1Gi", "2Gi"), facts }).memorySwapLimitInBytes).toBe(BigInt(2 * GI));
    expect(resourcesOf({ resources: asks("1Gi"), facts }).memorySwapLimitInBytes).toBe(0n);
    const uncounted = { ...facts, limitsSwap: false };
    expect(resourcesOf({ resources: asks("1Gi", "2Gi"), facts: uncounted }).memorySwapLimitInBytes).toBe(0n);
  }
});

const processes: readonly [sentence: string, facts: Partial<NodeFacts>, file: string | undefined][] = [
  ["as many as it likes by default", {}, undefined],
  ["as many as it likes where the limit is 0", { podPidsLimit: 0 }, undefined],
  ["as many as a pod may have", { podPidsLimit: 100 }, "100"],
  ["the most that the kernel can tell from no limit", { podPidsLimit: 4_194_303 }, "4194303"],
  ["no more than there can be", { podPidsLimit: 4_194_304 }, undefined],
  ["as many as it likes with cgroup v1, where nobody can be told of a limit", { ...v1, podPidsLimit: 100 }, undefined],
];
for (const [sentence, facts, file] of processes)
  test(`processes: a container may have ${sentence}`, () => {
    expect(resourcesOf({ facts }).unified["pids.max"]).toBe(file);
  });

test("what the container says of CPU and memory, and its OOM score, stand beside that", () => {
  const resources = { requests: { cpu: "250m", memory: "2Gi" }, limits: { memory: "4Gi" } };
  expect(resourcesOf({ resources, facts: v1 })).toMatchObject({
    cpuShares: 256n,
    memoryLimitInBytes: BigInt(4 * GI),
    oomScoreAdj: 750n,
    unified: {},
  });
});
