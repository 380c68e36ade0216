import { appArmorProfileOf } from "../../../proto/kubernetes/app-armor.ts";
import { allContainers } from "../../../proto/kubernetes/containers.ts";
import { mayRestartAll } from "../container/restart-all.ts";
import { isExtendedResource } from "../node/node-resources.ts";
import type { DesiredPod, Rejection } from "../pod/desired.ts";
import { isTerminal } from "../sources/api-pod.ts";
import type { AdmittingNode } from "./admission-node.ts";
import { isNodeWanted, toleratesNode } from "./node-selection.ts";
import { type Claim, claimOf, type Occupancy } from "./node-usage.ts";
import { asksForDevices, unsupported } from "./unsupported-features.ts";

/** What an answer depends on beside the pod. */
export interface AdmissionScene {
  readonly node: AdmittingNode;
  readonly occupancy: Occupancy;
  /** The node was asked for since the pod came: what it is now is at least as new as what whoever bound the pod has seen. */
  readonly isNodeFresh: boolean;
  /** Every pod of an earlier agent was looked at: those that have ended have given their places back. */
  readonly areOthersSeen: boolean;
  /** Whether the runtime can give a container no other groups than the pod names; undefined where it does not tell. */
  readonly canLeaveOutGroups: boolean | undefined;
}

/** `later`: something is not known yet, and whoever learns it asks again. `ask`: the node has to be asked for first. */
export type Answer = "admitted" | "later" | "ask" | Rejection;

/**
 * Whether this node takes the pod. A rejection is for good, so none is given upon what may be out of date: labels that were not
 * heard, or the places of pods that may have ended while no agent ran.
 */
export function answerTo(desired: DesiredPod, scene: AdmissionScene): Answer {
  const { node, isNodeFresh, areOthersSeen } = scene;
  const isOfApi = desired.source.kind === "api";
  if (isOfApi && !node.isHeard) return "later";
  const failure = failureOf(desired, scene);
  if (failure === undefined) return "admitted";
  const { dependsOn, reason, message } = failure;
  if (dependsOn === "others" && !areOthersSeen) return "later";
  if (dependsOn === "labels" && !node.isHeard) return "later";
  if (dependsOn === "labels" && isOfApi && !isNodeFresh) return "ask";
  return { reason, message };
}

/**
 * A pod that is new to this agent, with what can be said of it at once: it has ended, or it was taken before, since nobody tells when a
 * pod has started that he has not taken; or else it waits for its answer.
 */
export function entered(desired: DesiredPod): DesiredPod {
  const { status } = desired.pod;
  if (isTerminal(status)) return { ...desired, isPlaceFree: true };
  const wasTaken = desired.source.kind === "api" && status?.startTime !== undefined;
  return wasTaken ? desired : { ...desired, admission: { kind: "awaited" } };
}

/** The order in which pods are asked about: the oldest first. Manifests have no age, and come before all; equals keep their order. */
export function byAge(a: DesiredPod, b: DesiredPod): number {
  return createdAt(a) - createdAt(b);
}

function createdAt({ pod: { metadata } }: DesiredPod): number {
  const at = Date.parse(metadata.creationTimestamp ?? "");
  return Number.isNaN(at) ? 0 : at;
}

interface Failure extends Rejection {
  readonly dependsOn: "pod" | "labels" | "taints" | "others";
}

/** The kubelet's predicates, in its order and its words; of several failures the first is told. */
function failureOf(desired: DesiredPod, scene: AdmissionScene): Failure | undefined {
  const { node, occupancy } = scene;
  const claim = claimOf(desired);
  const own = osFailure(desired) ?? groupsFailure(desired, scene);
  if (own !== undefined) return own;
  const lacks = lackingResources(claim, node, occupancy);
  const other = placementFailure(desired, claim, node, occupancy);
  const [lack] = lacks;
  const last = appArmorFailure(desired, node) ?? featureFailure(desired, node) ?? deviceFailure(desired);
  if (lack === undefined) return other ?? last;
  if (!claim.isCritical) return outOf(lack);
  // For want of resources alone no critical pod is rejected: others have to make room, as far as there are any.
  return other ?? preemptionFailure(claim, lacks, occupancy) ?? last;
}

/** Nobody hands out devices yet: a pod that the node has enough of them for would run without. One of the API waits for them. */
function deviceFailure({ pod, source }: DesiredPod): Failure | undefined {
  return source.kind !== "api" && asksForDevices(pod) ? { dependsOn: "pod", ...unsupported() } : undefined;
}

const RESTART_ALL = "RestartAllContainersOnContainerExits";

/** Where the gate of a feature is off, nodes without it are told of to schedulers, and no pod that comes all the same is taken. */
function featureFailure({ pod }: DesiredPod, { declaredFeatures }: AdmittingNode): Failure | undefined {
  if (!mayRestartAll(pod.spec) || declaredFeatures.includes(RESTART_ALL)) return undefined;
  return { dependsOn: "pod", ...unsupported([RESTART_ALL]) };
}

