import { expect, test } from "bun:test";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import type { Container, PodQOSClass, PodSpec, ResourceRequirements } from "../../../proto/kubernetes/gen/types.ts";
import { nodeFacts } from "../../../test/fakes/node-facts.ts";
import type { PodCgroupSettings } from "../settings.ts";
import { podCgroupLimits } from "./pod-cgroup.ts";

const container = (resources: ResourceRequirements, more: Partial<Container> = {}): Container => ({
  name: "c",
  resources,
  ...more,
});
const equal = (cpu: string, memory: string) => ({ requests: { cpu, memory }, limits: { cpu, memory } });
const sidecar = { restartPolicy: "Always" } as const;

/** The files that a cgroup of these limits has, in the kernel's notation. */
function filesOf(limits: CgroupLimits): string {
  const { cpuWeight, cpuMax, memoryMin, memoryLow, memoryMax, pidsMax, hugetlbMax = {} } = limits;
  const files: readonly (readonly [string, number | string | undefined])[] = [
    ["cpu.weight", cpuWeight],
    ["cpu.max", cpuMax && `${cpuMax.quotaUs} ${cpuMax.periodUs}`],
    ["memory.min", memoryMin],
    ["memory.low", memoryLow],
    ["memory.max", memoryMax],
    ["pids.max", pidsMax],
    ...Object.entries(hugetlbMax).map(([size, bytes]) => [`hugetlb.${size}.max`, bytes] as const),
  ];
  return files.flatMap(([name, value]) => (value === undefined ? [] : [`${name}=${value}`])).join(", ");
}

type Row = readonly [sentence: string, qosClass: PodQOSClass, spec: PodSpec, facts?: Partial<PodCgroupSettings>];

const table = (rows: readonly Row[], base: Partial<PodCgroupSettings>) =>
  `\n${rows
    .map(([sentence, qosClass, spec, facts]) => {
      const limits = podCgroupLimits({ spec }, qosClass, { ...nodeFacts, ...base, ...facts });
      return `${sentence}:\n  ${filesOf(limits)}`;
    })
    .join("\n")}\n`;

