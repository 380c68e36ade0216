import { expect, test } from "bun:test";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MountCalls } from "./mount-calls.ts";
import { createMounts, otherMountPointsOf, parseMountinfo } from "./mounts.ts";

/* The contract of `Mounts` is in test/contract/mounts.ts; this file tests what the machine's kernel does not show. */

const rows: readonly [sentence: string, line: string, expected: object | undefined][] = [
  [
    "a mount with an optional field",
    "36 35 98:0 /root /mount/point rw,noatime master:1 - ext3 /dev/root rw,errors=continue",
    {
      mountPoint: "/mount/point",
      device: "98:0",
      root: "/root",
      fsType: "ext3",
      source: "/dev/root",
      options: ["rw", "noatime"],
      isShared: false,
    },
  ],
  [
    "a mount without optional fields",
    "25 30 0:23 / /sys rw - sysfs sysfs rw",
    { mountPoint: "/sys", fsType: "sysfs", source: "sysfs", options: ["rw"] },
  ],
  [
    "a mount with several optional fields",
    "25 30 0:23 / /a rw shared:1 master:2 propagate_from:3 - tmpfs tmpfs rw",
    { mountPoint: "/a", fsType: "tmpfs", source: "tmpfs", options: ["rw"], isShared: true },
  ],
  [
    "a mount point with a space, a tab, a newline and a backslash",
    "25 30 0:23 / /a\\040b\\011c\\012d\\134e rw - tmpfs x\\040y rw",
    { mountPoint: "/a b\tc\nd\\e", fsType: "tmpfs", source: "x y", options: ["rw"] },
  ],
  [
    "a mount point that looks like the separator",
    "25 30 0:23 / /a\\040-\\040b rw - tmpfs none rw",
    { mountPoint: "/a - b", fsType: "tmpfs", source: "none", options: ["rw"] },
  ],
  ["a root with a space", "25 30 0:23 /a\\040b /c rw - tmpfs none rw", { mountPoint: "/c", root: "/a b" }],
  ["a source without a name", "25 30 0:23 / /a rw - tmpfs  rw", { mountPoint: "/a", source: "" }],
  ["a source that is named like the separator", "25 30 0:23 / /a rw - tmpfs - rw", { fsType: "tmpfs", source: "-" }],
  ["an empty line", "", undefined],
  ["a truncated line", "25 30 0:23 / /a rw", undefined],
  ["garbage", "what - is this", undefined],
];
for (const [sentence, line, expected] of rows)
  test(`${sentence} is ${expected === undefined ? "skipped" : "parsed"}`, () => {
    const found = parseMountinfo(`${line}\n`);
    if (expected === undefined) expect(found).toEqual([]);
    else expect(found).toMatchObject([expected]);
  });

test("this machine's own mounts are listed: its root, and those below /proc", async () => {
  const mounts = createMounts();
  const all = await mounts.list();
  expect(all.map(({ mountPoint }) => mountPoint)).toContain("/");
  expect(all.find(({ mountPoint }) => mountPoint === "/proc")?.fsType).toBe("proc");
  expect(await mounts.mountPointsBelow("/proc")).toContain("/proc");
});

test("below a path are its own mount and those inside, not those whose name has the same prefix", async () => {
  const mounts = createMounts();
  expect(await mounts.mountPointsBelow("/pro")).toEqual([]);
  expect(await mounts.mountPointsBelow("/does/not/exist")).toEqual([]);
  const inDev = (await mounts.list()).map(({ mountPoint }) => mountPoint).filter((each) => each.startsWith("/dev/"));
  for (const mountPoint of inDev) expect(await mounts.mountPointsBelow("/dev")).toContain(mountPoint);
});

/** Mount calls that record what they are called with, and fail as `failureOf` says. */
function recordedCalls(failureOf: (call: string) => string | undefined) {
  const made: string[] = [];
  const record = (call: string) => {
    made.push(call);
    return failureOf(call);
  };
  const calls: MountCalls = {
    mount: ({ fsType, flags, options }) => record(`mount ${fsType} ${flags} ${options}`),
    umount: (_path, flags) => record(`umount ${flags}`),
    openat2: () => "ENOSYS",
  };
  return { calls, made };
}

async function inFolder(work: (folder: string) => Promise<void>): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), "berth-mounts-"));
  try {
    await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}

