import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { pathPart } from "./volumes/paths.ts";

/** The folder of a pod's logs below `podLogsDir`: `<namespace>_<name>_<uid>`, as `kubectl logs` and log collectors expect. */
export function podLogFolder({
  metadata: { namespace = "default", name = "", uid = "" },
}: Pick<Pod, "metadata">): string {
  return pathPart(`${namespace}_${name}_${uid}`, "namespace, name and uid");
}

/** A container's log below that folder: one file an instance. */
export function containerLogPath(container: string, attempt: number): string {
  return `${pathPart(container, "the name of a container")}/${attempt}.log`;
}

const LONGEST_NAME = 255;
const SUFFIX = ".log";

/**
 * What log collectors look for in `/var/log/containers`, and take the pod's name, its namespace, the container's name and the id of
 * the instance from: `<pod>_<namespace>_<container>-<id>.log`. Where that is more than a file name may have, the id is cut.
 */
export function logLinkName(pod: string, namespace: string, container: string, id: string): string {
  const whole = pathPart(`${pod}_${namespace}_${container}-${id}`, "a pod, its namespace and its container");
  return whole.slice(0, LONGEST_NAME - SUFFIX.length) + SUFFIX;
}
