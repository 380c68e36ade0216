import { isSidecar, sidecarsOf } from "./containers.ts";
import type { Container, PodSpec, ResourceRequirements } from "./gen/types.ts";
import { isPodLevelResource, parseResourceList, type ResourceQuantities } from "./resource-list.ts";
import { addQuantities, compareQuantities, type ParsedQuantity } from "./values/quantity.ts";

/*
 * The resources of a whole pod. Its init containers run one after the other, each beside the sidecars before it; then
 * the app containers run beside all sidecars. The pod needs the most that any of these steps needs:
 *
 *   init 1         │ sidecar 2  │ sidecar 2 + init 3 │ sidecar 2 + app containers
 *   ───────────────┴────────────┴────────────────────┴───────────────────────────► time
 *
 * `spec.resources` replaces the sum of the containers, and the overhead of the runtime class comes on top.
 * Rule: component-helpers, resource.PodRequests and resource.PodLimits (KEP-753, KEP-2837, KEP-688).
 */

/** Where Kubernetes itself counts in several ways. Without options: as the scheduler does. */
export interface PodRequestsOptions {
  /** Without `spec.overhead`: a CRI sandbox has a field of its own for it. Rule: ExcludeOverhead. */
  readonly excludesOverhead?: boolean;
  /** Only the containers count, whatever `spec.resources` says. Rule: SkipPodLevelResources. */
  readonly skipsPodLevel?: boolean;
}

export interface PodLimitsOptions extends PodRequestsOptions {
  /**
   * Leaves out a resource for which any container has no limit, or one of 0: such a container may use all of the node's,
   * so that a limit of the pod would stop it too early. As with the kubelet, an init container needs none if a sidecar
   * before it has one: they are limited together. Rule: the kubelet's ResourceConfigForPod, which sets up the pod's
   * cgroup. Without this option the limits that are set are summed.
   */
  readonly requiresAllContainers?: boolean;
}

/** The requests of a pod by resource. */
export function podRequests(spec: PodSpec, options: PodRequestsOptions = {}): ResourceQuantities {
  const requestsOf = ({ requests }: ResourceRequirements) => parseResourceList(requests);
  const total = new Map(maximumOfSteps(spec, requestsOf));
  if (options.skipsPodLevel !== true) replacePodLevel(total, spec.resources?.requests);
  if (options.excludesOverhead !== true)
    for (const [name, amount] of parseResourceList(spec.overhead)) add(total, name, amount);
  return total;
}

/** The limits of a pod by resource. Overhead is added only to a resource that has a limit. */
export function podLimits(spec: PodSpec, options: PodLimitsOptions = {}): ResourceQuantities {
  const limitsOf = ({ limits }: ResourceRequirements) => parseResourceList(limits);
  const total = new Map(maximumOfSteps(spec, limitsOf));
  if (options.requiresAllContainers === true)
    for (const name of total.keys()) if (!haveAllLimit(spec, name)) total.delete(name);
  if (options.skipsPodLevel !== true) replacePodLevel(total, spec.resources?.limits);
  if (options.excludesOverhead === true) return total;
  for (const [name, amount] of parseResourceList(spec.overhead))
    if ((total.get(name)?.mantissa ?? 0n) !== 0n) add(total, name, amount);
  return total;
}

/** The most that any step of the pod needs of each resource. */
function maximumOfSteps(
  spec: PodSpec,
  amountsOf: (resources: ResourceRequirements) => ResourceQuantities,
): ResourceQuantities {
  const maximum = new Map<string, ParsedQuantity>();
  for (const step of [...initStepsOf(spec), [...sidecarsOf(spec), ...spec.containers]])
    for (const [name, amount] of sumOf(step, amountsOf)) {
      const known = maximum.get(name);
      if (known === undefined || compareQuantities(amount, known) > 0) maximum.set(name, amount);
    }
  return maximum;
}

/** Each init container with the sidecars before it. */
function initStepsOf({ initContainers = [] }: PodSpec): readonly (readonly Container[])[] {
  return initContainers.map((container, index) => [...initContainers.slice(0, index).filter(isSidecar), container]);
}

function sumOf(
  containers: readonly Container[],
  amountsOf: (resources: ResourceRequirements) => ResourceQuantities,
): ResourceQuantities {
  const sum = new Map<string, ParsedQuantity>();
  for (const { resources = {} } of containers)
    for (const [name, amount] of amountsOf(resources)) add(sum, name, amount);
  return sum;
}

function haveAllLimit(spec: PodSpec, name: string): boolean {
  const isLimited = ({ resources }: Container) =>
    (parseResourceList(resources?.limits).get(name)?.mantissa ?? 0n) !== 0n;
  return spec.containers.every(isLimited) && initStepsOf(spec).every((step) => step.some(isLimited));
}

function replacePodLevel(total: Map<string, ParsedQuantity>, podLevel: ResourceRequirements["limits"]): void {
  for (const [name, amount] of parseResourceList(podLevel)) if (isPodLevelResource(name)) total.set(name, amount);
}

function add(sum: Map<string, ParsedQuantity>, name: string, amount: ParsedQuantity): void {
  const known = sum.get(name);
  sum.set(name, known === undefined ? amount : addQuantities(known, amount));
}