test("the files of pods of all classes", () => {
  const half = container({ requests: { cpu: "500m", memory: "64Mi" }, limits: { cpu: "1", memory: "128Mi" } });
  const noCpuLimit = container({ requests: { cpu: "250m" }, limits: { memory: "1Gi" } });
  const rows: readonly Row[] = [
    ["BestEffort", "BestEffort", { containers: [container({})] }],
    [
      "BestEffort with overhead keeps the smallest weight and no limits",
      "BestEffort",
      { containers: [container({})], overhead: { cpu: "250m", memory: "120Mi" } },
    ],
    ["Guaranteed", "Guaranteed", { containers: [container(equal("1", "1Gi")), container(equal("500m", "256Mi"))] }],
    ["Burstable, all containers limited", "Burstable", { containers: [half, half] }],
    ["Burstable, one without a CPU limit", "Burstable", { containers: [half, noCpuLimit] }],
    ["Burstable, a limit of 0 is none", "Burstable", { containers: [half, container({ limits: { memory: "0" } })] }],
    [
      "Burstable, an init container without limits",
      "Burstable",
      { initContainers: [container({})], containers: [half] },
    ],
    [
      "an init container beside a sidecar needs more than the app containers",
      "Guaranteed",
      {
        initContainers: [container(equal("500m", "100Mi"), sidecar), container(equal("4", "50Mi"))],
        containers: [container(equal("1", "1Gi"))],
      },
    ],
    [
      "overhead comes on top of requests and limits",
      "Guaranteed",
      { containers: [container(equal("1", "1Gi"))], overhead: { cpu: "250m", memory: "120Mi" } },
    ],
    [
      "the pod's own resources replace those of its containers",
      "Burstable",
      {
        containers: [half, container({})],
        resources: { requests: { cpu: "2", memory: "1Gi" }, limits: { cpu: "3", memory: "2Gi" } },
      },
    ],
    [
      "a limit of the pod for memory only, and CPU limits of all containers",
      "Burstable",
      { containers: [half], resources: { requests: { memory: "64Mi" }, limits: { memory: "2Gi" } } },
    ],
    [
      "huge pages of one size",
      "Guaranteed",
      {
        containers: [
          container({
            requests: { cpu: "1", memory: "1Gi", "hugepages-2Mi": "4Mi" },
            limits: { cpu: "1", memory: "1Gi", "hugepages-2Mi": "4Mi" },
          }),
        ],
      },
      { hugePageSizes: [2 ** 21, 2 ** 30] },
    ],
  ];
  expect(table(rows, { hugePageSizes: [] })).toMatchInlineSnapshot(`
    "
    BestEffort:
      cpu.weight=1, cpu.max=max 100000, memory.max=max, pids.max=max
    BestEffort with overhead keeps the smallest weight and no limits:
      cpu.weight=1, cpu.max=max 100000, memory.max=max, pids.max=max
    Guaranteed:
      cpu.weight=59, cpu.max=150000 100000, memory.max=1342177280, pids.max=max
    Burstable, all containers limited:
      cpu.weight=39, cpu.max=200000 100000, memory.max=268435456, pids.max=max
    Burstable, one without a CPU limit:
      cpu.weight=30, cpu.max=max 100000, memory.max=1207959552, pids.max=max
    Burstable, a limit of 0 is none:
      cpu.weight=20, cpu.max=max 100000, memory.max=max, pids.max=max
    Burstable, an init container without limits:
      cpu.weight=20, cpu.max=max 100000, memory.max=max, pids.max=max
    an init container beside a sidecar needs more than the app containers:
      cpu.weight=176, cpu.max=450000 100000, memory.max=1178599424, pids.max=max
    overhead comes on top of requests and limits:
      cpu.weight=49, cpu.max=125000 100000, memory.max=1199570944, pids.max=max
    the pod's own resources replace those of its containers:
      cpu.weight=79, cpu.max=300000 100000, memory.max=2147483648, pids.max=max
    a limit of the pod for memory only, and CPU limits of all containers:
      cpu.weight=20, cpu.max=100000 100000, memory.max=2147483648, pids.max=max
    huge pages of one size:
      cpu.weight=39, cpu.max=100000 100000, memory.max=1073741824, pids.max=max, hugetlb.2MB.max=4194304, hugetlb.1GB.max=0
    "
  `);
});

