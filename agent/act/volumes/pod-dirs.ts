import { type Files, FilesError } from "../../../host/fs/files.ts";
import type { Mounts } from "../../../host/fs/mounts.ts";
import { PODS_DIR } from "../../../proto/kubelet/pod-dirs.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import { podDir } from "../../translate/volumes/paths.ts";

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
  await dirs.root.makeFolder(PODS_DIR, 0o750);
  await dirs.root.makeFolder(folder, 0o750);
  await Promise.all(
    ["volumes", "plugins", "containers"].map((each) => dirs.root.makeFolder(`${folder}/${each}`, 0o750)),
  );
}

/** The part of the mounts that a removal needs. */
export type MountPoints = Pick<Mounts, "mountPointsBelow">;

/**
 * Removes the pod's directories. Refuses as {@link removeUnlessMounted} does. Throws `FilesError` or `TranslateError`.
 */
export async function removePodDirs(dirs: NodeDirs, mounts: MountPoints, uid: string): Promise<void> {
  await removeUnlessMounted(dirs, mounts, podDir(uid));
}

/**
 * Removes a folder below the root directory. Refuses (`EBUSY`) while something is mounted there, because the removal
 * would reach into the mount.
 */
export async function removeUnlessMounted({ root }: NodeDirs, mounts: MountPoints, folder: string): Promise<void> {
  const [mounted] = await mounts.mountPointsBelow(root.path(folder));
  if (mounted !== undefined)
    throw new FilesError("EBUSY", mounted, `${mounted} is still mounted; the pod's files stay until it is unmounted`);
  await root.remove(folder);
}
