import { dirname } from "node:path/posix";
import type { Mount } from "./mounts.ts";

/** Their servers are elsewhere, or programs of this machine; `autofs` mounts such a one when a path is looked at. */
const servedTypes: ReadonlySet<string> = new Set(
  "9p afs autofs ceph cifs fuse fuseblk gfs2 glusterfs lustre nfs nfs4 ocfs2 smb3 virtiofs".split(" "),
);
/** As many as the kernel follows in one path. */
const MAX_SYMLINKS = 40;

/** Whether calls on the files of a mount may last as long as a server does not answer. */
export function mayStopAnswering({ mountPoint, fsType }: Pick<Mount, "mountPoint" | "fsType">): boolean {
  // systemd mounts binfmt_misc on demand, on every machine.
  if (fsType === "autofs" && mountPoint.startsWith("/proc/")) return false;
  return servedTypes.has(fsType) || (fsType.startsWith("fuse.") && fsType !== "fuse.lxcfs");
}

/**
 * The first mount on the way to an absolute path on which calls may hang; undefined if there is none. The mount at `/` is
 * none of them: the agent itself cannot do without it. It looks at the mount table and at the symlinks on the way there,
 * never at what is mounted. `readLink` returns undefined for what is no symlink, or absent.
 */
export async function networkMountOf<M extends Pick<Mount, "mountPoint" | "fsType">>(
  path: string,
  mounts: readonly M[],
  readLink: (path: string) => Promise<string | undefined>,
): Promise<M | undefined> {
  const served = new Map(mounts.filter(mayStopAnswering).map((mount) => [mount.mountPoint, mount]));
  served.delete("/");
  if (served.size === 0) return undefined;
  const left = path.split("/").reverse();
  let at = "/";
  for (let links = 0; links <= MAX_SYMLINKS; ) {
    const mount = served.get(at);
    if (mount !== undefined) return mount;
    const name = left.pop();
    if (name === undefined) return undefined;
    if (name === "" || name === ".") continue;
    if (name === "..") {
      at = dirname(at);
      continue;
    }
    const next = at === "/" ? `/${name}` : `${at}/${name}`;
    const target = served.has(next) ? undefined : await readLink(next);
    if (target === undefined) {
      at = next;
      continue;
    }
    links += 1;
    left.push(...target.split("/").reverse());
    if (target.startsWith("/")) at = "/";
  }
  return undefined;
}
