import type { Container, PodSpec, ResourceRequirements } from "../gen/types.ts";
import {
  addQuantities,
  compareQuantities,
  formatQuantity,
  parseQuantity,
  type Quantity,
  toScaled,
} from "../quantity.ts";

/** Quantities by the name of the resource: `{ cpu: "500m" }`. */
export type ResourceList = { readonly [resource: string]: string };

const milli = -3;

/** In canonical form, and no finer than a thousandth. */
function roundResource(text: string): string {
  const quantity = parseQuantity(text);
  const isFine = quantity.exponent < milli;
  return formatQuantity(isFine ? { ...quantity, mantissa: toScaled(quantity, milli), exponent: milli } : quantity);
}

/** A resource list in canonical form. Rule: SetDefaults_ResourceList. */
export function defaultResourceList(list: ResourceList): ResourceList {
  return Object.fromEntries(Object.entries(list).map(([name, text]) => [name, roundResource(text)]));
}

/** What a container asks for is at least named where it is limited. Rule: SetDefaults_Pod. */
export function defaultContainerResources(resources: ResourceRequirements): ResourceRequirements {
  const limits = resources.limits && defaultResourceList(resources.limits);
  const requests = (limits ?? resources.requests) && { ...limits, ...defaultResourceList(resources.requests ?? {}) };
  return { ...resources, ...(limits && { limits }), ...(requests && { requests }) };
}

/**
 * The resources of the pod as a whole, where it names any: limits of huge pages are the sum of its containers', requests
 * are the sum of its containers' requests or else the limits. The containers have their defaults already. Rule: KEP-2837.
 */
export function defaultPodResources(given: ResourceRequirements, spec: PodSpec): ResourceRequirements {
  const resources = {
    ...given,
    ...(given.limits && { limits: defaultResourceList(given.limits) }),
    ...(given.requests && { requests: defaultResourceList(given.requests) }),
  };
  const limits = defaultHugePageLimits(resources, spec);
  if (Object.keys(limits).length === 0) return resources;
  const ofContainers = aggregate(spec, (container) => container.resources?.requests ?? {});
  const requests = {
    ...pick(limits, isPodLevelResource),
    ...pick(ofContainers, (name) => name === "cpu" || name === "memory"),
    ...resources.requests,
  };
  return { ...resources, limits, ...(Object.keys(requests).length > 0 && { requests }) };
}

function defaultHugePageLimits({ limits, requests }: ResourceRequirements, spec: PodSpec): ResourceList {
  if (limits === undefined && requests === undefined) return {};
  const ofContainers = aggregate(spec, (container) => container.resources?.limits ?? {});
  return { ...pick(ofContainers, (name) => isHugePages(name) && requests?.[name] === undefined), ...limits };
}

function isHugePages(name: string): boolean {
  return name.startsWith("hugepages-");
}

function isPodLevelResource(name: string): boolean {
  return name === "cpu" || name === "memory" || isHugePages(name);
}

function pick(list: ResourceList, isWanted: (name: string) => boolean): ResourceList {
  return Object.fromEntries(Object.entries(list).filter(([name]) => isWanted(name)));
}

/** What the pod needs at its worst moment: all containers at once, or the init container that runs before them. */
function aggregate(spec: PodSpec, of: (container: Container) => ResourceList): ResourceList {
  const sidecars: Container[] = [];
  const moments = (spec.initContainers ?? []).map((container) => {
    if (container.restartPolicy === "Always") sidecars.push(container);
    return container.restartPolicy === "Always" ? [...sidecars] : [...sidecars, container];
  });
  const sums = [...moments, [...sidecars, ...spec.containers]].map((running) => sumOf(running.map(of)));
  return sums.reduce((most, sum) => combine(most, sum, (a, b) => (compareQuantities(a, b) < 0 ? b : a)), {});
}

function sumOf(lists: readonly ResourceList[]): ResourceList {
  return lists.reduce((sum, list) => combine(sum, list, addQuantities), {});
}

function combine(a: ResourceList, b: ResourceList, both: (a: Quantity, b: Quantity) => Quantity): ResourceList {
  const combined = Object.entries(b).map(([name, text]) => {
    const other = a[name];
    return [name, other === undefined ? text : formatQuantity(both(parseQuantity(other), parseQuantity(text)))];
  });
  return { ...a, ...Object.fromEntries(combined) };
}
