import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createExec, type Exec, ExecError } from "../../../host/exec.ts";
import { createFiles } from "../../../host/fs/files.ts";
import type { Mount } from "../../../host/fs/mounts.ts";
import { FakeClock, settlePromises } from "../../../test/fakes/clock.ts";
import { createVolumeStats, type VolumeStatsOptions } from "./volume-stats.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "berth-stats-"));
  await mkdir(join(folder, cache), { recursive: true });
  await mkdir(join(folder, disk), { recursive: true });
  await writeFile(join(folder, cache, "file"), new Uint8Array(50_000));
});
afterAll(() => rm(folder, { recursive: true }));

const cache = "pods/u-1/volumes/kubernetes.io~empty-dir/cache";
const disk = "pods/u-1/volumes/kubernetes.io~local-volume/pv-1";
const emptyDir = { name: "cache", kind: "emptyDir", limitBytes: 100_000, folder: cache, measurement: "du" } as const;
const claimed = {
  name: "disk",
  kind: "persistentVolumeClaim",
  claim: "data",
  folder: disk,
  measurement: "statfs",
} as const;
const hostPath = { name: "logs", kind: "hostPath" } as const;
const mount = { device: "8:1", root: "/srv", fsType: "ext4", source: "/dev/sda1", options: ["rw"], isShared: false };

const mountsOf = (...table: readonly Mount[]): VolumeStatsOptions["mounts"] => ({
  list: async () => table,
  mountsAt: async (path) => table.filter(({ mountPoint }) => mountPoint === path),
});

/** The reader of volumes below a real folder, with a local volume that counts as mounted unless said otherwise. */
function createReader(given: Partial<VolumeStatsOptions> = {}) {
  const clock = new FakeClock();
  const read = createVolumeStats({
    root: createFiles(folder),
    mounts: mountsOf({ ...mount, mountPoint: join(folder, disk) }),
    exec: createExec(),
    path: process.env["PATH"] ?? "",
    clock,
    ...given,
  });
  return { read, clock };
}
/** The program never ends, as on a server that is gone. */
const hangs = () => {
  const calls: (readonly string[])[] = [];
  const exec: Exec = {
    run(argv) {
      calls.push(argv);
      return new Promise(() => {});
    },
  };
  return { exec, calls };
};

test("an emptyDir has the bytes and inodes of its files, and the space of the disk that it is on", async () => {
  const [stats] = await createReader().read([emptyDir]);
  const { usedBytes = 0, availableBytes = 0, capacityBytes = 0, inodes = 0, inodesFree = 0, ...rest } = stats!;
  expect(rest).toEqual({ name: "cache", kind: "emptyDir", limitBytes: 100_000, inodesUsed: 2 });
  expect(usedBytes).toBeWithin(50_000, 100_000);
  expect([availableBytes > 0, capacityBytes > availableBytes, inodes >= inodesFree]).toEqual([true, true, true]);
});

test("a volume with a file system of its own has the figures of statfs, read by a child", async () => {
  const [stats] = await createReader().read([claimed]);
  const { totalBytes, totalInodes } = await createFiles(folder).space(".");
  expect(stats).toMatchObject({ name: "disk", claim: "data", capacityBytes: totalBytes, inodes: totalInodes });
  expect((stats?.usedBytes ?? 0) + (stats?.availableBytes ?? 0)).toBeLessThanOrEqual(totalBytes);
  expect(stats?.usedBytes).toBeGreaterThan(0);
});

test("a volume that is not measured, or not set up, has no figures and no problem", async () => {
  const missing = { ...emptyDir, name: "gone", folder: `${cache}-of-a-pod-that-has-ended` };
  const { read } = createReader({ mounts: mountsOf() });
  expect(await read([hostPath, missing, claimed])).toEqual([
    hostPath,
    { name: "gone", kind: "emptyDir", limitBytes: 100_000 },
    { name: "disk", kind: "persistentVolumeClaim", claim: "data" },
  ]);
});

