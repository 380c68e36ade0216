import { parseCpuList } from "../../../proto/cgroup/cpu-list.ts";
import type { ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import {
  addQuantities,
  compareQuantities,
  formatQuantity,
  type ParsedQuantity,
} from "../../../proto/kubernetes/values/quantity.ts";
import { readQuantity, thresholdAmount } from "./eviction-thresholds.ts";
import type { NodeSettings } from "./node-settings.ts";

export type ReservationSettings = Pick<
  NodeSettings,
  "systemReserved" | "kubeReserved" | "reservedSystemCPUs" | "evictionHard"
>;

/** The resources that can be reserved. `pid` is none of the Node's resources: only a cgroup enforces it. */
const RESERVABLE = ["cpu", "memory", "ephemeral-storage", "pid"] as const;

/** What a resource that runs short evicts pods by. */
const evictionSignals: Readonly<Record<string, string>> = {
  memory: "memory.available",
  "ephemeral-storage": "nodefs.available",
};

/**
 * What the operating system and Kubernetes' own daemons keep. `reservedSystemCPUs` replaces both reservations of CPU.
 * Rule: the kubelet's options, before it parses them.
 */
export function reservedResources({ systemReserved, kubeReserved, reservedSystemCPUs }: ReservationSettings): {
  readonly system: ResourceList;
  readonly kube: ResourceList;
} {
  const cpus = parseCpuList(reservedSystemCPUs)?.size ?? 0;
  if (cpus === 0) return { system: systemReserved, kube: kubeReserved };
  const { cpu: _replaced, ...kube } = kubeReserved;
  return { system: { ...systemReserved, cpu: String(cpus) }, kube };
}

/** What eviction keeps free of a resource whose capacity is given: its hard threshold, or nothing. */
export function evictionReservation(
  resource: string,
  capacity: ParsedQuantity,
  { evictionHard }: Pick<ReservationSettings, "evictionHard">,
): ParsedQuantity {
  return thresholdAmount(evictionHard[evictionSignals[resource] ?? ""], capacity);
}

/**
 * Why the node cannot keep its reservations, with the arithmetic and the settings; undefined if it can. `capacity` is
 * that of the machine, with `pid` where it is known; a resource without a capacity is not checked. `onlineCpus` is the
 * kernel's list, empty if it is unknown. Rule: the kubelet's validateNodeAllocatable, which leaves out pid, and getReservedCPUs.
 */
export function reservationProblem(
  capacity: ResourceList,
  onlineCpus: string,
  settings: ReservationSettings,
): string | undefined {
  const { reservedSystemCPUs } = settings;
  const online = parseCpuList(onlineCpus) ?? new Set();
  const offline = [...(parseCpuList(reservedSystemCPUs) ?? [])].filter((cpu) => online.size > 0 && !online.has(cpu));
  if (offline.length > 0)
    return `reservedSystemCPUs (${reservedSystemCPUs}) names CPUs that are not online: ${offline.join(", ")} (online: ${onlineCpus})`;
  const problems = RESERVABLE.flatMap((resource) => {
    const available = capacity[resource];
    return available === undefined ? [] : (overcommitment(resource, available, settings) ?? []);
  });
  if (problems.length === 0) return undefined;
  return `more is reserved than the machine has: ${problems.join("; ")}. Reserve less, or set a lower threshold`;
}

/** `memory 8Gi, but systemReserved 4Gi + kubeReserved 4Gi + evictionHard memory.available 100Mi = 8292Mi`. */
function overcommitment(resource: string, available: string, settings: ReservationSettings): string | undefined {
  const capacity = readQuantity(available);
  const { system, kube } = reservedResources(settings);
  const cpus = resource === "cpu" && system["cpu"] !== settings.systemReserved["cpu"];
  const signal = evictionSignals[resource] ?? "";
  const threshold = settings.evictionHard[signal] ?? "";
  const eviction = evictionReservation(resource, capacity, settings);
  const parts: readonly (readonly [setting: string, amount: ParsedQuantity])[] = [
    [cpus ? `reservedSystemCPUs ${settings.reservedSystemCPUs}:` : "systemReserved", readQuantity(system[resource])],
    ["kubeReserved", readQuantity(kube[resource])],
    [`evictionHard ${signal}${threshold.endsWith("%") ? ` ${threshold}:` : ""}`, eviction],
  ];
  const present = parts.filter(([, { mantissa }]) => mantissa !== 0n);
  const [first, ...rest] = present.map(([, amount]) => amount);
  const sum = first && rest.reduce(addQuantities, first);
  if (sum === undefined || compareQuantities(sum, capacity) <= 0) return undefined;
  const terms = present.map(([setting, amount]) => `${setting} ${formatQuantity(amount)}`);
  const total = terms.length === 1 ? "" : ` = ${formatQuantity(sum)}`;
  return `${resource} ${available}, but ${terms.join(" + ")}${total}`;
}
