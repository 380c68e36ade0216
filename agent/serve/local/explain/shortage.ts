import type { Pod } from "../../../../proto/kubernetes/gen/types.ts";
import { podRequests } from "../../../../proto/kubernetes/pod-resources.ts";
import { toAmounts } from "../../../../proto/kubernetes/resource-list.ts";
import { sizeText } from "../../../../proto/size-text.ts";

/** The kubelet's message about a pod that does not fit its node. CPU is in milli-CPUs, memory and storage in bytes. */
const SHORTAGE = /Node didn't have enough resource: (\S+), requested: (\d+), used: (\d+), capacity: (\d+)/;
/** The kubelet's message about a critical pod, as static ones are: preempting others would not make enough room. */
const MISSING = /no set of running pods found to reclaim resources: \[(.*)\]/;

const COUNTS = "what pods request counts, not what they use";

/** A resource of which the pod requests more than is free. CPU is in milli-CPUs, memory and storage in bytes. */
export interface Shortage {
  readonly resource: string;
  readonly requested: number;
  readonly free: number;
  /** Undefined if the message does not say it. */
  readonly capacity?: number;
}

/** The resources that such a message names; none for other messages. */
export function shortagesOf({ spec }: Pick<Pod, "spec">, message: string): readonly Shortage[] {
  const [, resource = "", ...numbers] = SHORTAGE.exec(message) ?? [];
  if (resource !== "") {
    const [requested = 0, used = 0, capacity = 0] = numbers.map(Number);
    return [{ resource, requested, free: Math.max(0, capacity - used), capacity }];
  }
  const requests = toAmounts(podRequests(spec));
  return [...(MISSING.exec(message)?.[1] ?? "").matchAll(/\(res: (\S+), q: (\d+)\)/g)].map(
    ([, name = "", quantity]) => {
      const requested = name === "pods" ? 1 : Number(requests.get(name) ?? 0n);
      return { resource: name, requested, free: Math.max(0, requested - Number(quantity)) };
    },
  );
}

/**
 * What such a message means: what the pod requests, and what is free. Undefined for other messages. The message itself stays
 * the kubelet's, because tools match it.
 */
export function explainShortage(pod: Pick<Pod, "spec">, message: string): string | undefined {
  const shortages = shortagesOf(pod, message);
  const [first] = shortages;
  if (first === undefined) return undefined;
  if (first.resource === "pods" && first.capacity !== undefined)
    return `the node has room for ${first.capacity} pods (maxPods, podsPerCore), and as many are on it`;
  const parts = shortages.map(({ resource, requested, free, capacity }) => {
    const all = capacity === undefined ? "" : ` of ${amountText(resource, capacity)}`;
    return `requests ${quantityText(resource, requested)}, and the node has ${amountText(resource, free)}${all} free`;
  });
  return `${COUNTS}: the pod ${parts.join("; it ")}`;
}

/** `1.5`, `4.0 GiB`, `2` */
function amountText(resource: string, amount: number): string {
  const isInBytes = ["memory", "ephemeral-storage"].includes(resource) || resource.startsWith("hugepages-");
  return isInBytes ? sizeText(amount) : String(resource === "cpu" ? amount / 1000 : amount);
}

/** `1.5 CPUs`, `4.0 GiB of memory`, `2 of example.com/dongle` */
function quantityText(resource: string, amount: number): string {
  const number = amountText(resource, amount);
  if (resource === "cpu") return `${number} ${number === "1" ? "CPU" : "CPUs"}`;
  return `${number} of ${resource === "ephemeral-storage" ? "disk" : resource}`;
}
