import { type Files, FilesError } from "../../../host/fs/files.ts";
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
  for (const each of ["", "/volumes", "/plugins"]) await dirs.root.makeFolder(folder + each, 0o750);
}

/** The mount points at a path of the machine and below it. */
export type MountsBelow = (path: string) => Promise<readonly string[]>;

/**
 * Removes the pod's directories. Refuses as {@link removeUnlessMounted} does. Throws `FilesError` or `TranslateError`.
 */
export async function removePodDirs(dirs: NodeDirs, mountsBelow: MountsBelow, uid: string): Promise<void> {
  await removeUnlessMounted(dirs, mountsBelow, podDir(uid));
}

/**
 * Removes a folder below the root directory. Refuses (`EBUSY`) while something is mounted there, because the removal
 * would reach into the mount.
 */
export async function removeUnlessMounted({ root }: NodeDirs, mountsBelow: MountsBelow, folder: string): Promise<void> {
  const [mounted] = await mountsBelow(root.path(folder));
  if (mounted !== undefined)
    throw new FilesError("EBUSY", mounted, `${mounted} is still mounted; the pod's files stay until it is unmounted`);
  await root.remove(folder);
}
