import { expect, test } from "bun:test";
import { nodeSettings, observedMachine } from "../../../test/fakes/observed-node.ts";
import { allocatableOf, isExtendedResource, machineCapacity } from "./node-resources.ts";
import type { NodeSettings } from "./node-settings.ts";
import type { ObservedMachine } from "./observed-node.ts";

const MI = 2 ** 20;

/** `name capacity → allocatable`, one resource after the other. */
function table(machine: Partial<ObservedMachine>, settings: Partial<NodeSettings>): string {
  const all = { ...nodeSettings, ...settings };
  const capacity = machineCapacity({ ...observedMachine, ...machine }, all);
  const allocatable = allocatableOf(capacity, all);
  return Object.entries(capacity)
    .map(([name, amount]) => `${name} ${amount}${allocatable[name] === amount ? "" : ` → ${allocatable[name]}`}`)
    .join(", ");
}

const rows: readonly (readonly [string, Partial<ObservedMachine>, Partial<NodeSettings>])[] = [
  ["defaults", {}, {}],
  ["nothing is reserved", {}, { evictionHard: {} }],
  ["an odd memory size", { memoryBytes: 25_239_052_288 }, {}],
  [
    "systemReserved and kubeReserved",
    {},
    {
      systemReserved: { cpu: "500m", memory: "1Gi", pid: "100" },
      kubeReserved: { cpu: "1", "ephemeral-storage": "4Gi" },
    },
  ],
  ["more reserved than there is", {}, { systemReserved: { memory: "9Gi", cpu: "5" } }],
  [
    "reservedSystemCPUs replaces both CPU reservations",
    {},
    { reservedSystemCPUs: "0,2-3", kubeReserved: { cpu: "2" } },
  ],
  ["podsPerCore", {}, { podsPerCore: 10 }],
  ["podsPerCore above maxPods", {}, { podsPerCore: 100 }],
  ["thresholds of 0% and 100%", {}, { evictionHard: { "memory.available": "0%", "nodefs.available": "100%" } }],
  ["a memory threshold in percent", {}, { evictionHard: { "memory.available": "12.5%" } }],
  [
    "huge pages reduce allocatable memory",
    {
      hugePages: [
        { pageBytes: 2 * MI, totalBytes: 512 * MI },
        { pageBytes: 1024 * MI, totalBytes: 0 },
      ],
    },
    { evictionHard: {} },
  ],
  ["storage of unknown size", { storageBytes: undefined }, {}],
  ["no local storage isolation", {}, { localStorageCapacityIsolation: false }],
  [
    "unreadable quantities count as zero",
    {},
    { systemReserved: { cpu: "much" }, evictionHard: { "memory.available": "x%", "nodefs.available": "?" } },
  ],
];

test("capacity and allocatable follow from the machine and the reservations", () => {
  const lines = rows.map(([name, machine, settings]) => `${name}:\n  ${table(machine, settings)}`).join("\n");
  expect(`\n${lines}\n`).toMatchInlineSnapshot(`
    "
    defaults:
      cpu 4, ephemeral-storage 64Gi → 61847528960, memory 8Gi → 8092Mi, pods 110
    nothing is reserved:
      cpu 4, ephemeral-storage 64Gi, memory 8Gi, pods 110
    an odd memory size:
      cpu 4, ephemeral-storage 64Gi → 61847528960, memory 24647512Ki → 24545112Ki, pods 110
    systemReserved and kubeReserved:
      cpu 4 → 2500m, ephemeral-storage 64Gi → 57552561664, memory 8Gi → 7068Mi, pods 110
    more reserved than there is:
      cpu 4 → 0, ephemeral-storage 64Gi → 61847528960, memory 8Gi → 0, pods 110
    reservedSystemCPUs replaces both CPU reservations:
      cpu 4 → 1, ephemeral-storage 64Gi → 61847528960, memory 8Gi → 8092Mi, pods 110
    podsPerCore:
      cpu 4, ephemeral-storage 64Gi → 61847528960, memory 8Gi → 8092Mi, pods 40
    podsPerCore above maxPods:
      cpu 4, ephemeral-storage 64Gi → 61847528960, memory 8Gi → 8092Mi, pods 110
    thresholds of 0% and 100%:
      cpu 4, ephemeral-storage 64Gi, memory 8Gi, pods 110
    a memory threshold in percent:
      cpu 4, ephemeral-storage 64Gi, memory 8Gi → 7Gi, pods 110
    huge pages reduce allocatable memory:
      cpu 4, ephemeral-storage 64Gi, hugepages-2Mi 512Mi, hugepages-1Gi 0, memory 8Gi → 7680Mi, pods 110
    storage of unknown size:
      cpu 4, memory 8Gi → 8092Mi, pods 110
    no local storage isolation:
      cpu 4, memory 8Gi → 8092Mi, pods 110
    unreadable quantities count as zero:
      cpu 4, ephemeral-storage 64Gi, memory 8Gi, pods 110
    "
  `);
});

test("only names with a domain other than Kubernetes' own are extended resources", () => {
  const names = ["cpu", "example.com/dongle", "kubernetes.io/x", "a.kubernetes.io/x", "hugepages-2Mi", "requests.a/b"];
  expect(names.filter(isExtendedResource)).toEqual(["example.com/dongle"]);
});
