import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { pathPart } from "./volumes.ts";

/** The folder of a pod's logs below `podLogsDir`: `<namespace>_<name>_<uid>`, as `kubectl logs` and log collectors expect. */
export function podLogFolder({ metadata: { namespace = "default", name = "", uid = "" } }: Pod): string {
  return pathPart(`${namespace}_${name}_${uid}`, "namespace, name and uid");
}

/** A container's log below that folder: one file an instance. */
export function containerLogPath(container: string, attempt: number): string {
  return `${pathPart(container, "the name of a container")}/${attempt}.log`;
}
