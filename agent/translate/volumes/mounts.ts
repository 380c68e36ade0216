import { Mount, MountPropagation } from "../../../proto/cri/gen/api.ts";
import type { Container, Pod, VolumeMount } from "../../../proto/kubernetes/gen/types.ts";
import { hostsFile, hostsPathFor } from "../network/hosts.ts";
import type { NodeFacts } from "../node-facts.ts";
import { type IdRange, idMappings } from "../security/user-namespace.ts";
import { TranslateError } from "../translate-error.ts";
import { absolutePath, terminationLogFile, terminationMessagePath, volumeHostPath } from "./paths.ts";

/** Everything the mounts of a container are built from, besides the container. */
export interface MountInput {
  readonly pod: Pod;
  readonly attempt: number;
  readonly podIPs: readonly string[];
  readonly facts: NodeFacts;
  /** The user-namespace ids of a pod with `hostUsers: false`. */
  readonly ids?: IdRange;
}

/**
 * Returns the container's `volumeMounts` in their order, then `/etc/hosts`, then the termination-message file of this
 * instance.
 */
export function mountsOf(container: Container, { pod, attempt, podIPs, facts, ids }: MountInput): Mount[] {
  const mounts = [
    ...volumeMountsOf(pod, container, facts),
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
  { rootDir }: NodeFacts,
): readonly Mount[] {
  const containerPath = hostsPathFor(pod, container, podIPs);
  if (containerPath === undefined) return [];
  const hostPath = `${rootDir}/${hostsFile(pod.metadata.uid ?? "")}`;
  return [Mount.fromPartial({ containerPath, hostPath, selinuxRelabel: true })];
}

function terminationMount(
  { metadata: { uid = "" } }: Pod,
  container: Container,
  attempt: number,
  { rootDir }: NodeFacts,
): readonly Mount[] {
  const containerPath = terminationMessagePath(container);
  if (containerPath === undefined) return [];
  const hostPath = `${rootDir}/${terminationLogFile(uid, container.name, attempt)}`;
  return [Mount.fromPartial({ containerPath, hostPath, selinuxRelabel: true })];
}

function volumeMountsOf(pod: Pod, container: Container, facts: NodeFacts): readonly Mount[] {
  return (container.volumeMounts ?? []).map((volumeMount) => {
    const volume = pod.spec.volumes?.find(({ name }) => name === volumeMount.name);
    const hostPath = volume === undefined ? undefined : volumeHostPath(pod, volume, facts);
    if (hostPath === undefined)
      throw new TranslateError(
        "CreateContainerConfigError",
        `container ${container.name} mounts volume ${volumeMount.name}, which the pod does not have`,
      );
    return Mount.fromPartial({
      containerPath: absolutePath(volumeMount.mountPath),
      hostPath,
      readonly: volumeMount.readOnly === true,
      propagation: propagationOf(volumeMount),
      // The runtime relabels volumes that belong to the pod. A hostPath keeps the node's SELinux label.
      selinuxRelabel: volume?.emptyDir !== undefined,
    });
  });
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
