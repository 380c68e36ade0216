import { Mount, MountPropagation } from "../../../proto/cri/gen/api.ts";
import { quoteGo } from "../../../proto/go-quote.ts";
import type { Container, ImageVolumeSource, Pod, VolumeMount } from "../../../proto/kubernetes/gen/types.ts";
import { resolveRecursiveReadOnly } from "../../../proto/kubernetes/recursive-read-only.ts";
import { volumeNamed } from "../../../proto/kubernetes/volumes.ts";
import { hostsFile, hostsPathFor } from "../network/hosts.ts";
import type { NodeFacts } from "../node-facts.ts";
import { type IdRange, idMappings } from "../security/user-namespace.ts";
import { configError, TranslateError } from "../translate-error.ts";
import { absolutePath, subPathTarget, terminationLogFile, terminationMessagePath } from "./paths.ts";
import { hasSubPath, pathInVolume } from "./sub-paths.ts";
import { volumeLocation } from "./volume-location.ts";

/** Everything the mounts of a container are built from, besides the container. */
export interface MountInput {
  readonly pod: Pod;
  readonly attempt: number;
  readonly podIPs: readonly string[];
  readonly facts: NodeFacts;
  /** The user-namespace ids of a pod with `hostUsers: false`. */
  readonly ids?: IdRange;
  /** The references of the images of its volumes, by the name of the volume. */
  readonly volumeImages?: ReadonlyMap<string, string>;
  /** The container's environment, which `subPathExpr` refers to. */
  readonly environment?: ReadonlyMap<string, string>;
}

/**
 * Returns the container's `volumeMounts` in their order, then `/etc/hosts`, then the termination-message file of this
 * instance.
 */
export function mountsOf(container: Container, input: MountInput): Mount[] {
  const { pod, attempt, podIPs, facts, ids } = input;
  const mounts = [
    ...volumeMountsOf(container, input),
    ...hostsMount(pod, container, podIPs, facts),
    ...terminationMount(pod, container, attempt, facts),
  ];
  if (ids === undefined) return mounts;
  // An idmapped mount: files that root owns on the node belong to root in the container too, so volumes need no chown.
  return mounts.map((mount) => ({ ...mount, uidMappings: idMappings(ids), gidMappings: idMappings(ids) }));
}

function hostsMount(
  pod: Pod,
  container: Container,
  podIPs: readonly string[],
  { rootDir, hasSELinux }: NodeFacts,
): readonly Mount[] {
  const containerPath = hostsPathFor(pod, container, podIPs);
  if (containerPath === undefined) return [];
  const hostPath = `${rootDir}/${hostsFile(pod.metadata.uid ?? "")}`;
  return [Mount.fromPartial({ containerPath, hostPath, selinuxRelabel: hasSELinux })];
}

function terminationMount(
  { metadata: { uid = "" } }: Pod,
  container: Container,
  attempt: number,
  { rootDir, hasSELinux }: NodeFacts,
): readonly Mount[] {
  const containerPath = terminationMessagePath(container);
  if (containerPath === undefined) return [];
  const hostPath = `${rootDir}/${terminationLogFile(uid, container.name, attempt)}`;
  return [Mount.fromPartial({ containerPath, hostPath, selinuxRelabel: hasSELinux })];
}

function volumeMountsOf(container: Container, input: MountInput): readonly Mount[] {
  const { pod, facts } = input;
  const { uid = "" } = pod.metadata;
  return (container.volumeMounts ?? []).map((volumeMount, index) => {
    const volume = volumeNamed(pod, volumeMount.name);
    if (volume?.image !== undefined) return imageMount(container, volumeMount, volume.image, input);
    const location = volume && volumeLocation(pod, volume, facts);
    if (location === undefined)
      throw new TranslateError(
        "CreateContainerConfigError",
        `cannot find volume ${quoteGo(volumeMount.name)} to mount into container ${quoteGo(container.name)}`,
      );
    return Mount.fromPartial({
      containerPath: absolutePath(volumeMount.mountPath),
      hostPath: hasSubPath(volumeMount)
        ? `${facts.rootDir}/${subPathTarget(uid, { container: container.name, volume: volumeMount.name, index })}`
        : location.hostPath,
      recursiveReadOnly: isRecursivelyReadOnly(pod, volumeMount, facts),
      readonly: volumeMount.readOnly === true || location.isReadOnly,
      propagation: propagationOf(volumeMount),
      selinuxRelabel: location.isRelabelled && facts.hasSELinux,
    });
  });
}

/**
 * The runtime mounts the image, always read-only. One that cannot refuses the mount, since it has no path on the node
 * (https://kubernetes.io/docs/tasks/configure-pod-container/image-volumes/).
 */
function imageMount(
  { name: container }: Container,
  volumeMount: VolumeMount,
  { reference = "" }: ImageVolumeSource,
  { pod, facts, volumeImages, environment = new Map() }: MountInput,
): Mount {
  const image = volumeImages?.get(volumeMount.name);
  if (image === undefined)
    throw configError(`cannot find volume "${volumeMount.name}" to mount into container "${container}"`);
  const { annotations = {} } = pod.metadata;
  return Mount.fromPartial({
    containerPath: absolutePath(volumeMount.mountPath),
    image: { image, userSpecifiedImage: reference, annotations },
    imageSubPath: pathInVolume(volumeMount, environment),
    recursiveReadOnly: isRecursivelyReadOnly(pod, volumeMount, facts),
    readonly: true,
    propagation: propagationOf(volumeMount),
  });
}

function isRecursivelyReadOnly(
  { spec }: Pod,
  mount: VolumeMount,
  { recursiveReadOnlyClasses }: Pick<NodeFacts, "recursiveReadOnlyClasses">,
): boolean {
  const isSupported = recursiveReadOnlyClasses?.has(spec.runtimeClassName ?? "") ?? false;
  const resolved = resolveRecursiveReadOnly(mount, isSupported);
  if ("problem" in resolved) throw configError(`failed to resolve recursive read-only mode: ${resolved.problem}`);
  return resolved.isRecursive;
}

/** A newer API server may send a value that is unknown here. */
function propagationOf({ mountPropagation = "None" }: VolumeMount): MountPropagation {
  switch (mountPropagation) {
    case "None":
      return MountPropagation.PROPAGATION_PRIVATE;
    case "HostToContainer":
      return MountPropagation.PROPAGATION_HOST_TO_CONTAINER;
    case "Bidirectional":
      return MountPropagation.PROPAGATION_BIDIRECTIONAL;
    default:
      throw new TranslateError(
        "CreateContainerConfigError",
        `invalid MountPropagation mode: ${JSON.stringify(mountPropagation)}`,
      );
  }
}
