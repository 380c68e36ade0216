import { nonEphemeralContainers } from "../../../proto/kubernetes/containers.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { podRequests } from "../../../proto/kubernetes/pod-resources.ts";
import { toAmounts } from "../../../proto/kubernetes/resource-list.ts";
import { mayUseSwap } from "../../../proto/kubernetes/swap.ts";
import { type AdmissionInput, admitPod } from "../admission/admission.ts";
import type { DesiredPod } from "../pod/desired.ts";
import { qosClassOf } from "../status/qos.ts";
import { areSameAmounts, areSameResources, type PodAllocation, resourcesOf, withAllocated } from "./allocation.ts";

/** What the node can resize. */
export interface ResizeSettings {
  /** The feature gate `InPlacePodLevelResourcesVerticalScaling`. */
  readonly resizesPodLevel: boolean;
  /** Containers may use swap: `LimitedSwap` on a node whose kernel limits it. */
  readonly hasLimitedSwap: boolean;
  /** The resources whose manager has the policy `static`, which gives Guaranteed pods CPUs or memory of their own. */
  readonly staticManagers: readonly ("cpu" | "memory")[];
}

/**
 * Whether the node gives a pod what its spec requests now.
 *
 * - `none`: it has that already, and a resize that was pending is withdrawn;
 * - `accepted`: the node allocates it, and begins to carry it out;
 * - `Deferred`: there is no room at present; the node tries again;
 * - `Infeasible`: this node will never do it;
 * - `wait`: a fact is missing; what was decided before stays.
 */
export type ResizeVerdict =
  | { readonly kind: "none" | "accepted" | "wait" }
  | { readonly kind: "Deferred" | "Infeasible"; readonly message: string };

/** What a resize depends on besides the pod. The usage is that of the other pods, with what is allocated to them. */
export interface ResizeInput {
  readonly allocation: PodAllocation;
  readonly admission: AdmissionInput;
  readonly settings: ResizeSettings;
}

/**
 * Decides on the resources that a pod's spec requests. A resize is accepted if the node could admit the pod with it. It
 * is Infeasible if the node cannot resize such a pod at all, or if it requests more CPU or memory than the whole node
 * has. Otherwise it is Deferred, with the kubelet's text. The kubelet (1.36) defers the one beyond the node for ever.
 * Rule: canAdmitPod with podResizesAdmitHandler; for the node's capacity, canResizePod of kubelets before 1.36.
 */
export function decideResize(desired: DesiredPod, { allocation, admission, settings }: ResizeInput): ResizeVerdict {
  const { pod } = desired;
  if (areSameResources(resourcesOf(pod.spec), allocation.allocated)) return { kind: "none" };
  const message = limitation(pod, allocation, settings) ?? capacityProblem(pod, admission);
  if (message !== undefined) return { kind: "Infeasible", message };
  // Not with what it has, but with what its spec requests.
  const { allocation: _, ...requested } = desired;
  const result = admitPod(requested, admission);
  if (result === "admitted") return { kind: "accepted" };
  if (result === "wait" || result === "readNode") return { kind: "wait" };
  return { kind: "Deferred", message: result.message };
}

/** What this node cannot resize; undefined if nothing stands against it. */
function limitation(
  pod: Pod,
  { allocated }: PodAllocation,
  { resizesPodLevel, hasLimitedSwap, staticManagers }: ResizeSettings,
): string | undefined {
  const before = withAllocated(pod, allocated);
  if (hasLimitedSwap && changesMemoryWithSwap(before, pod))
    return "In-place resize of containers with swap is not supported.";
  const { requests, limits } = pod.spec.resources ?? {};
  const isSamePodLevel =
    areSameAmounts(requests, allocated.pod?.requests) && areSameAmounts(limits, allocated.pod?.limits);
  if (!isSamePodLevel && !resizesPodLevel) return "InPlacePodLevelResourcesVerticalScaling is disabled";
  if (qosClassOf(pod) !== "Guaranteed") return undefined;
  const names = { cpu: "CPU", memory: "Memory" };
  const fixed = (["cpu", "memory"] as const).find(
    (resource) => staticManagers.includes(resource) && changesRequest(before, pod, resource),
  );
  return fixed && `Resize is infeasible for Guaranteed Pods alongside ${names[fixed]} Manager policy "static"`;
}

/** A container's swap follows from its memory request, and does not change while it runs. */
function changesMemoryWithSwap(before: Pod, after: Pod): boolean {
  const [qosBefore, qosAfter] = [qosClassOf(before), qosClassOf(after)];
  return pairs(before, after).some(
    ([old, now]) =>
      !areSameAmounts(requestOf(old, "memory"), requestOf(now, "memory")) &&
      !restartsFor(old, "memory") &&
      (mayUseSwap(before, old, qosBefore) || mayUseSwap(after, now, qosAfter)),
  );
}

function changesRequest(before: Pod, after: Pod, resource: "cpu" | "memory"): boolean {
  return pairs(before, after).some(([old, now]) => !areSameAmounts(requestOf(old, resource), requestOf(now, resource)));
}

/** Each container before and after the resize. A resize adds and removes none. */
function pairs(before: Pod, after: Pod): readonly (readonly [Container, Container])[] {
  const now = new Map(nonEphemeralContainers(after.spec).map((each) => [each.name, each]));
  return nonEphemeralContainers(before.spec).map((old) => [old, now.get(old.name) ?? old]);
}

/** A request of one resource; 0 and none are the same. */
function requestOf({ resources }: Container, resource: "cpu" | "memory"): Readonly<Record<string, string>> {
  return { [resource]: resources?.requests?.[resource] ?? "0" };
}

/** Whether the container restarts to get another amount of a resource. */
export function restartsFor({ resizePolicy = [] }: Container, resource: "cpu" | "memory"): boolean {
  return resizePolicy.find(({ resourceName }) => resourceName === resource)?.restartPolicy === "RestartContainer";
}

/** Memory first, as in kubelets before 1.36. */
function capacityProblem({ spec }: Pod, { node: { allocatable } }: AdmissionInput): string | undefined {
  const requests = toAmounts(podRequests(spec));
  const isTooMuch = (resource: string) => (requests.get(resource) ?? 0n) > (allocatable.get(resource) ?? 0n);
  const resource = ["memory", "cpu"].find(isTooMuch);
  if (resource === undefined) return undefined;
  const [requested, capacity] = [requests.get(resource), allocatable.get(resource) ?? 0n];
  return `Node didn't have enough capacity: ${resource}, requested: ${requested}, capacity: ${capacity}`;
}
