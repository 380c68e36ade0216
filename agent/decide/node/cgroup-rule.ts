import { type CgroupName, kubepods, qosParents } from "../../../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import { countsOnNode } from "../admission/node-usage.ts";
import { describeLimits, missingLimits } from "../cgroups/limit-differences.ts";
import { kubepodsLimits, type NodeCgroupInput, type ReservedCgroup, reservedCgroups } from "../cgroups/node-cgroups.ts";
import { qosCgroupLimits, qosRequestsOf } from "../cgroups/qos-cgroups.ts";
import { normal, type PodEvent, warning } from "../events/pod-event.ts";
import { withAllocated } from "../resize/allocation.ts";
import type { NodeRule, NodeRuleInput } from "./node.ts";
import type { NodeAction } from "./node-action.ts";
import { machineCapacity } from "./node-resources.ts";
import type { NodeSettings } from "./node-settings.ts";
import type { ObservedMachine } from "./observed-node.ts";

/** A cgroup above those of pods. */
export type NodeCgroup =
  /** The agent makes it; its name is below `cgroupRoot`. */
  | { readonly of: "own"; readonly name: CgroupName }
  /** It belongs to the operating system or to Kubernetes' daemons; its path is the configured one. */
  | { readonly of: "reserved"; readonly owner: ReservedCgroup["owner"]; readonly path: string };

interface CgroupTarget {
  readonly cgroup: NodeCgroup;
  readonly limits: CgroupLimits;
}

interface CgroupRuleMemory {
  /** The limits that the rule requested last, and when these changed. */
  readonly targets: readonly CgroupTarget[];
  readonly changedAt: number;
  /** The keys of the cgroups whose enforcement has its event. */
  readonly enforced: readonly string[];
}

/** A hundred pods that start at once change the weight of their class a hundred times. */
const MIN_CHANGE_INTERVAL_MS = 1_000;

/**
 * Keeps the limits of the cgroups above those of pods: of kubepods, of the QoS classes, and of enforced reservations. The
 * weights of the classes follow the pods. A limit that another program has changed is written again. When kubepods and the
 * reserved cgroups have their limits for the first time since the agent started, an event says so. Rule: the kubelet's
 * qosContainerManager.UpdateCgroups and enforceNodeAllocatableCgroups.
 */
export const cgroupRule: NodeRule<CgroupRuleMemory> = {
  name: "cgroups",
  emptyMemory: { targets: [], changedAt: Number.NEGATIVE_INFINITY, enforced: [] },
  decide(input, memory) {
    const { observed, now } = input;
    if (observed.cgroups === undefined) return {};
    const wanted = cgroupTargets(input);
    const isChanged = JSON.stringify(wanted) !== JSON.stringify(memory.targets);
    const dueAt = memory.changedAt + MIN_CHANGE_INTERVAL_MS;
    const isTooSoon = isChanged && now < dueAt;
    const next = isChanged && !isTooSoon ? { ...memory, targets: wanted, changedAt: now } : memory;
    const { cgroups } = observed;
    const writes = next.targets.map((target) => writeOf(target, cgroups.get(nodeCgroupKey(target.cgroup))));
    const enforced = next.targets.filter(
      ({ cgroup }, index) => writes[index] === undefined && !next.enforced.includes(nodeCgroupKey(cgroup)),
    );
    return {
      actions: writes.filter((action) => action !== undefined),
      events: enforced.flatMap(({ cgroup }) => enforcedEvents(cgroup)),
      memory: { ...next, enforced: [...next.enforced, ...enforced.map(({ cgroup }) => nodeCgroupKey(cgroup))] },
      ...(isTooSoon && { lookAgainAt: dueAt }),
    };
  },
};

/*
 * Events of kubepods and of the reserved cgroups, with the texts of the kubelet (1.36). It has none of the QoS classes, and
 * those of kubepods also while `pods` is not enforced. Rule: its enforceNodeAllocatableCgroups.
 */

function enforcedEvents(cgroup: NodeCgroup): readonly PodEvent[] {
  const enforced = (message: string) => [normal("NodeAllocatableEnforced", message)];
  if (cgroup.of === "reserved") return enforced(`Updated limits on ${cgroup.owner} reserved cgroup ${cgroup.path}`);
  return isKubepods(cgroup) ? enforced("Updated Node Allocatable limit across pods") : [];
}

/** The events of a write that has failed with this message. */
export function enforcementFailedEvents(cgroup: NodeCgroup, message: string): readonly PodEvent[] {
  const failed = (what: string) => [warning("FailedNodeAllocatableEnforcement", `Failed to ${what}: ${message}`)];
  if (cgroup.of === "reserved") {
    const owner = cgroup.owner === "system" ? "System" : "Kube";
    return failed(`enforce ${owner} Reserved Cgroup Limits on ${JSON.stringify(cgroup.path)}`);
  }
  return isKubepods(cgroup) ? failed(`update Node Allocatable Limits ${JSON.stringify(cgroup.name)}`) : [];
}

