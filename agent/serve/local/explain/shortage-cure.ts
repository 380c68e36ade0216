import { joinWithAnd } from "../../../../proto/join-with-and.ts";
import { type CauseInput, type Cure, isStatic } from "./cure-rule.ts";
import { cureInPod, cureInPodOrNode } from "./replaced-pod.ts";
import { type Shortage, shortagesOf } from "./shortage.ts";

const COUNTS = "(resources.requests; a limit without a request counts as a request)";

/** The cure of a pod that requests more than is free on its node. */
export function shortageCure(input: CauseInput): Cure {
  const shortages = shortagesOf(input.pod, input.message);
  const elsewhere = isStatic(input) ? "" : ", or run it on a larger node";
  if (shortages.some(({ resource }) => resource === "pods") || input.reason === "OutOfpods")
    return cureInPodOrNode(
      input,
      `end other pods of this node${isStatic(input) ? "" : ", run it on another one"}, or raise maxPods (podsPerCore) in the agent's configuration`,
      "berth pods",
    );
  // Only the message about one resource says the capacity: admission reports the first that is short.
  const absent = shortages.find(({ resource, capacity }) => capacity !== undefined && isNone(resource, capacity));
  if (absent !== undefined) return absenceCure(input, absent);
  const change = `${changeOfRequests(shortages)} ${COUNTS}`;
  // Even the empty node has less than that.
  const tooLarge = shortages.filter(({ requested, capacity = requested }) => requested > capacity);
  if (tooLarge.length === 0)
    return cureInPodOrNode(input, `${change}, or end other pods of this node${elsewhere}`, "berth pods");
  if (!tooLarge.some(({ resource, free }) => isNone(resource, free))) return cureInPod(input, `${change}${elsewhere}`);
  const ofNode = tooLarge.map(({ resource, capacity = 0 }) => amountText(resource, capacity));
  return cureInPodOrNode(
    input,
    `${change}, or end other pods of this node and lower the requests to at most ${joinWithAnd(ofNode)}${elsewhere}`,
    "berth pods",
  );
}

/** What to write into the pod. A request of nothing is no request: a pod without one fits a node whose resource is used up. */
function changeOfRequests(shortages: readonly Shortage[]): string {
  if (shortages.length === 0) return "lower the pod's requests";
  const usedUp = shortages.filter(({ resource, free }) => isNone(resource, free)).map(({ resource }) => resource);
  const lower = shortages.filter(({ resource, free }) => !isNone(resource, free));
  const most = joinWithAnd(lower.map(({ resource, free }) => amountText(resource, free)));
  if (usedUp.length === 0) return `lower the pod's requests to at most ${most}`;
  const removal = `other pods have requested all ${joinWithAnd(usedUp)} of this node: remove ${joinWithAnd(usedUp)} from the pod's requests`;
  return lower.length === 0 ? removal : `${removal}, and lower them to at most ${most}`;
}

/** The node has nothing of a resource, such as a device whose plugin does not run. */
function absenceCure(input: CauseInput, { resource }: Shortage): Cure {
  const elsewhere = isStatic(input) ? "" : ", or run it on a node that has it";
  const provide = resource.startsWith("hugepages-")
    ? "reserve huge pages on this node (vm.nr_hugepages) and restart the agent"
    : "start what provides it on this node, such as a device plugin";
  return cureInPodOrNode(
    input,
    `this node has no ${resource}: ${provide}, or remove ${resource} from the pod's requests${elsewhere}`,
  );
}

const MIB = 2 ** 20;
const inBytes = /^(memory|ephemeral-storage|hugepages-.*)$/;

/** Whether an amount is less than the smallest that `amountText` writes. */
const isNone = (resource: string, amount: number) => amount < (inBytes.test(resource) ? MIB : 1);

/** As a manifest writes it: `cpu 1750m`, `memory 512Mi`. */
function amountText(resource: string, amount: number): string {
  if (inBytes.test(resource)) return `${resource} ${Math.floor(amount / MIB)}Mi`;
  if (resource !== "cpu") return `${resource} ${amount}`;
  return amount % 1000 === 0 ? `cpu ${amount / 1000}` : `cpu ${amount}m`;
}
