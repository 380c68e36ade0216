import { expect, test } from "bun:test";
import { mayStopAnswering, networkMountOf } from "./network-file-systems.ts";

const rows: readonly [fsType: string, mountPoint: string, mayStop: boolean][] = [
  ["nfs4", "/mnt/nas", true],
  ["cifs", "/mnt/nas", true],
  ["fuse.sshfs", "/mnt/nas", true],
  ["autofs", "/mnt", true],
  ["autofs", "/proc/sys/fs/binfmt_misc", false],
  ["fuse.lxcfs", "/var/lib/lxcfs", false],
  ["fusectl", "/sys/fs/fuse/connections", false],
  ["nfsd", "/proc/fs/nfsd", false],
  ["ext4", "/", false],
  ["tmpfs", "/run", false],
];
for (const [fsType, mountPoint, mayStop] of rows)
  test(`${fsType} at ${mountPoint} ${mayStop ? "may stop answering" : "always answers"}`, () => {
    expect(mayStopAnswering({ fsType, mountPoint })).toBe(mayStop);
  });

const table = [
  { mountPoint: "/", fsType: "virtiofs" },
  { mountPoint: "/mnt/nas", fsType: "nfs4" },
  { mountPoint: "/mnt/nas/disk", fsType: "ext4" },
  { mountPoint: "/disk", fsType: "ext4" },
];
const links: Readonly<Record<string, string>> = {
  "/data": "mnt/../mnt//nas/./data",
  "/absolute": "/mnt/nas",
  "/twice": "/mnt/link/data",
  "/mnt/link": "nas",
  "/loop": "/loop/x",
  "/back": "/mnt/nas-2/..",
};
const paths: readonly [path: string, found: boolean][] = [
  ["/mnt/nas", true],
  ["/mnt/nas/a/b", true],
  ["/mnt//nas/", true],
  ["/mnt/nas/disk", true],
  ["/mnt/nas/../x", true],
  ["/data", true],
  ["/absolute/x", true],
  ["/twice", true],
  ["/disk/../mnt/link", true],
  ["/", false],
  ["/mnt", false],
  ["/mnt/nas-2", false],
  ["/disk/mnt/nas", false],
  ["/loop", false],
  ["/back/none", false],
];
for (const [path, isFound] of paths)
  test(`${path} ${isFound ? "is" : "is not"} on the mount of a server, and no look at it is needed for that`, async () => {
    const readLink = async (at: string) => {
      expect(`${at}/`).not.toStartWith("/mnt/nas/");
      return links[at];
    };
    expect((await networkMountOf(path, table, readLink))?.mountPoint).toBe(isFound ? "/mnt/nas" : undefined);
    // Where nothing is mounted that may hang, nothing is read.
    const noLink = () => Promise.reject(new Error("a look at a path"));
    expect(await networkMountOf(path, table.slice(2), noLink)).toBeUndefined();
  });