test("the limits at the edges of what the kernel accepts", () => {
  const cpu = (requests: string, limits = requests) => ({
    containers: [container({ requests: { cpu: requests }, limits: { cpu: limits, memory: "1" } })],
  });
  const rows: readonly Row[] = [
    ["1m is the smallest weight and 1 ms", "Burstable", cpu("1m")],
    ["9m is rounded up to 1 ms", "Burstable", cpu("9m")],
    ["10m is exactly 1 ms", "Burstable", cpu("10m")],
    ["11m is more", "Burstable", cpu("11m")],
    ["256 CPUs have the largest weight", "Burstable", cpu("256")],
    ["so have 1000", "Burstable", cpu("1000")],
    ["the largest quota of the kernel", "Burstable", cpu("1", "175921860444m")],
    ["a larger one is none", "Burstable", cpu("1", "175921860445m")],
    ["memory beyond 64 bits is no limit", "Burstable", { containers: [container({ limits: { memory: "1000E" } })] }],
    ["a fraction of a byte is a byte", "Burstable", { containers: [container({ limits: { memory: "1500m" } })] }],
    ["without cpuCFSQuota a quota is none", "Burstable", cpu("1"), { cpuCFSQuota: false }],
    ["another period", "Burstable", cpu("1"), { cpuCFSQuotaPeriodMs: 5 }],
    ["another period does not matter without a limit", "BestEffort", cpu("0"), { cpuCFSQuotaPeriodMs: 5 }],
    ["podPidsLimit", "BestEffort", cpu("0"), { podPidsLimit: 100 }],
    ["podPidsLimit of 0", "BestEffort", cpu("0"), { podPidsLimit: 0 }],
    ["the largest podPidsLimit", "BestEffort", cpu("0"), { podPidsLimit: 4_194_303 }],
    ["the kernel's own limit", "BestEffort", cpu("0"), { podPidsLimit: 4_194_304 }],
  ];
  expect(table(rows, { hugePageSizes: [] })).toMatchInlineSnapshot(`
    "
    1m is the smallest weight and 1 ms:
      cpu.weight=1, cpu.max=1000 100000, memory.max=1, pids.max=max
    9m is rounded up to 1 ms:
      cpu.weight=1, cpu.max=1000 100000, memory.max=1, pids.max=max
    10m is exactly 1 ms:
      cpu.weight=1, cpu.max=1000 100000, memory.max=1, pids.max=max
    11m is more:
      cpu.weight=1, cpu.max=1100 100000, memory.max=1, pids.max=max
    256 CPUs have the largest weight:
      cpu.weight=10000, cpu.max=25600000 100000, memory.max=1, pids.max=max
    so have 1000:
      cpu.weight=10000, cpu.max=100000000 100000, memory.max=1, pids.max=max
    the largest quota of the kernel:
      cpu.weight=39, cpu.max=17592186044400 100000, memory.max=1, pids.max=max
    a larger one is none:
      cpu.weight=39, cpu.max=max 100000, memory.max=1, pids.max=max
    memory beyond 64 bits is no limit:
      cpu.weight=1, cpu.max=max 100000, memory.max=max, pids.max=max
    a fraction of a byte is a byte:
      cpu.weight=1, cpu.max=max 100000, memory.max=2, pids.max=max
    without cpuCFSQuota a quota is none:
      cpu.weight=39, cpu.max=max 100000, memory.max=1, pids.max=max
    another period:
      cpu.weight=39, cpu.max=5000 5000, memory.max=1, pids.max=max
    another period does not matter without a limit:
      cpu.weight=1, cpu.max=max 100000, memory.max=1, pids.max=max
    podPidsLimit:
      cpu.weight=1, cpu.max=max 100000, memory.max=1, pids.max=100
    podPidsLimit of 0:
      cpu.weight=1, cpu.max=max 100000, memory.max=1, pids.max=max
    the largest podPidsLimit:
      cpu.weight=1, cpu.max=max 100000, memory.max=1, pids.max=4194303
    the kernel's own limit:
      cpu.weight=1, cpu.max=max 100000, memory.max=1, pids.max=max
    "
  `);
});

test("MemoryQoS protects what a pod requests, by its class", () => {
  const tiered = { throttlingFactor: 0.9, reservationPolicy: "TieredReservation" } as const;
  const memoryQoS = { memoryQoS: tiered };
  const none = { memoryQoS: { ...tiered, reservationPolicy: "None" } } as const;
  const guaranteed = { containers: [container(equal("1", "1Gi"))] };
  const burstable = { containers: [container({ requests: { memory: "64Mi" } })], overhead: { memory: "1Mi" } };
  const rows: readonly Row[] = [
    ["off", "Guaranteed", guaranteed],
    ["None, Guaranteed", "Guaranteed", guaranteed, none],
    ["None, Burstable", "Burstable", burstable, none],
    ["TieredReservation, Guaranteed", "Guaranteed", guaranteed, memoryQoS],
    ["TieredReservation, Burstable with overhead", "Burstable", burstable, memoryQoS],
    ["TieredReservation, BestEffort", "BestEffort", { containers: [container({})] }, memoryQoS],
  ];
  const files = table(rows, { hugePageSizes: [] });
  expect(files.replaceAll(/cpu\.\w+=[^,]*, |, pids.*/g, "")).toMatchInlineSnapshot(`
    "
    off:
      memory.max=1073741824
    None, Guaranteed:
      memory.min=0, memory.low=0, memory.max=1073741824
    None, Burstable:
      memory.min=0, memory.low=0, memory.max=max
    TieredReservation, Guaranteed:
      memory.min=1073741824, memory.low=0, memory.max=1073741824
    TieredReservation, Burstable with overhead:
      memory.min=0, memory.low=68157440, memory.max=max
    TieredReservation, BestEffort:
      memory.min=0, memory.low=0, memory.max=max
    "
  `);
});
