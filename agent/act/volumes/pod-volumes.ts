import { type FileKind, type Files, FilesError } from "../../../host/fs/files.ts";
import type { HostPathVolumeSource, Pod, Volume } from "../../../proto/kubernetes/gen/types.ts";
import { podLogFolder } from "../../translate/log-path.ts";
import { TranslateError } from "../../translate/translate-error.ts";
import { emptyDirFolder, emptyDirsFolder, podFolder } from "../../translate/volumes/paths.ts";

/** Where pods live on this node's disk. */
export interface PodDisk {
  /** The agent's root directory. */
  readonly root: Files;
  /** `podLogsDir`. */
  readonly logs: Files;
  /** The whole machine, for hostPath volumes. */
  readonly machine: Files;
}

/** Makes the pod's folders and checks its volumes. Done twice, it is done once. Throws `FilesError` or `TranslateError`. */
export async function prepareVolumes(disk: PodDisk, pod: Pod): Promise<void> {
  const { uid = "" } = pod.metadata;
  // First of all: a pod that cannot have its volumes has no need of folders either.
  for (const volume of pod.spec.volumes ?? []) checkKind(volume);
  await disk.logs.makeFolder(podLogFolder(pod), 0o755);
  await disk.root.makeFolder("pods", 0o750);
  for (const folder of ["", "/volumes", "/plugins"]) await disk.root.makeFolder(podFolder(uid) + folder, 0o750);
  for (const volume of pod.spec.volumes ?? []) await prepareVolume(disk, pod, volume);
}

function checkKind({ name, emptyDir, hostPath, ...others }: Volume): void {
  if (emptyDir !== undefined || hostPath !== undefined) return;
  const [kind = "such"] = Object.keys(others);
  throw new TranslateError(
    "FailedMount",
    `MountVolume.SetUp failed for volume "${name}" : ${kind} volumes are not supported by this release yet`,
  );
}

async function prepareVolume(disk: PodDisk, { metadata, spec }: Pod, volume: Volume): Promise<void> {
  const { name, emptyDir, hostPath } = volume;
  if (emptyDir !== undefined) {
    const folder = emptyDirFolder(metadata.uid ?? "", name);
    const group = spec.securityContext?.fsGroup;
    // Any user of any container may write to an emptyDir: that is what it is for. What is made there belongs to the pod's group.
    await disk.root.makeFolder(folder, group === undefined ? 0o777 : 0o2777, group);
  }
  if (hostPath !== undefined) await checkHostPath(disk.machine, name, hostPath);
}

/** What each type wants to find, and what the kubelet calls it. */
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
  const refuse = (why: string) =>
    new TranslateError(
      "FailedMount",
      `MountVolume.SetUp failed for volume "${volume}" : hostPath type check failed: ${path} ${why}`,
    );
  const [kind, words] = Object.hasOwn(HOST_PATH_KINDS, type) ? (HOST_PATH_KINDS[type] ?? []) : [];
  if (kind === undefined)
    throw refuse(`is to be of the type ${JSON.stringify(type)}, which this release does not know`);
  const found = await machine.stat(path);
  if (found === undefined && type === "DirectoryOrCreate") return machine.makeFolder(path, 0o755);
  if (found === undefined && type === "FileOrCreate") return machine.write(path, "", 0o644);
  if (found?.kind === kind) return;
  const seen = found === undefined ? "does not exist" : `is a ${found.kind}`;
  throw refuse(`is not ${words}: it ${seen}`);
}

type MountsBelow = (path: string) => Promise<readonly string[]>;

/** Removes what the pod has in emptyDirs, and refuses as {@link removePodFiles} does. Throws `FilesError` or `TranslateError`. */
export async function removeVolumes(disk: PodDisk, mountsBelow: MountsBelow, uid: string): Promise<void> {
  const folder = emptyDirsFolder(uid);
  await refuseMounts(disk, mountsBelow, folder);
  await disk.root.remove(folder);
}

async function refuseMounts({ root }: PodDisk, mountsBelow: MountsBelow, folder: string): Promise<void> {
  const [mounted] = await mountsBelow(root.path(folder));
  if (mounted !== undefined)
    throw new FilesError("EBUSY", mounted, `${mounted} is still mounted; the pod's files stay until it is not`);
}

/** Removes all that the pod has on the disk; refuses while something is mounted there, since removal would go through it. */
export async function removePodFiles(
  disk: PodDisk,
  mountsBelow: MountsBelow,
  pod: { readonly uid: string; readonly logFolder: string | undefined },
): Promise<void> {
  const folder = podFolder(pod.uid);
  await refuseMounts(disk, mountsBelow, folder);
  // The pod's folder goes last: by it what is left is found again, should the agent die in between.
  if (pod.logFolder !== undefined) await disk.logs.remove(pod.logFolder);
  await disk.root.remove(folder);
}
