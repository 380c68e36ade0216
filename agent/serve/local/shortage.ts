import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { podRequests } from "../../../proto/kubernetes/pod-resources.ts";
import { toAmounts } from "../../../proto/kubernetes/resource-list.ts";
import { sizeText } from "../../../proto/size-text.ts";

/** The kubelet's message about a pod that does not fit its node. CPU is in milli-CPUs, memory and storage in bytes. */
const SHORTAGE = /Node didn't have enough resource: (\S+), requested: (\d+), used: (\d+), capacity: (\d+)/;
/** The kubelet's message about a critical pod, as static ones are: preempting others would not make enough room. */
const MISSING = /no set of running pods found to reclaim resources: \[(.*)\]/;

const COUNTS = "what pods request counts, not what they use";

/**
 * What such a message means: what the pod requests, and what is free. Undefined for other messages. The message itself stays
 * the kubelet's, because tools match it.
 */
export function explainShortage({ spec }: Pick<Pod, "spec">, message: string): string | undefined {
  const [, resource = "", ...numbers] = SHORTAGE.exec(message) ?? [];
  if (resource !== "") return describeShortage(resource, numbers.map(Number));
  const missing = [...(MISSING.exec(message)?.[1] ?? "").matchAll(/\(res: (\S+), q: (\d+)\)/g)];
  if (missing.length === 0) return undefined;
  const requests = toAmounts(podRequests(spec));
  const parts = missing.map(([, name = "", quantity]) => {
    const requested = name === "pods" ? 1 : Number(requests.get(name) ?? 0n);
    const free = amountText(name, Math.max(0, requested - Number(quantity)));
    return `requests ${quantityText(name, requested)}, and the node has ${free} free`;
  });
  return `${COUNTS}: the pod ${parts.join("; it ")}`;
}

function describeShortage(resource: string, [requested = 0, used = 0, capacity = 0]: readonly number[]): string {
  if (resource === "pods")
    return `the node has room for ${capacity} pods (maxPods, podsPerCore), and as many are on it`;
  const free = `${amountText(resource, Math.max(0, capacity - used))} of ${amountText(resource, capacity)}`;
  return `${COUNTS}: the pod requests ${quantityText(resource, requested)}, and the node has ${free} free`;
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
