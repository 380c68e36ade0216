import type { FileKind } from "../../../host/fs/files.ts";
import { volumePluginDirs } from "../../../proto/kubelet/pod-dirs.ts";
import type { Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import { volumeDir } from "../../translate/volumes/paths.ts";
import { type MountsBelow, type NodeDirs, removeUnlessMounted } from "./pod-dirs.ts";

/** How the volumes of one source are set up. Every source is one entry of the table below. */
interface VolumePlugin<V extends Volume> {
  /** Creates the volume, or checks it. Idempotent. Throws `FilesError` or `TranslateError`. */
  setUp(dirs: NodeDirs, pod: Pod, volume: V): Promise<void>;
  /** What it leaves on the node; undefined for a source that only uses what is there. */
  readonly onNode?: VolumeOnNode;
}

/** Volumes that are directories below `pods/<uid>/volumes`, where `observed/` finds them. */
interface VolumeOnNode {
  /** The directory that holds the volumes of this source. */
  readonly pluginDir: string;
  /** Removes one volume, also one whose pod is not desired any more. Idempotent. */
  remove(dirs: NodeDirs, mountsBelow: MountsBelow, folder: string): Promise<void>;
}

type VolumeSource = Exclude<keyof Volume, "name">;
type VolumeWith<Source extends VolumeSource> = Volume & Required<Pick<Volume, Source>>;

const volumePlugins = {
  hostPath: { setUp: checkHostPath },
  emptyDir: {
    setUp({ root }, { metadata, spec }, { name }) {
      const folder = volumeDir(metadata.uid ?? "", volumePluginDirs.emptyDir, name);
      const group = spec.securityContext?.fsGroup;
      // Like the kubelet, any user may write to an emptyDir. The setgid bit gives new files the pod's fsGroup.
      return root.makeFolder(folder, group === undefined ? 0o777 : 0o2777, group);
    },
    onNode: { pluginDir: volumePluginDirs.emptyDir, remove: removeUnlessMounted },
  },
} satisfies { readonly [Source in VolumeSource]?: VolumePlugin<VolumeWith<Source>> };

const sources = Object.keys(volumePlugins) as readonly (keyof typeof volumePlugins)[];

/** Undefined for a source that this release does not support. */
function pluginOf(volume: Partial<Volume>): VolumePlugin<Volume> | undefined {
  const source = sources.find((each) => volume[each] !== undefined);
  return source && volumePlugins[source];
}

const volumeOf = ({ spec }: Pod, name: string) => spec.volumes?.find((volume) => volume.name === name);

/** Creates a volume of the pod, or checks it. Idempotent. Throws `FilesError` or `TranslateError`. */
export async function setUpVolume(dirs: NodeDirs, pod: Pod, name: string): Promise<void> {
  const volume = volumeOf(pod, name) ?? { name };
  const plugin = pluginOf(volume);
  if (plugin === undefined) throw unsupportedVolumeError(volume);
  await plugin.setUp(dirs, pod, volume);
}

/** Whether a volume that is set up is on the node, where `observed/` finds it. */
export function isVolumeOnNode(pod: Pod, name: string): boolean {
  const volume = volumeOf(pod, name);
  return volume !== undefined && pluginOf(volume)?.onNode !== undefined;
}

/**
 * Removes what a volume has left on the node, by its name alone: the pod may not be desired any more. Throws
 * `FilesError` or `TranslateError`.
 */
export async function removeVolume(
  dirs: NodeDirs,
  mountsBelow: MountsBelow,
  { uid, name }: { readonly uid: string; readonly name: string },
): Promise<void> {
  const plugins: readonly VolumePlugin<Volume>[] = Object.values(volumePlugins);
  for (const { onNode } of plugins) await onNode?.remove(dirs, mountsBelow, volumeDir(uid, onNode.pluginDir, name));
}

function unsupportedVolumeError({ name, ...source }: Volume): TranslateError {
  const [kind = "such"] = Object.keys(source);
  return new TranslateError(
    "FailedMount",
    `MountVolume.SetUp failed for volume "${name}" : ${kind} volumes are not supported by this release yet`,
  );
}

/** The file type that each hostPath type requires, and the kubelet's words for it. */
const HOST_PATH_KINDS: Readonly<Record<string, readonly [kind: FileKind, words: string]>> = {
  DirectoryOrCreate: ["directory", "a directory"],
  Directory: ["directory", "a directory"],
  FileOrCreate: ["file", "a file"],
  File: ["file", "a file"],
  Socket: ["socket", "a socket file"],
  CharDevice: ["character device", "a character device"],
  BlockDevice: ["block device", "a block device"],
};

/** https://kubernetes.io/docs/concepts/storage/volumes/#hostpath-volume-types */
async function checkHostPath(
  { machine }: Pick<NodeDirs, "machine">,
  _pod: Pod,
  volume: VolumeWith<"hostPath">,
): Promise<void> {
  const { path, type = "" } = volume.hostPath;
  if (type === "") return;
  const toError = (why: string) =>
    new TranslateError(
      "FailedMount",
      `MountVolume.SetUp failed for volume "${volume.name}" : hostPath type check failed: ${path} ${why}`,
    );
  const [kind, description] = Object.hasOwn(HOST_PATH_KINDS, type) ? (HOST_PATH_KINDS[type] ?? []) : [];
  if (kind === undefined) throw toError(`has the type ${JSON.stringify(type)}, which this release does not know`);
  const found = await machine.stat(path);
  if (found === undefined && type === "DirectoryOrCreate") return machine.makeFolder(path, 0o755);
  if (found === undefined && type === "FileOrCreate") return machine.write(path, "", 0o644);
  if (found?.kind === kind) return;
  const actual = found === undefined ? "does not exist" : `is a ${found.kind}`;
  throw toError(`is not ${description}: it ${actual}`);
}
