import { expect, test } from "bun:test";
import { mayStopAnswering } from "./network-file-systems.ts";

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
