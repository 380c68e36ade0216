import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import type { NodeFacts } from "./node-facts.ts";
import { TranslateError } from "./translate-error.ts";

/**
 * The runtime handler of the pod's RuntimeClass; empty for a pod without one. Throws `TranslateError` for a class that
 * the cluster does not have, or that has not been read yet.
 */
export function runtimeHandlerOf({ spec }: Pod, { cluster }: Pick<NodeFacts, "cluster">): string {
  const { runtimeClassName = "" } = spec;
  if (runtimeClassName === "") return "";
  const handler = cluster?.runtimeHandlers?.get(runtimeClassName);
  if (handler === undefined)
    throw new TranslateError("CreatePodSandboxError", `runtimeclass.node.k8s.io "${runtimeClassName}" not found`);
  return handler;
}
