import { appArmorProfileOf } from "../../../proto/kubernetes/app-armor.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import { osLabel } from "../../../proto/kubernetes/well-known-names.ts";
import { mayRestartAll } from "../container/restart-all.ts";
import { isExtendedResource } from "../node/node-resources.ts";
import type { DesiredPod, Rejection } from "../pod/desired.ts";
import { adoptedAllocation } from "../resize/instances.ts";
import { previousStatusOf } from "../status/previous-status.ts";
import type { AdmissionNode } from "./admission-node.ts";
import { matchesNodeSelection, toleratesNode } from "./node-selection.ts";
import { type NodeUsage, type PodDemand, podDemandOf } from "./node-usage.ts";
import { requestsDevices, unsupportedRejection } from "./unsupported-features.ts";

/** What admission depends on besides the pod. */
export interface AdmissionInput {
  readonly node: AdmissionNode;
  readonly usage: NodeUsage;
  /** The Node was read after the pod arrived, so it is at least as new as what the scheduler saw. */
  readonly isNodeUpToDate: boolean;
  /** Every pod of an earlier agent was observed: those that have ended have released their resources. */
  readonly arePreviousPodsObserved: boolean;
  /** Whether the runtime supports `supplementalGroupsPolicy: Strict`; undefined if it does not report it. */
  readonly supportsGroupsPolicy: boolean | undefined;
}

/**
 * `wait`: a fact is missing; admission is repeated when it arrives. `readNode`: read the Node again, then repeat.
 */
export type AdmissionResult = "admitted" | "wait" | "readNode" | Rejection;

/**
 * Admits or rejects a pod. A rejection is final, so it is never based on outdated facts: labels of a Node that was not
 * read, or resources of pods that may have ended while no agent ran.
 */
export function admitPod(desired: DesiredPod, input: AdmissionInput): AdmissionResult {
  const { node, isNodeUpToDate, arePreviousPodsObserved } = input;
  const isApiPod = desired.source.kind === "api";
  if (isApiPod && !node.isKnown) return "wait";
  const failure = firstFailure(desired, input);
  if (failure === undefined) return "admitted";
  const { dependsOn, reason, message } = failure;
  if (dependsOn === "others" && !arePreviousPodsObserved) return "wait";
  if (dependsOn === "labels" && !node.isKnown) return "wait";
  if (dependsOn === "labels" && isApiPod && !isNodeUpToDate) return "readNode";
  return { reason, message };
}

/**
 * Initial admission state of a new pod: terminal pods release their resources, pods with `status.startTime` were
 * admitted by an earlier agent, all others wait.
 */
export function withInitialAdmission(desired: DesiredPod): DesiredPod {
  const { completion, startTime } = previousStatusOf(desired.pod);
  if (completion !== undefined) return { ...desired, hasReleasedResources: true };
  const wasAdmitted = desired.source.kind === "api" && startTime !== undefined;
  return wasAdmitted
    ? { ...desired, allocation: adoptedAllocation(desired.pod) }
    : { ...desired, admission: { kind: "awaited" } };
}

/** The order of admission: oldest first. Manifests have no creation time and come first; equals keep their order. */
export function byCreationTime(a: DesiredPod, b: DesiredPod): number {
  return createdAt(a) - createdAt(b);
}

function createdAt({ pod: { metadata } }: DesiredPod): number {
  const at = Date.parse(metadata.creationTimestamp ?? "");
  return Number.isNaN(at) ? 0 : at;
}

interface AdmissionFailure extends Rejection {
  readonly dependsOn: "pod" | "labels" | "taints" | "others";
}

/** The kubelet's admission checks, in its order and with its messages; the first failure is reported. */
function firstFailure(desired: DesiredPod, input: AdmissionInput): AdmissionFailure | undefined {
  const { node, usage } = input;
  const demand = podDemandOf(desired);
  const specFailure = osFailure(desired) ?? groupsFailure(desired, input);
  if (specFailure !== undefined) return specFailure;
  const insufficient = insufficientResources(demand, node, usage);
  const other = placementFailure(desired, demand, node, usage);
  const [firstInsufficient] = insufficient;
  const last = appArmorFailure(desired, node) ?? featureFailure(desired, node) ?? deviceFailure(desired);
  if (firstInsufficient === undefined) return other ?? last;
  if (!demand.isCritical) return outOfResource(firstInsufficient);
  // A critical pod is not rejected for lack of resources alone: preemption makes room, as far as there are victims.
  return other ?? preemptionFailure(demand, insufficient, usage) ?? last;
}

/**
 * Device plugins are not supported yet: an admitted pod would run without its devices. A pod of the API waits instead.
 */
function deviceFailure({ pod, source }: DesiredPod): AdmissionFailure | undefined {
  return source.kind !== "api" && requestsDevices(pod) ? { dependsOn: "pod", ...unsupportedRejection() } : undefined;
}

const RESTART_ALL = "RestartAllContainersOnContainerExits";

/** If the feature gate is off, the node does not declare the feature to schedulers and rejects pods that need it. */
function featureFailure({ pod }: DesiredPod, { declaredFeatures }: AdmissionNode): AdmissionFailure | undefined {
  if (!mayRestartAll(pod.spec) || declaredFeatures.includes(RESTART_ALL)) return undefined;
  return { dependsOn: "pod", ...unsupportedRejection([RESTART_ALL]) };
}

