import type { Container, Pod, VolumeMount } from "../../../proto/kubernetes/gen/types.ts";
import { volumeNamed } from "../../../proto/kubernetes/volumes.ts";
import { expandWithAll } from "../env/variable-expansion.ts";
import type { NodeFacts } from "../node-facts.ts";
import { configError } from "../translate-error.ts";
import { subPathTarget } from "./paths.ts";
import { volumeLocation } from "./volume-location.ts";

/** A path in a volume that a container mounts instead of the volume's root. */
export interface SubPath {
  readonly volume: string;
  /** The directory of the volume on the node, absolute. */
  readonly volumePath: string;
  /** A server has the volume, and may not answer. */
  readonly isRemote?: true;
  /** The volume is a path of the node, where a file system of a server may be mounted. */
  readonly isNodePath?: true;
  /** Relative to `volumePath`. Containers may change what is there at any time. */
  readonly path: string;
  /** Where it is mounted for the runtime, relative to the root directory. */
  readonly target: string;
}

export function hasSubPath({ subPath = "", subPathExpr = "" }: VolumeMount): boolean {
  return subPath !== "" || subPathExpr !== "";
}

/**
 * The `subPath`s of a container that the agent mounts: not those of image volumes, which the runtime mounts.
 * `$(NAME)` in `subPathExpr` expands to a variable of the environment. Throws `TranslateError` for a path that is absolute
 * or contains `..`, and for a variable that is missing or empty. A mount of a volume that the pod does not have is left
 * out: `mountsOf` refuses it.
 */
export function subPathsOf(
  pod: Pod,
  { name: container, volumeMounts = [] }: Container,
  environment: ReadonlyMap<string, string>,
  facts: Pick<NodeFacts, "rootDir" | "cluster">,
): readonly SubPath[] {
  return volumeMounts.flatMap((mount, index) => {
    const volume = volumeNamed(pod, mount.name);
    const location = volume && volumeLocation(pod, volume, facts);
    if (location === undefined || !hasSubPath(mount)) return [];
    const { hostPath: volumePath, isRemote, isNodePath } = location;
    const target = subPathTarget(pod.metadata.uid ?? "", { container, volume: mount.name, index });
    const path = pathInVolume(mount, environment);
    const origin = { ...(isRemote && { isRemote }), ...(isNodePath && { isNodePath }) };
    return [{ volume: mount.name, volumePath, path, target, ...origin }];
  });
}

/** The path in the volume that a mount shows; empty for its root. Throws `TranslateError` as {@link subPathsOf} does. */
export function pathInVolume(
  { subPath = "", subPathExpr = "" }: VolumeMount,
  environment: ReadonlyMap<string, string>,
): string {
  const path = subPathExpr === "" ? subPath : expandWithAll(subPathExpr, environment);
  if (path.startsWith("/")) throw configError(`error SubPath \`${path}\` must not be an absolute path`);
  if (path.split("/").includes(".."))
    throw configError(`unable to provision SubPath \`${path}\`: must not contain '..'`);
  return path;
}