function isKubepods(cgroup: NodeCgroup): boolean {
  return nodeCgroupKey(cgroup) === nodeCgroupKey(own(kubepods));
}

/** Identifies a cgroup among the observed ones, and names it in messages. */
export function nodeCgroupKey(cgroup: NodeCgroup): string {
  return cgroup.of === "own" ? cgroup.name.join("/") : cgroup.path;
}

/** The cgroups above those of pods whose limits are observed. */
export function nodeCgroups({ cgroupsPerQOS, reservedCgroupPaths }: CgroupRuleSettings): readonly NodeCgroup[] {
  if (!cgroupsPerQOS) return [];
  const reserved = (["system", "kube"] as const).map((owner) => reservedCgroup(owner, reservedCgroupPaths[owner]));
  return [own(kubepods), own(burstable), own(besteffort), ...reserved.filter(({ path }) => path !== "")];
}

const { Burstable: burstable, BestEffort: besteffort } = qosParents;
const own = (name: CgroupName) => ({ of: "own", name }) as const;
const reservedCgroup = (owner: ReservedCgroup["owner"], path: string) => ({ of: "reserved", owner, path }) as const;

function writeOf({ cgroup, limits }: CgroupTarget, current: CgroupLimits | undefined): NodeAction | undefined {
  if (current === undefined) return { kind: "writeCgroup", cgroup, limits, why: "it does not exist" };
  const missing = missingLimits(current, limits);
  if (missing === undefined) return undefined;
  const before = Object.fromEntries(Object.keys(missing).map((key) => [key, current[key as keyof CgroupLimits]]));
  return { kind: "writeCgroup", cgroup, limits: missing, why: `it has ${describeLimits(before)}` };
}

function cgroupTargets({ pods, areSourcesReady, observed, settings }: NodeRuleInput): readonly CgroupTarget[] {
  const input = nodeCgroupInput(observed.machine, settings);
  const qos = qosCgroupLimits(
    pods
      .filter(countsOnNode)
      .map(({ pod, allocation }) => qosRequestsOf(allocation ? withAllocated(pod, allocation.allocated) : pod)),
    { hugePageSizes: input.hugePageSizes, memoryReservationPolicy: settings.memoryReservationPolicy },
  );
  // Before all pods are known and admitted, what an earlier agent has written for them stays.
  const areAllKnown = areSourcesReady && pods.every(({ admission }) => admission?.kind !== "awaited");
  const ofPods = (name: CgroupName, limits: CgroupLimits) =>
    areAllKnown ? limits : notBelow(limits, observed.cgroups?.get(nodeCgroupKey(own(name))));
  return [
    { cgroup: own(kubepods), limits: { ...kubepodsLimits(input, settings), ...ofPods(kubepods, qos.kubepods) } },
    { cgroup: own(burstable), limits: ofPods(burstable, qos.burstable) },
    { cgroup: own(besteffort), limits: qos.besteffort },
    ...reservedCgroups(input, settings).map(({ owner, limits }) => ({
      cgroup: reservedCgroup(owner, settings.reservedCgroupPaths[owner]),
      limits,
    })),
  ];
}

/** The limits that follow the pods, at least what the cgroup has. */
function notBelow(limits: CgroupLimits, current: CgroupLimits = {}): CgroupLimits {
  const higher = (["cpuWeight", "memoryMin", "memoryLow"] as const).flatMap((field) => {
    const [wanted, found] = [limits[field], current[field]];
    return typeof wanted === "number" && typeof found === "number" && found > wanted ? [[field, found] as const] : [];
  });
  return { ...limits, ...Object.fromEntries(higher) };
}

function nodeCgroupInput(machine: ObservedMachine, settings: CgroupRuleSettings): NodeCgroupInput {
  const { hugePages, onlineCpus, maxTasks } = machine;
  return {
    capacity: {
      ...machineCapacity(machine, settings),
      ...(maxTasks !== undefined && { pid: String(maxTasks) }),
    },
    onlineCpus,
    hugePageSizes: hugePages.map(({ pageBytes }) => pageBytes),
    memoryQoS: settings.memoryReservationPolicy !== undefined,
  };
}

/** What the cgroups above those of pods depend on. */
export type CgroupRuleSettings = Pick<
  NodeSettings,
  | "cgroupsPerQOS"
  | "enforceNodeAllocatable"
  | "reservedCgroupPaths"
  | "memoryReservationPolicy"
  | "systemReserved"
  | "kubeReserved"
  | "reservedSystemCPUs"
  | "evictionHard"
  | "maxPods"
  | "podsPerCore"
  | "localStorageCapacityIsolation"
>;