test("a server that does not answer costs its volume the figures, and the others keep theirs", async () => {
  const { exec, calls } = hangs();
  const root = {
    ...createFiles(folder),
    usage: async () => ({ usedBytes: 4_096, inodesUsed: 1 }),
    space: async () => ({ totalBytes: 300, freeBytes: 200, usedBytes: 100, totalInodes: 30, freeInodes: 20 }),
  };
  const { read, clock } = createReader({ exec, root });
  const reading = read([claimed, emptyDir]);
  await clock.advance(4_000);
  const [hung, other] = await reading;
  expect(hung?.problem).toBe("no figures within 4 s: many files, or its server does not answer");
  expect(other).toMatchObject({ name: "cache", usedBytes: 4_096, availableBytes: 200 });
  await settlePromises();
  const [again] = await read([claimed]);
  expect(again?.problem).toBe("an earlier call of statfs has not ended: its server does not answer");
  expect(calls).toEqual([["stat", "-f", "-c", "%b %f %a %s %c %d", join(folder, disk)]]);
  expect(clock.pendingTimers).toBe(0);
});

const foreign: readonly [sentence: string, at: string, fsType: string, isMeasured: boolean][] = [
  ["a FUSE file system over it", "", "fuse.sshfs", false],
  ["an NFS file system in a folder of it", "/deep/folder", "nfs4", false],
  ["a tmpfs over it", "", "tmpfs", true],
  ["an NFS file system beside it", "-2", "nfs4", true],
];
for (const [sentence, at, fsType, isMeasured] of foreign)
  test(`an emptyDir with ${sentence} ${isMeasured ? "is measured" : "is not looked at, and has no figures"}`, async () => {
    const looks: string[] = [];
    const root = {
      ...createFiles(folder),
      async usage(path: string) {
        looks.push(path);
        return { usedBytes: 4_096, inodesUsed: 1 };
      },
      async space(path: string) {
        looks.push(path);
        return { totalBytes: 300, freeBytes: 200, usedBytes: 100, totalInodes: 30, freeInodes: 20 };
      },
    };
    const mountPoint = `${join(folder, cache)}${at}`;
    const { read } = createReader({ root, mounts: mountsOf({ ...mount, fsType, source: "nas:/data", mountPoint }) });
    const [stats] = await read([emptyDir]);
    if (isMeasured) expect(stats).toMatchObject({ usedBytes: 4_096, availableBytes: 200 });
    else {
      const problem = `nas:/data (${fsType}) is mounted at ${mountPoint}: its server may not answer`;
      expect(stats).toEqual({ name: "cache", kind: "emptyDir", limitBytes: 100_000, problem });
      expect(looks).toEqual([]);
    }
  });

test("two clients that ask at once get the same figures, of one child", async () => {
  const calls: (readonly string[])[] = [];
  const real = createExec();
  const exec: Exec = {
    run(argv, options) {
      calls.push(argv);
      return real.run(argv, options);
    },
  };
  const { read } = createReader({ exec });
  const [[one], [other]] = await Promise.all([read([claimed]), read([claimed])]);
  expect(one?.problem).toBeUndefined();
  expect(other).toEqual(one!);
  expect(calls).toHaveLength(1);
});

test("the child's own words say why there are no figures", async () => {
  const stale = "stat: cannot read file system information for '/v': Stale file handle";
  const exec: Exec = { run: (argv) => Promise.reject(new ExecError(argv, 1, `${stale}\n`, "stat exited with code 1")) };
  const [stats] = await createReader({ exec }).read([claimed]);
  expect(stats).toEqual({ name: "disk", kind: "persistentVolumeClaim", claim: "data", problem: stale });
});

test("two hundred volumes are measured, eight at a time", async () => {
  let [running, most] = [0, 0];
  const root = createFiles(folder);
  const { read } = createReader({
    root: {
      ...root,
      async usage(path, signal) {
        most = Math.max(most, ++running);
        const found = await root.usage(path, signal);
        running -= 1;
        return found;
      },
    },
  });
  const all = await read(Array.from({ length: 200 }, (_, n) => ({ ...emptyDir, name: `v${n}` })));
  expect(all.filter(({ usedBytes = 0 }) => usedBytes > 0).length).toBe(200);
  expect(most).toBe(8);
});