test("a kernel before 6.4 refuses noswap once, and is not asked again", () =>
  inFolder(async (folder) => {
    const { calls, made } = recordedCalls((call) => (call.includes("noswap") ? "EINVAL" : undefined));
    const mounts = createMounts(calls);
    for (let time = 0; time < 2; time++) await mounts.mountTmpfs(folder, { mode: 0o1777, sizeBytes: 4096 });
    expect(made).toEqual([
      "mount tmpfs 0 mode=1777,size=4096,noswap",
      "mount tmpfs 0 mode=1777,size=4096",
      "mount tmpfs 0 mode=1777,size=4096",
    ]);
  }));

test("a tmpfs that the kernel refuses for another reason says nothing about noswap", () =>
  inFolder(async (folder) => {
    let isRefused = true;
    const { calls, made } = recordedCalls(() => (isRefused ? "EINVAL" : undefined));
    const mounts = createMounts(calls);
    await expect(mounts.mountTmpfs(folder, { mode: 0o1777 })).rejects.toMatchObject({
      code: "EINVAL",
      message: `${folder} cannot be mounted: the kernel refuses the options`,
    });
    isRefused = false;
    await mounts.mountTmpfs(folder, { mode: 0o1777 });
    expect(made.at(-1)).toBe("mount tmpfs 0 mode=1777,noswap");
  }));

test("a tmpfs that may be swapped is mounted without noswap", () =>
  inFolder(async (folder) => {
    const { calls, made } = recordedCalls(() => undefined);
    await createMounts(calls).mountTmpfs(folder, { mode: 0o1777, isSwapAllowed: true });
    expect(made).toEqual(["mount tmpfs 0 mode=1777"]);
  }));

test("a bind mount that cannot become read-only does not stay", () =>
  inFolder(async (folder) => {
    const [remount, noFollow] = [4096 + 32 + 1, 8];
    let isMounted = true;
    const { calls, made } = recordedCalls((call) => {
      if (call.startsWith(`mount  ${remount}`)) return "EPERM";
      if (call.startsWith("mount") || isMounted) {
        isMounted = call.startsWith("mount");
        return undefined;
      }
      return "EINVAL";
    });
    const bound = createMounts(calls).bind("/usr", folder, { isReadOnly: true, isRecursive: true });
    await expect(bound).rejects.toMatchObject({
      code: "EPERM",
      message: `${folder} cannot be mounted: permission denied: mounts need CAP_SYS_ADMIN`,
    });
    expect(made).toEqual([`mount  ${4096 + 16384} `, `mount  ${remount} `, `umount ${noFollow}`, `umount ${noFollow}`]);
  }));

test("without permission a mount, a bind mount and an unmount fail with the path and the reason", () =>
  inFolder(async (folder) => {
    const mounts = createMounts(recordedCalls(() => "EPERM").calls);
    const why = "permission denied: mounts need CAP_SYS_ADMIN";
    await expect(mounts.mountTmpfs(folder, { mode: 0o755 })).rejects.toThrow(`${folder} cannot be mounted: ${why}`);
    const bound = mounts.bind("/usr", folder, { isReadOnly: false, isRecursive: false });
    await expect(bound).rejects.toThrow(`/usr at ${folder} cannot be mounted: ${why}`);
    await expect(mounts.unmount(folder)).rejects.toThrow(`${folder} cannot be unmounted: ${why}`);
    await expect(mounts.unmount("/a\0b")).rejects.toMatchObject({ code: "EINVAL" });
  }));

const table = parseMountinfo(`
20 1 8:1 / / rw - ext4 /dev/sda1 rw
21 20 8:2 / /mnt/disk rw - ext4 /dev/sda2 rw
22 20 8:2 /a /pods/one rw - ext4 /dev/sda2 rw
23 20 8:2 / /pods/two rw - ext4 /dev/sda2 rw
24 20 8:1 /srv /pods/three rw - ext4 /dev/sda1 rw
25 20 8:1 /srv/a /pods/four rw - ext4 /dev/sda1 rw
26 20 8:2 /a /mnt/again rw - ext4 /dev/sda2 rw
`);
const others: readonly [path: string, mountPoints: readonly string[]][] = [
  ["/mnt/disk", ["/pods/two"]],
  ["/mnt/disk/a", ["/pods/one", "/mnt/again"]],
  ["/mnt/again", ["/pods/one"]],
  ["/mnt/disk/a/b", []],
  ["/mnt/disks", []],
  ["/srv", ["/pods/three"]],
  ["/srv/a", ["/pods/four"]],
];
for (const [path, mountPoints] of others)
  test(`${path} is visible at ${mountPoints.length} other mount points`, () => {
    expect(otherMountPointsOf(path, table)).toEqual(mountPoints);
  });