/** A profile that nothing here enforces would be a promise that is not kept. */
function appArmorFailure({ pod }: DesiredPod, { hasAppArmor }: AdmittingNode): Failure | undefined {
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

function osFailure({ pod: { metadata, spec } }: DesiredPod): Failure | undefined {
  if ((metadata.labels?.["kubernetes.io/os"] ?? "linux") !== "linux")
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

/** A runtime that does not know the field would add the groups of the image all the same. */
function groupsFailure({ pod }: DesiredPod, { canLeaveOutGroups }: AdmissionScene): Failure | undefined {
  if (canLeaveOutGroups === true || pod.spec.securityContext?.supplementalGroupsPolicy !== "Strict") return undefined;
  return {
    dependsOn: "pod",
    reason: "SupplementalGroupsPolicyNotSupported",
    message: "SupplementalGroupsPolicy=Strict is not supported in this node",
  };
}

function placementFailure(
  { pod, source }: DesiredPod,
  { ports }: Claim,
  node: AdmittingNode,
  occupancy: Occupancy,
): Failure | undefined {
  if (!isNodeWanted(pod, node))
    return predicate("NodeAffinity", "node(s) didn't match Pod's node affinity/selector", "labels");
  if ((pod.spec.nodeName || node.nodeName) !== node.nodeName)
    return predicate("NodeName", "node(s) didn't match the requested node name", "pod");
  if (ports.some(occupancy.has))
    return predicate("NodePorts", "node(s) didn't have free ports for the requested pod ports", "others");
  if (source.kind === "api" && !toleratesNode(pod, node))
    return predicate("TaintToleration", "node(s) had taints that the pod didn't tolerate", "taints");
  return undefined;
}

function predicate(name: string, why: string, dependsOn: Failure["dependsOn"]): Failure {
  return { reason: name, message: `Predicate ${name} failed: ${why}`, dependsOn };
}

interface Lack {
  readonly resource: string;
  readonly requested: bigint;
  readonly used: bigint;
  readonly capacity: bigint;
}

const COUNTED = ["cpu", "memory", "ephemeral-storage"] as const;

/** Pods first, as the kubelet counts; a resource of devices that the node has never heard of is somebody else's to give. */
function lackingResources({ requests }: Claim, { allocatable }: AdmittingNode, occupancy: Occupancy): readonly Lack[] {
  const rest = [...requests.keys()].filter((name) => !COUNTED.some((each) => each === name)).toSorted();
  const asked = [...COUNTED, ...rest].filter((name) => !isExtendedResource(name) || allocatable.has(name));
  const pods = {
    resource: "pods",
    requested: 1n,
    used: BigInt(occupancy.pods()),
    capacity: allocatable.get("pods") ?? 0n,
  };
  const others = asked.map((resource) => ({
    resource,
    requested: requests.get(resource) ?? 0n,
    used: occupancy.amount(resource),
    capacity: allocatable.get(resource) ?? 0n,
  }));
  return [pods, ...others].filter(({ requested, used, capacity }) => requested > 0n && requested > capacity - used);
}

function outOf({ resource, requested, used, capacity }: Lack): Failure {
  return {
    dependsOn: "others",
    reason: `OutOf${resource}`,
    message: `Node didn't have enough resource: ${resource}, requested: ${requested}, used: ${used}, capacity: ${capacity}`,
  };
}

/** Even without every pod that could make room for it the critical one would not fit. */
function preemptionFailure(claim: Claim, lacks: readonly Lack[], occupancy: Occupancy): Failure | undefined {
  const victims = [...occupancy.claims()].filter((other) => mayPreempt(claim, other));
  const missing = lacks.flatMap(({ resource, requested, used, capacity }) => {
    const given = victims.reduce((sum, { requests }) => sum + amountIn(requests, resource), 0n);
    const quantity = requested - (capacity - used) - given;
    return quantity > 0n ? [`(res: ${resource}, q: ${quantity}), `] : [];
  });
  if (missing.length === 0) return undefined;
  const why = `no set of running pods found to reclaim resources: [${missing.join("")}]`;
  const what =
    "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of pods to preempt";
  return { dependsOn: "others", reason: "UnexpectedAdmissionError", message: `${what}: ${why}` };
}

/** A pod is one of the pods that a node has places for. */
function amountIn(requests: Claim["requests"], resource: string): bigint {
  return resource === "pods" ? 1n : (requests.get(resource) ?? 0n);
}

function mayPreempt(claim: Claim, other: Claim): boolean {
  if (!other.isCritical) return true;
  return claim.priority !== undefined && other.priority !== undefined && claim.priority > other.priority;
}
