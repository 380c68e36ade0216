import { expect, test } from "bun:test";
import { createMounts, parseMountinfo } from "./mounts.ts";

const rows: readonly [sentence: string, line: string, expected: object | undefined][] = [
  [
    "a mount with an optional field",
    "36 35 98:0 /root /mount/point rw,noatime master:1 - ext3 /dev/root rw,errors=continue",
    { mountPoint: "/mount/point", fsType: "ext3", source: "/dev/root", options: ["rw", "noatime"] },
  ],
  [
    "a mount without optional fields",
    "25 30 0:23 / /sys rw - sysfs sysfs rw",
    { mountPoint: "/sys", fsType: "sysfs", source: "sysfs", options: ["rw"] },
  ],
  [
    "a mount with several optional fields",
    "25 30 0:23 / /a rw shared:1 master:2 propagate_from:3 - tmpfs tmpfs rw",
    { mountPoint: "/a", fsType: "tmpfs", source: "tmpfs", options: ["rw"] },
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
