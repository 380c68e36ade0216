import { Mount, MountPropagation } from "../../../proto/cri/gen/api.ts";
import type { Container, Pod, VolumeMount } from "../../../proto/kubernetes/gen/types.ts";
import { hostsFile, hostsPathFor } from "../network/hosts.ts";
import type { NodeFacts } from "../node-facts.ts";
import { type IdRange, idMappings } from "../security/user-namespace.ts";
import { TranslateError } from "../translate-error.ts";
import { absolute, terminationLog, terminationMessagePath, volumeHostPath } from "./paths.ts";

/** What a container's mounts are made of besides the container itself. */
export interface MountScene {
  readonly pod: Pod;
  readonly attempt: number;
  readonly podIPs: readonly string[];
  readonly facts: NodeFacts;
  /** Those of a pod with users of its own. */
  readonly ids?: IdRange;
}

/** The container's `volumeMounts`, in their order, and behind them its `/etc/hosts` and the file for the last words of this instance. */
export function mountsOf(container: Container, { pod, attempt, podIPs, facts, ids }: MountScene): Mount[] {
  const mounts = [
    ...volumeMountsOf(pod, container, facts),
    ...hostsMount(pod, container, podIPs, facts),
    ...terminationMount(pod, container, attempt, facts),
  ];
  if (ids === undefined) return mounts;
  // What root owns on the node is root's in the container too: the files themselves are as they would be without users of its own.
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
  const hostPath = `${rootDir}/${terminationLog(uid, container.name, attempt)}`;
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
      containerPath: absolute(volumeMount.mountPath),
      hostPath,
      readonly: volumeMount.readOnly === true,
      propagation: propagationOf(volumeMount),
      // What is the pod's own gets its label where SELinux is on; what is the node's keeps its own.
      selinuxRelabel: volume?.emptyDir !== undefined,
    });
  });
}

/** A newer API may have more of them. */
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
