import type { Mount } from "./mounts.ts";

/** Their servers are elsewhere, or programs of this machine; `autofs` mounts such a one when a path is looked at. */
const servedTypes: ReadonlySet<string> = new Set(
  "9p afs autofs ceph cifs fuse fuseblk gfs2 glusterfs lustre nfs nfs4 ocfs2 smb3 virtiofs".split(" "),
);

/** Whether calls on the files of a mount may last as long as a server does not answer. */
export function mayStopAnswering({ mountPoint, fsType }: Pick<Mount, "mountPoint" | "fsType">): boolean {
  // systemd mounts binfmt_misc on demand, on every machine.
  if (fsType === "autofs" && mountPoint.startsWith("/proc/")) return false;
  return servedTypes.has(fsType) || (fsType.startsWith("fuse.") && fsType !== "fuse.lxcfs");
}
