import { expect, test } from "bun:test";
import { nodeSettings } from "../../../test/fakes/observed-node.ts";
import { kubepodsLimits, type NodeCgroupInput, reservedCgroups } from "./node-cgroups.ts";

const input: NodeCgroupInput = {
  capacity: { cpu: "4", memory: "8Gi", "ephemeral-storage": "64Gi", pid: "32768" },
  onlineCpus: "0-3",
  hugePageSizes: [2 ** 21],
  memoryQoS: false,
};
type Settings = Parameters<typeof kubepodsLimits>[1];
const settings: Settings = { ...nodeSettings, enforceNodeAllocatable: ["pods"] };
const reserved = {
  systemReserved: { cpu: "500m", memory: "1Gi", pid: "1000" },
  kubeReserved: { cpu: "500m", memory: "512Mi", pid: "2000" },
};

test("kubepods has what the machine has, less what is reserved", () => {
  const rows: readonly (readonly [string, Partial<Settings>, Partial<NodeCgroupInput>?])[] = [
    ["nothing reserved: the eviction threshold is not subtracted", {}],
    ["both reservations", reserved],
    ["the same, while pods are not enforced", { ...reserved, enforceNodeAllocatable: ["none"] }],
    ["enforced for the system alone", { ...reserved, enforceNodeAllocatable: ["system-reserved"] }],
    ["reserved CPUs", { ...reserved, reservedSystemCPUs: "0-2" }],
    ["huge pages do not reduce the memory", {}, { capacity: { ...input.capacity, "hugepages-2Mi": "4Gi" } }],
    ["all memory reserved is no limit", { systemReserved: { memory: "8Gi" } }],
    ["all processes reserved leave one", { systemReserved: { pid: "32768" } }],
    ["all CPUs reserved leave the smallest weight", { systemReserved: { cpu: "4" } }],
    ["the number of processes is unknown", {}, { capacity: { cpu: "2", memory: "1Gi" } }],
    ["the CPUs are unknown", {}, { onlineCpus: "" }],
    ["no huge pages", {}, { hugePageSizes: [] }],
  ];
  const lines = rows.map(
    ([sentence, more, other]) =>
      `${sentence}:\n  ${JSON.stringify(kubepodsLimits({ ...input, ...other }, { ...settings, ...more }))}`,
  );
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    nothing reserved: the eviction threshold is not subtracted:
      {"cpuWeight":157,"memoryMax":8589934592,"pidsMax":32768,"cpus":"0-3","hugetlbMax":{"2MB":4611686018427388000}}
    both reservations:
      {"cpuWeight":118,"memoryMax":6979321856,"pidsMax":29768,"cpus":"0-3","hugetlbMax":{"2MB":4611686018427388000}}
    the same, while pods are not enforced:
      {"cpuWeight":157,"memoryMax":8589934592,"pidsMax":32768,"cpus":"0-3","hugetlbMax":{"2MB":4611686018427388000}}
    enforced for the system alone:
      {"cpuWeight":157,"memoryMax":8589934592,"pidsMax":32768,"cpus":"0-3","hugetlbMax":{"2MB":4611686018427388000}}
    reserved CPUs:
      {"cpuWeight":39,"memoryMax":6979321856,"pidsMax":29768,"cpus":"0-3","hugetlbMax":{"2MB":4611686018427388000}}
    huge pages do not reduce the memory:
      {"cpuWeight":157,"memoryMax":8589934592,"pidsMax":32768,"cpus":"0-3","hugetlbMax":{"2MB":4611686018427388000}}
    all memory reserved is no limit:
      {"cpuWeight":157,"memoryMax":"max","pidsMax":32768,"cpus":"0-3","hugetlbMax":{"2MB":4611686018427388000}}
    all processes reserved leave one:
      {"cpuWeight":157,"memoryMax":8589934592,"pidsMax":1,"cpus":"0-3","hugetlbMax":{"2MB":4611686018427388000}}
    all CPUs reserved leave the smallest weight:
      {"cpuWeight":1,"memoryMax":8589934592,"pidsMax":32768,"cpus":"0-3","hugetlbMax":{"2MB":4611686018427388000}}
    the number of processes is unknown:
      {"cpuWeight":79,"memoryMax":1073741824,"cpus":"0-3","hugetlbMax":{"2MB":4611686018427388000}}
    the CPUs are unknown:
      {"cpuWeight":157,"memoryMax":8589934592,"pidsMax":32768,"hugetlbMax":{"2MB":4611686018427388000}}
    no huge pages:
      {"cpuWeight":157,"memoryMax":8589934592,"pidsMax":32768,"cpus":"0-3","hugetlbMax":{}}
    "
  `);
});

test("the cgroups of the system and of Kubernetes' daemons have their reservations, where they are enforced", () => {
  const rows: readonly (readonly [string, Partial<Settings>, Partial<NodeCgroupInput>?])[] = [
    ["not enforced", reserved],
    ["the system's", { ...reserved, enforceNodeAllocatable: ["pods", "system-reserved"] }],
    ["both", { ...reserved, enforceNodeAllocatable: ["system-reserved", "kube-reserved"] }],
    ["CPU alone", { ...reserved, enforceNodeAllocatable: ["system-reserved-compressible"] }],
    ["one of each kind", { ...reserved, enforceNodeAllocatable: ["kube-reserved-compressible", "system-reserved"] }],
    ["nothing reserved", { enforceNodeAllocatable: ["kube-reserved"] }],
    ["CPU alone, and none reserved", { enforceNodeAllocatable: ["kube-reserved-compressible"] }],
    [
      "MemoryQoS protects the memory",
      { ...reserved, enforceNodeAllocatable: ["system-reserved"] },
      { memoryQoS: true },
    ],
    [
      "MemoryQoS with CPU alone",
      { ...reserved, enforceNodeAllocatable: ["system-reserved-compressible"] },
      { memoryQoS: true },
    ],
  ];
  const lines = rows.map(([sentence, more, other]) => {
    const cgroups = reservedCgroups({ ...input, ...other }, { ...settings, ...more });
    return [`${sentence}:`, ...cgroups.map(({ owner, limits }) => `  ${owner} ${JSON.stringify(limits)}`)].join("\n");
  });
  expect(`\n${lines.join("\n")}\n`).toMatchInlineSnapshot(`
    "
    not enforced:
    the system's:
      system {"cpuWeight":20,"cpus":"0-3","memoryMax":1073741824,"pidsMax":1000,"hugetlbMax":{"2MB":0}}
    both:
      system {"cpuWeight":20,"cpus":"0-3","memoryMax":1073741824,"pidsMax":1000,"hugetlbMax":{"2MB":0}}
      kube {"cpuWeight":20,"cpus":"0-3","memoryMax":536870912,"pidsMax":2000,"hugetlbMax":{"2MB":0}}
    CPU alone:
      system {"cpuWeight":20,"cpus":"0-3"}
    one of each kind:
      system {"cpuWeight":20,"cpus":"0-3","memoryMax":1073741824,"pidsMax":1000,"hugetlbMax":{"2MB":0}}
      kube {"cpuWeight":20,"cpus":"0-3"}
    nothing reserved:
      kube {"cpus":"0-3","hugetlbMax":{"2MB":0}}
    CPU alone, and none reserved:
      kube {"cpus":"0-3"}
    MemoryQoS protects the memory:
      system {"cpuWeight":20,"cpus":"0-3","memoryMax":1073741824,"pidsMax":1000,"memoryMin":1073741824,"hugetlbMax":{"2MB":0}}
    MemoryQoS with CPU alone:
      system {"cpuWeight":20,"cpus":"0-3"}
    "
  `);
});
