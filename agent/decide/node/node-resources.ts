import type { NodeStatus, Quantity } from "../../../proto/kubernetes/gen/types.ts";
import {
  HUGE_PAGES_PREFIX,
  isHugePages,
  isNativeResource,
  type ResourceList,
} from "../../../proto/kubernetes/resource-list.ts";
import {
  addQuantities,
  compareQuantities,
  formatQuantity,
  type ParsedQuantity,
  parseQuantity,
  subtractQuantities,
} from "../../../proto/kubernetes/values/quantity.ts";
import { readQuantity } from "./eviction-thresholds.ts";
import type { NodeSettings } from "./node-settings.ts";
import type { ObservedMachine } from "./observed-node.ts";
import { evictionReservation, reservedResources } from "./reservations.ts";

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

const ZERO: ParsedQuantity = { mantissa: 0n, exponent: 0, format: "DecimalSI" };

/**
 * Capacity and allocatable of the node: those of the machine, over the resources in `before` that other programs
 * report.
 */
export function nodeResources(
  machine: ResourceMachine,
  before: Pick<NodeStatus, "capacity" | "allocatable">,
  settings: ResourceSettings,
): { readonly capacity: ResourceList; readonly allocatable: ResourceList } {
  const capacity: ResourceList = { ...before.capacity, ...machineCapacity(machine, settings) };
  const others = othersAllocatable(before.allocatable ?? {}, capacity);
  return { capacity, allocatable: { ...others, ...allocatableOf(capacity, settings) } };
}

/** A device resource that has no capacity any more is dropped from allocatable. */
function othersAllocatable(before: ResourceList, capacity: ResourceList): ResourceList {
  return Object.fromEntries(
    Object.entries(before).filter(([name]) => Object.hasOwn(capacity, name) || !isExtendedResource(name)),
  );
}

/** The capacity of the machine as an API resource list. */
export function machineCapacity(machine: ResourceMachine, settings: ResourceSettings): ResourceList {
  const { cpuCount, memoryBytes, hugePages, storageBytes } = machine;
  const { maxPods, podsPerCore, localStorageCapacityIsolation } = settings;
  const storage = localStorageCapacityIsolation && storageBytes !== undefined ? bytes(storageBytes) : undefined;
  return {
    cpu: String(cpuCount),
    ...(storage === undefined ? {} : { "ephemeral-storage": storage }),
    ...Object.fromEntries(
      hugePages.map((pages) => [`${HUGE_PAGES_PREFIX}${bytes(pages.pageBytes)}`, bytes(pages.totalBytes)]),
    ),
    memory: bytes(memoryBytes),
    pods: String(podsPerCore > 0 ? Math.min(maxPods, cpuCount * podsPerCore) : maxPods),
  };
}

/**
 * Allocatable: the capacity less the reservations, never below zero. Memory is also less all huge pages, since they are
 * taken out of it. Resources without reservations, those of others included, stay as they are.
 *
 * @internal
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

/**
 * Resources of device plugins and administrators, such as `example.com/dongle`. Rule: IsExtendedResourceName, without
 * its syntax check.
 */
export function isExtendedResource(name: string): boolean {
  return !isNativeResource(name) && !name.startsWith("requests.");
}

function reservations(capacity: ResourceList, settings: ResourceSettings): Readonly<Record<string, ParsedQuantity>> {
  const { system, kube } = reservedResources(settings);
  return Object.fromEntries(
    ["cpu", "memory", "ephemeral-storage"].map((name) => {
      const eviction = evictionReservation(name, readQuantity(capacity[name]), settings);
      return [name, [readQuantity(system[name]), readQuantity(kube[name]), eviction].reduce(addQuantities, ZERO)];
    }),
  );
}

function remainder(text: Quantity, subtracted: ParsedQuantity): Quantity {
  const left = subtractQuantities(readQuantity(text), subtracted);
  return compareQuantities(left, ZERO) < 0 ? "0" : formatQuantity(left);
}

function bytes(count: number): Quantity {
  return formatQuantity({ ...parseQuantity(Math.max(0, Math.trunc(count))), format: "BinarySI" });
}
