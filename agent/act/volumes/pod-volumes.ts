import { type FileKind, type Files, FilesError } from "../../../host/fs/files.ts";
import type { HostPathVolumeSource, Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import { emptyDirPath, podDir } from "../../translate/volumes/paths.ts";

/** The node's directories that hold the files of pods. */
export interface NodeDirs {
  /** The agent's root directory. */
  readonly root: Files;
  /** `podLogsDir`. */
  readonly logs: Files;
  /** The whole machine, for hostPath volumes. */
  readonly machine: Files;
}

/** Creates the pod's directories. Idempotent. Throws `FilesError` or `TranslateError`. */
export async function makePodDirs(dirs: NodeDirs, pod: Pod): Promise<void> {
  const folder = podDir(pod.metadata.uid ?? "");
  await dirs.root.makeFolder("pods", 0o750);
  for (const each of ["", "/volumes", "/plugins"]) await dirs.root.makeFolder(folder + each, 0o750);
}

/** Creates a volume of the pod, or checks it. Idempotent. Throws `FilesError` or `TranslateError`. */
export async function setUpVolume(dirs: NodeDirs, { metadata, spec }: Pod, name: string): Promise<void> {
  const { emptyDir, hostPath, ...others } = spec.volumes?.find((volume) => volume.name === name) ?? {};
  if (hostPath !== undefined) await checkHostPath(dirs.machine, name, hostPath);
  else if (emptyDir === undefined) throw unsupportedVolumeError(name, others);
  else {
    const folder = emptyDirPath(metadata.uid ?? "", name);
    const group = spec.securityContext?.fsGroup;
    // Like the kubelet, any user may write to an emptyDir. The setgid bit gives new files the pod's fsGroup.
    await dirs.root.makeFolder(folder, group === undefined ? 0o777 : 0o2777, group);
  }
}

function unsupportedVolumeError(volume: string, { name: _, ...source }: Partial<Volume>): TranslateError {
  const [kind = "such"] = Object.keys(source);
  return new TranslateError(
    "FailedMount",
    `MountVolume.SetUp failed for volume "${volume}" : ${kind} volumes are not supported by this release yet`,
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
async function checkHostPath(machine: Files, volume: string, { path, type = "" }: HostPathVolumeSource): Promise<void> {
  if (type === "") return;
  const toError = (why: string) =>
    new TranslateError(
      "FailedMount",
      `MountVolume.SetUp failed for volume "${volume}" : hostPath type check failed: ${path} ${why}`,
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

type MountsBelow = (path: string) => Promise<readonly string[]>;

/** Removes one emptyDir; refuses as {@link removePodDirs} does. Throws `FilesError` or `TranslateError`. */
export async function removeEmptyDir(
  dirs: NodeDirs,
  mountsBelow: MountsBelow,
  { uid, name }: { readonly uid: string; readonly name: string },
): Promise<void> {
  const folder = emptyDirPath(uid, name);
  await refuseMounts(dirs, mountsBelow, folder);
  await dirs.root.remove(folder);
}

async function refuseMounts({ root }: NodeDirs, mountsBelow: MountsBelow, folder: string): Promise<void> {
  const [mounted] = await mountsBelow(root.path(folder));
  if (mounted !== undefined)
    throw new FilesError("EBUSY", mounted, `${mounted} is still mounted; the pod's files stay until it is unmounted`);
}

/**
 * Removes the pod's directories. Refuses while something is mounted there, because the removal would reach into the
 * mount.
 */
export async function removePodDirs(dirs: NodeDirs, mountsBelow: MountsBelow, uid: string): Promise<void> {
  const folder = podDir(uid);
  await refuseMounts(dirs, mountsBelow, folder);
  await dirs.root.remove(folder);
}
