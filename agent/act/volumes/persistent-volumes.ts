import type { PersistentVolumeSpec, Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { matchesNodeTerms } from "../../decide/admission/node-selection.ts";
import { type ClaimedVolume, claimedVolumeOf } from "../../translate/volumes/claimed-volume.ts";
import { missingDriverError, type SourceWithoutDriver } from "../../translate/volumes/missing-drivers.ts";
import { mountError } from "../../translate/volumes/mount-error.ts";
import { checkHostPath } from "./host-path.ts";
import { mountLocal } from "./local-volume.ts";
import { setUpNfs } from "./nfs.ts";
import type { PersistentVolumeInput } from "./persistent-volume-input.ts";
import { rethrowMountError } from "./rethrow-mount-error.ts";
import { operationOn, stepError } from "./step-error.ts";
import type { VolumeDeps } from "./volume-deps.ts";
import { mapError, mapLocalDevice } from "./volume-devices.ts";

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
  hostPath: ({ deps, claimed, signal }, hostPath) =>
    checkHostPath(deps, { name: claimed.names.specName, hostPath }, signal),
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
  if (spec.volumeMode === "Block" && local !== undefined)
    return await mapLocalDevice({ deps, pod, claimed, signal }, local.path);
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
