import type { NodeStatus, Quantity as QuantityText } from "../../../proto/kubernetes/gen/types.ts";
import {
  addQuantities,
  compareQuantities,
  formatQuantity,
  parseQuantity,
  type Quantity,
  subtractQuantities,
} from "../../../proto/kubernetes/quantity.ts";
import { readQuantity, thresholdAmount } from "./eviction-thresholds.ts";
import type { NodeSettings } from "./node-settings.ts";
import type { ObservedMachine } from "./observed-node.ts";

export type ResourceList = Readonly<Record<string, QuantityText>>;

type ResourceMachine = Pick<ObservedMachine, "cpuCount" | "memoryBytes" | "hugePages" | "storageBytes">;

export type ResourceSettings = Pick<
  NodeSettings,
  | "maxPods"
  | "podsPerCore"
  | "localStorageCapacityIsolation"
  | "systemReserved"
  | "kubeReserved"
  | "reservedSystemCPUs"
  | "evictionHard"
>;

const zero: Quantity = { mantissa: 0n, exponent: 0, format: "DecimalSI" };
const HUGE_PAGES = "hugepages-";

/** What the node has and gives: what the machine has, over what `before` says of resources that others tell of. */
export function nodeResources(
  machine: ResourceMachine,
  before: Pick<NodeStatus, "capacity" | "allocatable">,
  settings: ResourceSettings,
): { readonly capacity: ResourceList; readonly allocatable: ResourceList } {
  const capacity: ResourceList = { ...before.capacity, ...machineCapacity(machine, settings) };
  const others = othersAllocatable(before.allocatable ?? {}, capacity);
  return { capacity, allocatable: { ...others, ...allocatableOf(capacity, settings) } };
}

/** A resource of devices that is in no capacity any more cannot be had. */
function othersAllocatable(before: ResourceList, capacity: ResourceList): ResourceList {
  return Object.fromEntries(
    Object.entries(before).filter(([name]) => Object.hasOwn(capacity, name) || !isExtendedResource(name)),
  );
}

/** What the machine has, in the API's words. */
export function machineCapacity(machine: ResourceMachine, settings: ResourceSettings): ResourceList {
  const { cpuCount, memoryBytes, hugePages, storageBytes } = machine;
  const { maxPods, podsPerCore, localStorageCapacityIsolation } = settings;
  const storage = localStorageCapacityIsolation && storageBytes !== undefined ? bytes(storageBytes) : undefined;
  return {
    cpu: String(cpuCount),
    ...(storage === undefined ? {} : { "ephemeral-storage": storage }),
    ...Object.fromEntries(
      hugePages.map((pages) => [`${HUGE_PAGES}${bytes(pages.pageBytes)}`, bytes(pages.totalBytes)]),
    ),
    memory: bytes(memoryBytes),
    pods: String(podsPerCore > 0 ? Math.min(maxPods, cpuCount * podsPerCore) : maxPods),
  };
}

/**
 * What pods may have of a capacity: less what is reserved, never below nothing. Memory is less by all huge pages too, since they are
 * taken out of it. Resources that nobody reserves anything of, those of others included, are there in full.
 */
export function allocatableOf(capacity: ResourceList, settings: ResourceSettings): ResourceList {
  const reserved = reservations(capacity, settings);
  const left = Object.fromEntries(
    Object.entries(capacity).map(([name, text]) => {
      const reservation = reserved[name];
      return [name, reservation === undefined ? text : remainder(text, reservation)];
    }),
  );
  const huge = Object.keys(capacity).filter(isHugePages);
  const memory = huge.reduce((rest, name) => remainder(rest, readQuantity(capacity[name])), left["memory"] ?? "0");
  return left["memory"] === undefined ? left : { ...left, memory };
}

/** True for `hugepages-2Mi` and the like. Rule: IsHugePageResourceName. */
export function isHugePages(name: string): boolean {
  return name.startsWith(HUGE_PAGES);
}

/** Resources of devices and of administrators, such as `example.com/dongle`. Rule: IsExtendedResourceName, but for the syntax. */
export function isExtendedResource(name: string): boolean {
  return name.includes("/") && !name.includes("kubernetes.io/") && !name.startsWith("requests.");
}

function reservations(capacity: ResourceList, settings: ResourceSettings): Readonly<Record<string, Quantity>> {
  const { systemReserved, kubeReserved, reservedSystemCPUs, evictionHard } = settings;
  const cpus = cpuListSize(reservedSystemCPUs);
  const system = cpus > 0 ? { ...systemReserved, cpu: String(cpus) } : systemReserved;
  const kube = cpus > 0 ? { ...kubeReserved, cpu: "0" } : kubeReserved;
  const eviction: Readonly<Record<string, string | undefined>> = {
    memory: evictionHard["memory.available"],
    "ephemeral-storage": evictionHard["nodefs.available"],
  };
  return Object.fromEntries(
    ["cpu", "memory", "ephemeral-storage"].map((name) => {
      const parts = [
        readQuantity(system[name]),
        readQuantity(kube[name]),
        thresholdAmount(eviction[name], readQuantity(capacity[name])),
      ];
      return [name, parts.reduce(addQuantities, zero)];
    }),
  );
}

/** How many CPUs a list such as `0-3,8` names. */
function cpuListSize(list: string): number {
  const cpus = new Set<number>();
  for (const part of list.split(",")) {
    const [, first, last = first] = /^\s*(\d{1,6})(?:-(\d{1,6}))?\s*$/.exec(part) ?? [];
    if (first === undefined) continue;
    for (let cpu = Number(first); cpu <= Number(last); cpu += 1) cpus.add(cpu);
  }
  return cpus.size;
}

function remainder(text: QuantityText, taken: Quantity): QuantityText {
  const left = subtractQuantities(readQuantity(text), taken);
  return compareQuantities(left, zero) < 0 ? "0" : formatQuantity(left);
}

function bytes(count: number): QuantityText {
  return formatQuantity({ ...parseQuantity(Math.max(0, Math.trunc(count))), format: "BinarySI" });
}
