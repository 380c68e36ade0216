import type { Container, ContainerStatus } from "../../../proto/kubernetes/gen/types.ts";
import type { ResourceList } from "../../../proto/kubernetes/resource-list.ts";
import { formatQuantity, parseQuantity, toMilli, toNumber } from "../../../proto/kubernetes/values/quantity.ts";
import type { ObservedContainer } from "../pod/observed.ts";

/** The least CPU that a runtime can limit and guarantee a container, in milli-CPUs. */
const MIN_CPU_LIMIT = 10;
const MIN_CPU_REQUEST = 2;

/**
 * `allocatedResources` and `resources` of a container's status. `container` has what is allocated to it. A running
 * instance shows CPU and memory as the runtime reports them; what it does not report, as the agent has given them to the
 * instance. Rule: the kubelet's convertContainerStatusResources and toKubeContainerStatus.
 */
export function resourcesOfInstance(
  { resources }: Container,
  instance: ObservedContainer,
): Pick<ContainerStatus, "allocatedResources" | "resources"> {
  if (resources === undefined) return {};
  const { requests, limits } = resources;
  const allocated = requests && { allocatedResources: requests };
  if (instance.state !== "running") return { ...allocated, resources };
  const { amounts, resources: reported } = instance;
  const own = reported ?? amounts;
  const memoryLimit = reported === undefined ? sameOr(limits, amounts?.memoryLimit) : binary(reported.memoryLimit);
  const actual = {
    ...resources,
    ...(limits && { limits: { ...limits, ...cpuOf(limits, own?.cpuLimit, MIN_CPU_LIMIT), ...memoryLimit } }),
    ...(requests && {
      requests: {
        ...requests,
        ...cpuOf(requests, own?.cpuRequest, MIN_CPU_REQUEST),
        ...sameOr(requests, amounts?.memoryRequest),
      },
    }),
  };
  return { ...allocated, resources: actual };
}

/** Where both are at or below the least amount, the runtime's is a rounded one, and the allocated amount stays. */
function cpuOf({ cpu }: ResourceList, milli: number | undefined, least: number): ResourceList {
  // The same text, which is the case nearly always.
  if (milli === undefined || cpu === `${milli}m`) return {};
  const allocated = cpu === undefined ? 0 : toMilli(parseQuantity(cpu));
  return milli && (milli > least || allocated > least) ? { cpu: formatQuantity(parseQuantity(`${milli}m`)) } : {};
}

/** The allocated amount of memory in its own notation, or another one. */
function sameOr({ memory }: ResourceList = {}, bytes: number | undefined): ResourceList {
  return memory !== undefined && toNumber(parseQuantity(memory)) === bytes ? {} : binary(bytes);
}

function binary(bytes: number | undefined): ResourceList {
  return bytes ? { memory: formatQuantity({ ...parseQuantity(String(bytes)), format: "BinarySI" }) } : {};
}
