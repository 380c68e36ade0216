import type { Volume } from "../../../proto/kubernetes/gen/types.ts";
import { TranslateError } from "../translate-error.ts";
import { mountError } from "./mount-error.ts";

/*
 * Volumes that this node has no driver for. Their pods wait, and `FailedMount` names the source and the driver: a
 * ReplicaSet would replace a failed pod at once, and so on for ever.
 */

/** A source of volumes: the field that a volume of a pod has besides its name. */
export type VolumeSource = Exclude<keyof Volume, "name">;

/** The source of a volume of a pod or of a persistent volume, which have the same names. */
type Source = { readonly [S in Exclude<VolumeSource, "csi" | "flexVolume">]?: object } & {
  readonly [S in "csi" | "flexVolume"]?: { readonly driver: string };
};

/** The name of a volume as the kubelet has it: that of the persistent volume, if it is one, and that in the pod. */
export interface VolumeNames {
  /** The name of the persistent volume, or that in the pod for a volume without a claim. */
  readonly specName: string;
  readonly nameInPod: string;
}

type Words = (names: VolumeNames, kind: string, source: Source) => TranslateError;

/** The kubelet's words for a driver that has not registered. Kubernetes hands the in-tree sources of clouds to theirs. */
const csiDriver =
  (driver: string): Words =>
  ({ specName }, kind) =>
    mountError({ name: specName }, `${driverNotRegistered(driver)} (${kind} volumes need it)`);

const driverNotRegistered = (driver: string) =>
  `kubernetes.io/csi: mounter.SetUpAt failed to get CSI client: driver name ${driver} not found in the list of registered CSI drivers`;

/** The kubelet's words for a source that none of its plugins knows. */
const noPlugin =
  (why: (kind: string, source: Source) => string): Words =>
  (names, kind, source) =>
    unprocessedVolumeError(
      names,
      `failed to get Plugin from volumeSpec for volume "${names.specName}" err=no volume plugin matched: ${why(kind, source)}`,
    );

const removed = noPlugin((kind) => `Kubernetes has removed ${kind} volumes`);
const notSupported: Words = ({ specName }, kind) =>
  mountError({ name: specName }, `${kind} volumes are not supported by this release yet`);

const sourcesWithoutDriver = {
  awsElasticBlockStore: csiDriver("ebs.csi.aws.com"),
  azureDisk: csiDriver("disk.csi.azure.com"),
  azureFile: csiDriver("file.csi.azure.com"),
  cephfs: removed,
  cinder: csiDriver("cinder.csi.openstack.org"),
  csi: ({ specName }, _kind, { csi }) => mountError({ name: specName }, driverNotRegistered(csi?.driver ?? "")),
  fc: notSupported,
  flexVolume: noPlugin((_kind, { flexVolume }) => `flexVolume driver ${flexVolume?.driver ?? ""} is not supported`),
  flocker: removed,
  gcePersistentDisk: csiDriver("pd.csi.storage.gke.io"),
  gitRepo: ({ specName }) =>
    mountError(
      { name: specName },
      "git-repo volume plugin has been disabled; if necessary, it may be re-enabled by enabling the feature-gate `GitRepoVolumeDriver`",
    ),
  glusterfs: removed,
  iscsi: notSupported,
  photonPersistentDisk: removed,
  portworxVolume: csiDriver("pxd.portworx.com"),
  quobyte: removed,
  rbd: removed,
  scaleIO: removed,
  storageos: removed,
  vsphereVolume: csiDriver("csi.vsphere.vmware.com"),
} satisfies { readonly [S in VolumeSource]?: Words };

/** Every other source of the API has an entry in the table of `act/volumes/volume-plugins.ts`; the runtime mounts images. */
export type SourceWithoutDriver = keyof typeof sourcesWithoutDriver;

const kinds = Object.keys(sourcesWithoutDriver) as readonly SourceWithoutDriver[];

/** Why a volume cannot be set up on this node, in the kubelet's words where it has some. */
export function missingDriverError(names: VolumeNames, source: Source): TranslateError {
  const kind = kinds.find((each) => source[each] !== undefined);
  if (kind !== undefined) return sourcesWithoutDriver[kind](names, kind, source);
  // A newer API server may have other sources.
  const other = Object.keys(source).find((key) => key !== "name");
  return notSupported(names, other ?? "such", source);
}

/** The kubelet's words for a volume that it cannot make sense of. It lists all such volumes of a pod; this is one of them. */
export function unprocessedVolumeError({ nameInPod }: Pick<VolumeNames, "nameInPod">, why: string): TranslateError {
  const lists = `unmounted volumes=[${nameInPod}], unattached volumes=[], failed to process volumes=[${nameInPod}]`;
  return new TranslateError("FailedMount", `Unable to attach or mount volumes: ${lists}: ${why}`);
}
