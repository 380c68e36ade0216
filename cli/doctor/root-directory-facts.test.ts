import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdir, mkdtemp, realpath, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { existingRealPath, fileOwnerOf, mountOf } from "./root-directory-facts.ts";

const mountinfo = `22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 22 0:26 / /var rw shared:5 master:1 - tmpfs tmpfs rw
31 30 0:27 / /var/lib rw - tmpfs tmpfs rw
32 22 0:28 / /data rw shared:7 - tmpfs tmpfs rw
33 32 0:29 / /data rw master:7 - tmpfs tmpfs rw
34 22 0:30 / /with\\040space rw shared:9 - tmpfs tmpfs rw
`;

const rows: readonly (readonly [path: string, mountPoint: string, isShared: boolean])[] = [
  ["/home/kubelet", "/", true],
  ["/var", "/var", true],
  ["/variable", "/", true],
  ["/var/run/kubelet", "/var", true],
  ["/var/lib/kubelet", "/var/lib", false],
  ["/data/kubelet", "/data", false],
  ["/with space/kubelet", "/with space", true],
];
for (const [path, mountPoint, isShared] of rows)
  test(`${path} is on the ${isShared ? "shared" : "private"} mount ${mountPoint}`, () => {
    expect(mountOf(mountinfo, path)).toEqual({ mountPoint, isShared });
  });

test("without a list of mounts nothing is known", () => {
  expect(mountOf("", "/var")).toBeUndefined();
});

let folder: string;
beforeEach(async () => {
  folder = await realpath(await mkdtemp(join(tmpdir(), "berth-root-")));
});
afterEach(() => rm(folder, { recursive: true }));

test("a folder that does not exist yet is where its nearest parent really is", async () => {
  await mkdir(join(folder, "real"));
  await symlink("real", join(folder, "link"));
  expect(await existingRealPath(join(folder, "link/not/yet"))).toBe(join(folder, "real"));
});

test("a folder belongs to the user that made it, and an absent one to no user", async () => {
  expect(await fileOwnerOf(folder)).toBe(process.geteuid?.());
  expect(await fileOwnerOf(join(folder, "absent"))).toBeUndefined();
});
