import type { PodSpec, ResourceRequirements } from "../gen/types.ts";
import { podLimits, podRequests } from "../pod-resources.ts";
import { formatResourceList, isHugePages, isPodLevelResource, type ResourceList } from "../resource-list.ts";
import { formatQuantity, parseQuantity, toScaled } from "../values/quantity.ts";

const milli = -3;

/** The canonical form, rounded up to a thousandth. */
function roundResource(text: string): string {
  const quantity = parseQuantity(text);
  const isTooPrecise = quantity.exponent < milli;
  return formatQuantity(
    isTooPrecise ? { ...quantity, mantissa: toScaled(quantity, milli), exponent: milli } : quantity,
  );
}

/** A resource list in canonical form. Rule: SetDefaults_ResourceList. */
export function defaultResourceList(list: ResourceList): ResourceList {
  return Object.fromEntries(Object.entries(list).map(([name, text]) => [name, roundResource(text)]));
}

/** A resource with a limit but no request gets the limit as request. Rule: SetDefaults_Pod. */
export function defaultContainerResources(resources: ResourceRequirements): ResourceRequirements {
  const limits = resources.limits && defaultResourceList(resources.limits);
  const requests = (limits ?? resources.requests) && { ...limits, ...defaultResourceList(resources.requests ?? {}) };
  return { ...resources, ...(limits && { limits }), ...(requests && { requests }) };
}

/**
 * Pod-level resources, when any is set: limits of huge pages default to the sum of the containers', requests to the sum
 * of the containers' requests, or else to the limits. The containers must have their defaults. Rule: KEP-2837.
 */
export function defaultPodResources(given: ResourceRequirements, spec: PodSpec): ResourceRequirements {
  const resources = {
    ...given,
    ...(given.limits && { limits: defaultResourceList(given.limits) }),
    ...(given.requests && { requests: defaultResourceList(given.requests) }),
  };
  const limits = defaultHugePageLimits(resources, spec);
  if (Object.keys(limits).length === 0) return resources;
  const ofContainers = formatResourceList(podRequests(spec, ONLY_CONTAINERS));
  const requests = {
    ...pick(limits, isPodLevelResource),
    ...pick(ofContainers, (name) => name === "cpu" || name === "memory"),
    ...resources.requests,
  };
  return { ...resources, limits, ...(Object.keys(requests).length > 0 && { requests }) };
}

function defaultHugePageLimits({ limits, requests }: ResourceRequirements, spec: PodSpec): ResourceList {
  if (limits === undefined && requests === undefined) return {};
  const ofContainers = formatResourceList(podLimits(spec, ONLY_CONTAINERS));
  return { ...pick(ofContainers, (name) => isHugePages(name) && requests?.[name] === undefined), ...limits };
}

function pick(list: ResourceList, isExpected: (name: string) => boolean): ResourceList {
  return Object.fromEntries(Object.entries(list).filter(([name]) => isExpected(name)));
}

const ONLY_CONTAINERS = { excludesOverhead: true, skipsPodLevel: true } as const;
