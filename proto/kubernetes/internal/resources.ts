import type { Container, Pod, PodSpec, ResourceRequirements } from "../gen/types.ts";
import { isHugePages, isNativeResource, isPodLevelResource } from "../resource-list.ts";
import {
  addInternalQuantities,
  decodeResourceList,
  type InternalQuantity,
  type InternalResourceList,
  maxInternalQuantity,
} from "./quantity.ts";

/** A text of the manifest, or a sum. */
type WrittenQuantity = string | InternalQuantity;

interface WrittenResources {
  readonly limits?: Readonly<Record<string, WrittenQuantity>>;
  readonly requests?: Readonly<Record<string, WrittenQuantity>>;
}

/**
 * The manifest with the resources that Kubernetes adds to those of containers and of the pod, as written and not yet
 * rounded. Its other fields have no defaults. Rule: SetDefaults_Pod.
 */
export function withResourceDefaults(manifest: Pod): unknown {
  const { spec } = manifest;
  const filled = {
    ...spec,
    containers: spec.containers.map(withRequests),
    ...(spec.initContainers && { initContainers: spec.initContainers.map(withRequests) }),
  };
  return {
    ...manifest,
    spec: { ...filled, ...(spec.resources && { resources: podResources(filled, spec.resources) }) },
  };
}

/** A limit without a request is the request too. */
function withRequests(container: Container): Container {
  const { limits, requests } = container.resources ?? {};
  if (limits === undefined) return container;
  return { ...container, resources: { ...container.resources, requests: { ...limits, ...requests } } };
}

function podResources(spec: PodSpec, given: ResourceRequirements): WrittenResources {
  const limits = hugePageLimits(spec, given);
  if (Object.keys(limits).length === 0) return given;
  const requests = {
    ...pick(limits, isPodLevelResource),
    ...pick(aggregate(spec, "requests"), isOvercommittable),
    ...given.requests,
  };
  return { ...given, limits, ...(Object.keys(requests).length > 0 && { requests }) };
}

/** Rule: defaultHugePagePodLimits. */
function hugePageLimits(
  spec: PodSpec,
  { limits = {}, requests = {} }: ResourceRequirements,
): Readonly<Record<string, WrittenQuantity>> {
  if (Object.keys(limits).length === 0 && Object.keys(requests).length === 0) return limits;
  const isMissing = (name: string) => isHugePages(name) && requests[name] === undefined;
  return { ...pick(aggregate(spec, "limits"), isMissing), ...limits };
}

/** Rule: IsSupportedPodLevelResource and IsOvercommitAllowed. */
function isOvercommittable(name: string): boolean {
  return isPodLevelResource(name) && isNativeResource(name) && !isHugePages(name);
}

/**
 * What the containers need at most at the same time, in the order in which Go adds: the order decides the form. Rule:
 * component-helpers, AggregateContainerRequests and AggregateContainerLimits.
 */
function aggregate(spec: PodSpec, kind: "limits" | "requests"): Readonly<Record<string, InternalQuantity>> {
  const listOf = ({ resources }: Container) => decodeResourceList(resources?.[kind]);
  let sum = spec.containers.map(listOf).reduce(addLists, new Map());
  let sidecars: InternalResourceList = new Map();
  let peak: InternalResourceList = new Map();
  for (const container of spec.initContainers ?? []) {
    const list = listOf(container);
    const isSidecar = container.restartPolicy === "Always";
    const running = isSidecar ? addLists(sidecars, list) : addLists(list, sidecars);
    if (isSidecar) [sum, sidecars] = [addLists(sum, list), running];
    peak = maxLists(peak, running);
  }
  return Object.fromEntries(maxLists(sum, peak));
}

const addLists = (a: InternalResourceList, b: InternalResourceList) => merge(a, b, addInternalQuantities);
const maxLists = (a: InternalResourceList, b: InternalResourceList) => merge(a, b, maxInternalQuantity);

function merge(
  a: InternalResourceList,
  b: InternalResourceList,
  combine: (ofA: InternalQuantity, ofB: InternalQuantity) => InternalQuantity,
): InternalResourceList {
  const merged = new Map(a);
  for (const [name, quantity] of b) {
    const ofA = a.get(name);
    merged.set(name, ofA === undefined ? quantity : combine(ofA, quantity));
  }
  return merged;
}

function pick<Value>(
  list: Readonly<Record<string, Value>>,
  isExpected: (name: string) => boolean,
): Readonly<Record<string, Value>> {
  return Object.fromEntries(Object.entries(list).filter(([name]) => isExpected(name)));
}
