import { allContainers } from "./containers.ts";
import type { Container, DownwardAPIVolumeFile, Pod, PodSpec, ResourceFieldSelector, Volume } from "./gen/types.ts";

/** A volume of the pod by its name; undefined if the pod has none of that name. */
export function volumeNamed({ spec }: Pick<Pod, "spec">, name: string): Volume | undefined {
  return spec.volumes?.find((volume) => volume.name === name);
}

/** All volumes of the pod, for those who look for many of them. */
export function volumesByName({ spec }: Pick<Pod, "spec">): ReadonlyMap<string, Volume> {
  return new Map((spec.volumes ?? []).map((volume) => [volume.name, volume]));
}

/**
 * The volumes that a container of the pod uses. The kubelet leaves out the others: what they refer to need not even
 * exist.
 */
export function usedVolumes(spec: PodSpec): readonly Volume[] {
  const names = new Set(allContainers(spec).flatMap(volumeNamesOf));
  return (spec.volumes ?? []).filter(({ name }) => names.has(name));
}

function volumeNamesOf({ volumeMounts, volumeDevices, env }: Partial<Container>): readonly string[] {
  return [
    ...(volumeMounts ?? []).map(({ name }) => name),
    ...(volumeDevices ?? []).map(({ name }) => name),
    ...(env ?? []).flatMap(({ valueFrom }) => valueFrom?.fileKeyRef?.volumeName ?? []),
  ];
}

/**
 * Whether the agent writes the files of a volume: those of a Secret, a ConfigMap, the downward API, or a projection of
 * these and of tokens. Containers can only read them.
 */
export function isContentVolume({ configMap, secret, downwardAPI, projected }: Volume): boolean {
  return [configMap, secret, downwardAPI, projected].some((source) => source !== undefined);
}

/** The fields of the pod in the content of a volume, as `fieldRef.fieldPath` names them. */
export function volumeFieldPaths(volume: Volume): readonly string[] {
  return downwardItems(volume).flatMap(({ fieldRef }) => (fieldRef === undefined ? [] : [fieldRef.fieldPath]));
}

/** The resources of containers in the content of a volume. */
export function volumeResourceFields(volume: Volume): readonly ResourceFieldSelector[] {
  return downwardItems(volume).flatMap(({ resourceFieldRef }) => resourceFieldRef ?? []);
}

function downwardItems({ downwardAPI, projected }: Volume): readonly DownwardAPIVolumeFile[] {
  const ofSources = (projected?.sources ?? []).flatMap((source) => source.downwardAPI?.items ?? []);
  return [...(downwardAPI?.items ?? []), ...ofSources];
}
