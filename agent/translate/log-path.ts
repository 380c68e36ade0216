import { formatLogDir } from "../../proto/kubelet/pod-dirs.ts";
import type { Pod } from "../../proto/kubernetes/gen/types.ts";
import { pathPart } from "./volumes/paths.ts";

/** The log directory of a pod, relative to `podLogsDir`. */
export function podLogDir({ metadata: { namespace = "default", name = "", uid = "" } }: Pick<Pod, "metadata">): string {
  return pathPart(formatLogDir({ namespace, name, uid }), "namespace, name and uid");
}

/** The log file of one container instance, relative to the pod's log directory. */
export function containerLogPath(container: string, attempt: number): string {
  return `${pathPart(container, "the name of a container")}/${attempt}.log`;
}

const MAX_NAME_LENGTH = 255;
const SUFFIX = ".log";

/**
 * The name of a symlink in `/var/log/containers`: `<pod>_<namespace>_<container>-<id>.log`. Log collectors parse it.
 * Truncates the id where the name exceeds the 255 bytes of a file name.
 */
export function logSymlinkName(pod: string, namespace: string, container: string, id: string): string {
  const fullName = pathPart(`${pod}_${namespace}_${container}-${id}`, "a pod, its namespace and its container");
  return fullName.slice(0, MAX_NAME_LENGTH - SUFFIX.length) + SUFFIX;
}
