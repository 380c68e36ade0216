import { PODS_DIR, volumeDirOf, volumePluginDirs } from "../../../proto/kubelet/pod-dirs.ts";
import type { PersistentVolumeSpec, Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { matchesNodeTerms } from "../../decide/admission/node-selection.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import { type ClaimedVolume, claimedVolumeOf } from "../../translate/volumes/claimed-volume.ts";
import { missingDriverError, type SourceWithoutDriver } from "../../translate/volumes/missing-drivers.ts";
import { mountError } from "../../translate/volumes/mount-error.ts";
import { localVolumeDir } from "../../translate/volumes/paths.ts";
import { applyFsGroup, reportForeignGroup } from "./fs-group.ts";
import { checkHostPath } from "./host-path.ts";
import { setUpNfs } from "./nfs.ts";
import { rethrowMountError } from "./rethrow-mount-error.ts";
import type { VolumeDeps } from "./volume-deps.ts";
import { mapError, mapLocalDevice } from "./volume-devices.ts";

/** A persistent volume, and the pod that uses it. */
interface PersistentVolumeInput {
  readonly deps: VolumeDeps;
  readonly pod: Pod;
  readonly claimed: ClaimedVolume;
  readonly signal: AbortSignal;
}

/** The fields of a persistent volume that are not its source. */
type Setting =
  | "accessModes"
  | "capacity"
  | "claimRef"
  | "mountOptions"
  | "nodeAffinity"
  | "persistentVolumeReclaimPolicy"
  | "storageClassName"
  | "volumeAttributesClassName"
  | "volumeMode";

type PersistentSource = Exclude<keyof PersistentVolumeSpec, Setting>;
type SetUp<Source extends PersistentSource> = (
  input: PersistentVolumeInput,
  source: NonNullable<PersistentVolumeSpec[Source]>,
) => Promise<void>;

/** How persistent volumes are set up, by source. Idempotent. */
const plugins = {
  hostPath: ({ deps, claimed }, hostPath) => checkHostPath(deps.disk, { name: claimed.names.specName, hostPath }),
  local: (input, { path }) => mountLocal(input, path),
  nfs: ({ deps, pod, claimed, signal }, source) => {
    const { names, mountOptions, isClaimedReadOnly: isReadOnly } = claimed;
    return setUpNfs(deps, { uid: pod.metadata.uid ?? "", names, source, mountOptions, isReadOnly }, signal);
  },
} satisfies { readonly [Source in Exclude<PersistentSource, SourceWithoutDriver>]: SetUp<Source> };

/** The kubelet's words for a source without block devices. */
const NO_MAPPER = "FindMapperPluginBySpec failed to find BlockVolumeMapper plugin. Volume plugin is nil.";

/** Sets up the persistent volume behind a claim. Idempotent. Throws `TranslateError`, in the kubelet's words. */
export async function setUpClaimedVolume(
  deps: VolumeDeps,
  pod: Pod,
  volume: Volume,
  signal: AbortSignal,
): Promise<void> {
  const facts = deps.facts();
  const claimed = claimedVolumeOf({ pod, facts }, volume);
  if (claimed === undefined) throw new Error(`volume ${volume.name} of pod ${pod.metadata.uid} has no claim`);
  const { names, spec } = claimed;
  checkNodeAffinity(claimed, facts.cluster?.nodeLabels);
  const { hostPath, local, nfs } = spec;
  if (spec.volumeMode === "Block" && local !== undefined) return await mapLocalDevice(deps, pod, claimed, local.path);
  if (spec.volumeMode === "Block" && hostPath !== undefined)
    throw mapError(NO_MAPPER, names, "hostPath volumes cannot be of volumeMode Block");
  if (spec.volumeMode === "Block" && nfs !== undefined)
    throw mapError(NO_MAPPER, names, "nfs volumes cannot be of volumeMode Block");
  checkMountOptions(claimed);
  const input = { deps, pod, claimed, signal };
  const rethrow = rethrowMountError(names.specName);
  if (hostPath !== undefined) return plugins.hostPath(input, hostPath).catch(rethrow);
  if (local !== undefined) return plugins.local(input, local).catch(rethrow);
  if (nfs !== undefined) return plugins.nfs(input, nfs).catch(rethrow);
  throw missingDriverError(names, sourceOf(spec));
}

function sourceOf({
  accessModes: _modes,
  capacity: _capacity,
  claimRef: _claim,
  mountOptions: _options,
  nodeAffinity: _affinity,
  persistentVolumeReclaimPolicy: _policy,
  storageClassName: _class,
  volumeAttributesClassName: _attributes,
  volumeMode: _mode,
  ...source
}: PersistentVolumeSpec): Pick<PersistentVolumeSpec, SourceWithoutDriver & PersistentSource> {
  return source;
}

/** A volume of another node must not be mounted, though the pod was placed here, for example by its `nodeName`. */
function checkNodeAffinity({ names, spec }: ClaimedVolume, labels: Readonly<Record<string, string>> | undefined): void {
  const terms = spec.nodeAffinity?.required?.nodeSelectorTerms;
  if (terms === undefined) return;
  const toError = (why: string) => stepError("NodeAffinity check failed", names, why, operationOn(spec));
  if (labels === undefined) throw toError("the Node object has not been read yet");
  // Like the kubelet: a volume selects nodes by their labels alone.
  if (!matchesNodeTerms(terms, { nodeName: "", labels })) throw toError("no matching NodeSelectorTerms");
}

/** The failure of a step before the set-up; the kubelet words it so in its event. */
function stepError(
  step: string,
  { specName }: ClaimedVolume["names"],
  why: string,
  operation: ReturnType<typeof operationOn> = "MountVolume",
): TranslateError {
  return new TranslateError("FailedMount", `${operation}.${step} for volume "${specName}" : ${why}`);
}

/** The kubelet's name of the set-up. */
const operationOn = ({ volumeMode }: PersistentVolumeSpec) => (volumeMode === "Block" ? "MapVolume" : "MountVolume");

/**
 * `ro` makes the mounts of the containers read-only; a bind mount takes no other option that the kubelet would pass. An NFS
 * volume takes all.
 */
function checkMountOptions({ names, spec: { hostPath, local }, mountOptions }: ClaimedVolume): void {
  if (hostPath !== undefined && mountOptions.length > 0)
    throw stepError("MountOptionSupport check failed", names, "mount options are not supported for this volume type");
  const unsupported = local === undefined ? [] : mountOptions.filter((option) => option !== "ro" && option !== "rw");
  if (unsupported.length === 0) return;
  const why = `mountOptions of local volumes are not supported by this release yet: ${unsupported.join(", ")}`;
  throw mountError({ name: names.specName }, why);
}

/**
 * Mounts a directory of the node for one pod. The mount itself is writable: the containers of a pod that may only read it
 * get read-only mounts of it.
 */
async function mountLocal({ deps, pod, claimed, signal }: PersistentVolumeInput, path: string): Promise<void> {
  const { disk } = deps;
  const { names } = claimed;
  const name = names.specName;
  const found = await disk.machine.stat(path);
  const cannotBegin = (why: string) => stepError("NewMounter initialization failed", names, why);
  if (found === undefined) throw cannotBegin(`path ${JSON.stringify(path)} does not exist`);
  if (found.kind === "block device")
    throw mountError({ name }, `${path} is a block device, and its file systems are not supported by this release yet`);
  if (found.kind !== "directory") throw cannotBegin("only directory and block device are supported");
  if (path.split("/").includes("..")) throw mountError({ name }, `invalid path: ${path} must not contain '..'`);
  // One pod after another: the second one may rely on the owner that the first one has set.
  await deps.lockPath(path, () => bindLocal({ deps, pod, claimed, signal }, path), signal);
}

async function bindLocal({ deps, pod, claimed, signal }: PersistentVolumeInput, path: string): Promise<void> {
  const { disk, mounts } = deps;
  const { names, spec, isReadOnly } = claimed;
  const name = names.specName;
  const isShared = await isUsedByOtherPods(deps, pod, name);
  if (isShared && spec.accessModes?.length === 1 && spec.accessModes[0] === "ReadWriteOncePod")
    throw mountError({ name }, "volume uses the ReadWriteOncePod access mode and is already in use by another pod");
  if (isShared) await reportForeignGroup(deps, pod, { path, name });
  const folder = localVolumeDir(pod.metadata.uid ?? "", name);
  await disk.root.makeFolder(folder, 0o750);
  await mounts.bind(path, disk.root.path(folder), { isReadOnly: false, isRecursive: false });
  if (!isReadOnly && !isShared) await applyFsGroup(deps, pod, folder, signal);
}

/**
 * Other pods have the volume mounted: their program relies on its owner. A directory alone shows nothing: the mount may
 * have failed, or the agent that made it may have died before the mount.
 */
async function isUsedByOtherPods({ disk, mounts }: VolumeDeps, { metadata }: Pod, name: string): Promise<boolean> {
  const folder = volumeDirOf(volumePluginDirs.local, name);
  const mountPoints = await mounts.mountPointsBelow(disk.root.path(PODS_DIR));
  return mountPoints.some((each) => each.endsWith(`/${folder}`) && !each.endsWith(`/${metadata.uid}/${folder}`));
}
