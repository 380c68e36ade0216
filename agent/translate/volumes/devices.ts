import { Device } from "../../../proto/cri/gen/api.ts";
import type { Container, Pod } from "../../../proto/kubernetes/gen/types.ts";
import { volumeNamed } from "../../../proto/kubernetes/volumes.ts";
import type { NodeFacts } from "../node-facts.ts";
import { configError } from "../translate-error.ts";
import { claimedVolumeOf } from "./claimed-volume.ts";
import { localDeviceLink } from "./paths.ts";

/**
 * The container's `volumeDevices` in their order. The runtime follows the symlink of the pod to the device. Throws
 * `TranslateError` in the kubelet's words.
 */
export function devicesOf(
  { name: container, volumeDevices = [] }: Container,
  { pod, facts }: { readonly pod: Pod; readonly facts: Pick<NodeFacts, "rootDir" | "cluster"> },
): Device[] {
  return volumeDevices.map(({ name, devicePath }) => {
    if (!devicePath.startsWith("/")) throw configError(`error DevicePath \`${devicePath}\` must be an absolute path`);
    const volume = volumeNamed(pod, name);
    const claimed = volume && claimedVolumeOf({ pod, facts }, volume);
    if (claimed?.spec.local === undefined)
      throw configError(
        `cannot find volume ${JSON.stringify(name)} to pass into container ${JSON.stringify(container)}`,
      );
    return Device.fromPartial({
      containerPath: devicePath,
      hostPath: `${facts.rootDir}/${localDeviceLink(pod.metadata.uid ?? "", claimed.names.specName)}`,
      permissions: volume?.persistentVolumeClaim?.readOnly === true ? "r" : "mrw",
    });
  });
}
