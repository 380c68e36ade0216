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
  ["by default", {}, {}],
  ["nothing is reserved", {}, { evictionHard: {} }],
  ["memory of an odd size", { memoryBytes: 25_239_052_288 }, {}],
  [
    "the system and Kubernetes have their shares",
    {},
    {
      systemReserved: { cpu: "500m", memory: "1Gi", pid: "100" },
      kubeReserved: { cpu: "1", "ephemeral-storage": "4Gi" },
    },
  ],
  ["more is reserved than there is", {}, { systemReserved: { memory: "9Gi", cpu: "5" } }],
  ["a list of CPUs takes the place of both shares", {}, { reservedSystemCPUs: "0,2-3", kubeReserved: { cpu: "2" } }],
  ["pods per core", {}, { podsPerCore: 10 }],
  ["more pods per core than may be", {}, { podsPerCore: 100 }],
  [
    "thresholds of 0% and 100% are none",
    {},
    { evictionHard: { "memory.available": "0%", "nodefs.available": "100%" } },
  ],
  ["a threshold in percent of memory", {}, { evictionHard: { "memory.available": "12.5%" } }],
  [
    "huge pages are taken out of memory",
    {
      hugePages: [
        { pageBytes: 2 * MI, totalBytes: 512 * MI },
        { pageBytes: 1024 * MI, totalBytes: 0 },
      ],
    },
    { evictionHard: {} },
  ],
  ["storage of unknown size", { storageBytes: undefined }, {}],
  ["storage is not isolated", {}, { localStorageCapacityIsolation: false }],
  [
    "what cannot be read counts as nothing",
    {},
    { systemReserved: { cpu: "much" }, evictionHard: { "memory.available": "x%", "nodefs.available": "?" } },
  ],
];

test("what the machine has, and what pods may have of it", () => {
  const told = rows.map(([name, machine, settings]) => `${name}:\n  ${table(machine, settings)}`).join("\n");
  expect(`\n${told}\n`).toMatchInlineSnapshot(`
    "
    by default:
      cpu 4, ephemeral-storage 64Gi → 61847528960, memory 8Gi → 8092Mi, pods 110
    nothing is reserved:
      cpu 4, ephemeral-storage 64Gi, memory 8Gi, pods 110
    memory of an odd size:
      cpu 4, ephemeral-storage 64Gi → 61847528960, memory 24647512Ki → 24545112Ki, pods 110
    the system and Kubernetes have their shares:
      cpu 4 → 2500m, ephemeral-storage 64Gi → 57552561664, memory 8Gi → 7068Mi, pods 110
    more is reserved than there is:
      cpu 4 → 0, ephemeral-storage 64Gi → 61847528960, memory 8Gi → 0, pods 110
    a list of CPUs takes the place of both shares:
      cpu 4 → 1, ephemeral-storage 64Gi → 61847528960, memory 8Gi → 8092Mi, pods 110
    pods per core:
      cpu 4, ephemeral-storage 64Gi → 61847528960, memory 8Gi → 8092Mi, pods 40
    more pods per core than may be:
      cpu 4, ephemeral-storage 64Gi → 61847528960, memory 8Gi → 8092Mi, pods 110
    thresholds of 0% and 100% are none:
      cpu 4, ephemeral-storage 64Gi, memory 8Gi, pods 110
    a threshold in percent of memory:
      cpu 4, ephemeral-storage 64Gi, memory 8Gi → 7Gi, pods 110
    huge pages are taken out of memory:
      cpu 4, ephemeral-storage 64Gi, hugepages-2Mi 512Mi, hugepages-1Gi 0, memory 8Gi → 7680Mi, pods 110
    storage of unknown size:
      cpu 4, memory 8Gi → 8092Mi, pods 110
    storage is not isolated:
      cpu 4, memory 8Gi → 8092Mi, pods 110
    what cannot be read counts as nothing:
      cpu 4, ephemeral-storage 64Gi, memory 8Gi, pods 110
    "
  `);
});

test("only names with a domain that is not Kubernetes' own are of devices", () => {
  const names = ["cpu", "example.com/dongle", "kubernetes.io/x", "a.kubernetes.io/x", "hugepages-2Mi", "requests.a/b"];
  expect(names.filter(isExtendedResource)).toEqual(["example.com/dongle"]);
});