/** A profile that cannot be enforced must not be accepted. */
function appArmorFailure({ pod }: DesiredPod, { hasAppArmor }: AdmissionNode): AdmissionFailure | undefined {
  const ofContainers = allContainers(pod.spec).map((container) => appArmorProfileOf(pod, container));
  const profiles = [pod.spec.securityContext?.appArmorProfile, ...ofContainers];
  const isConfined = profiles.some((profile) => profile !== undefined && profile.type !== "Unconfined");
  if (hasAppArmor || !isConfined) return undefined;
  return {
    dependsOn: "pod",
    reason: "AppArmor",
    message: "Cannot enforce AppArmor: AppArmor is not enabled on the host",
  };
}

function osFailure({ pod: { metadata, spec } }: DesiredPod): AdmissionFailure | undefined {
  if ((metadata.labels?.[osLabel] ?? "linux") !== "linux")
    return {
      dependsOn: "pod",
      reason: "PodOSSelectorNodeLabelDoesNotMatch",
      message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
    };
  if ((spec.os?.name ?? "linux") !== "linux")
    return {
      dependsOn: "pod",
      reason: "PodOSNotSupported",
      message: "Failed to admit pod as the OS field doesn't match node OS",
    };
  return undefined;
}

/** A runtime without support for the field would add the groups of the image. */
function groupsFailure({ pod }: DesiredPod, { supportsGroupsPolicy }: AdmissionInput): AdmissionFailure | undefined {
  if (supportsGroupsPolicy === true || pod.spec.securityContext?.supplementalGroupsPolicy !== "Strict")
    return undefined;
  return {
    dependsOn: "pod",
    reason: "SupplementalGroupsPolicyNotSupported",
    message: "SupplementalGroupsPolicy=Strict is not supported in this node",
  };
}

function placementFailure(
  { pod, source }: DesiredPod,
  { ports }: PodDemand,
  node: AdmissionNode,
  usage: NodeUsage,
): AdmissionFailure | undefined {
  if (!matchesNodeSelection(pod, node))
    return predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", "labels");
  if ((pod.spec.nodeName || node.nodeName) !== node.nodeName)
    return predicate("NodeName", "node(s) didn't match the requested node name", "pod");
  if (ports.some(usage.isPortUsed))
    return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports", "others");
  if (source.kind === "api" && !toleratesNode(pod, node))
    return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate", "taints");
  return undefined;
}

function predicate(name: string, why: string, dependsOn: AdmissionFailure["dependsOn"]): AdmissionFailure {
  return { reason: name, message: `Predicate ${name} failed: ${why}`, dependsOn };
}

interface InsufficientResource {
  readonly resource: string;
  readonly requested: bigint;
  readonly used: bigint;
  readonly capacity: bigint;
}

const NODE_RESOURCES = ["cpu", "memory", "ephemeral-storage"] as const;

/**
 * Pods first, as with the kubelet. A device resource that the node has never had is skipped: others may manage it.
 */
function insufficientResources(
  { requests }: PodDemand,
  { allocatable }: AdmissionNode,
  usage: NodeUsage,
): readonly InsufficientResource[] {
  const rest = [...requests.keys()].filter((name) => !NODE_RESOURCES.some((each) => each === name)).toSorted();
  const asked = [...NODE_RESOURCES, ...rest].filter((name) => !isExtendedResource(name) || allocatable.has(name));
  const pods = {
    resource: "pods",
    requested: 1n,
    used: BigInt(usage.pods()),
    capacity: allocatable.get("pods") ?? 0n,
  };
  const others = asked.map((resource) => ({
    resource,
    requested: requests.get(resource) ?? 0n,
    used: usage.amount(resource),
    capacity: allocatable.get(resource) ?? 0n,
  }));
  return [pods, ...others].filter(({ requested, used, capacity }) => requested > 0n && requested > capacity - used);
}

function outOfResource({ resource, requested, used, capacity }: InsufficientResource): AdmissionFailure {
  return {
    dependsOn: "others",
    reason: `OutOf${resource}`,
    message: `Node didn't have enough resource: ${resource}, requested: ${requested}, used: ${used}, capacity: ${capacity}`,
  };
}

/** Fails if the critical pod would not fit even after all possible victims are preempted. */
function preemptionFailure(
  demand: PodDemand,
  insufficient: readonly InsufficientResource[],
  usage: NodeUsage,
): AdmissionFailure | undefined {
  const victims = [...usage.demands()].filter((other) => mayPreempt(demand, other));
  const missing = insufficient.flatMap(({ resource, requested, used, capacity }) => {
    const reclaimable = victims.reduce((sum, { requests }) => sum + amountIn(requests, resource), 0n);
    const quantity = requested - (capacity - used) - reclaimable;
    return quantity > 0n ? [`(res: ${resource}, q: ${quantity}), `] : [];
  });
  if (missing.length === 0) return undefined;
  const why = `no set of running pods found to reclaim resources: [${missing.join("")}]`;
  const what =
    "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt";
  return { dependsOn: "others", reason: "UnexpectedAdmissionError", message: `${what}: ${why}` };
}

/** Each pod counts as one of the node's `pods`. */
function amountIn(requests: PodDemand["requests"], resource: string): bigint {
  return resource === "pods" ? 1n : (requests.get(resource) ?? 0n);
}

function mayPreempt(demand: PodDemand, other: PodDemand): boolean {
  if (!other.isCritical) return true;
  return demand.priority !== undefined && other.priority !== undefined && demand.priority > other.priority;
}
