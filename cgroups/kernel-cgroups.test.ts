import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { mkdtemp, realpath, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { podCgroupName, qosParents } from "../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../proto/cgroup/limits.ts";
import { type ImitatedCgroupV2, type ImitationOptions, imitateCgroupV2 } from "../test/fakes/cgroup-v2.ts";
import { FakeClock, settlePromises } from "../test/fakes/clock.ts";
import { recordWrites } from "../test/fakes/counted-writes.ts";
import type { Cgroups } from "./cgroups.ts";
import { toCgroupError } from "./error.ts";
import type { CgroupFiles } from "./files.ts";
import { createCgroups } from "./kernel-cgroups.ts";

const pod = podCgroupName("1", "Burstable");
let root: string;
let clock: FakeClock;

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), "berth-cgroups-")));
  clock = new FakeClock();
});
afterEach(() => rm(root, { recursive: true }));

function start(
  options: ImitationOptions = {},
  change: (files: CgroupFiles) => CgroupFiles = (files) => files,
): { tree: ImitatedCgroupV2; cgroups: Cgroups; writes: string[] } {
  const tree = imitateCgroupV2(root, options);
  const { files, writes } = recordWrites(change(tree.files));
  const sizes = { pageBytes: 4096, hugePageSizes: [2 ** 21] };
  const cgroups = createCgroups({ root, cgroupRoot: "/", systemd: undefined, sizes, files, clock });
  return { tree, cgroups, writes };
}

const relative = (writes: readonly string[]) => writes.map((line) => line.replaceAll(`${root}/`, ""));

test("a pod's cgroup is made from the top down, with the controllers that pods use and the limits that differ", async () => {
  const { cgroups, writes } = start();
  const limits: CgroupLimits = { cpuWeight: 100, memoryMax: 4096, hugetlbMax: { "2MB": 0 } };
  await cgroups.make(pod, limits);
  const enable = "+cpu +cpuset +memory +hugetlb +pids +io";
  expect(relative(writes)).toEqual([
    `write cgroup.subtree_control ${enable}`,
    "make kubepods",
    `write kubepods/cgroup.subtree_control ${enable}`,
    "make kubepods/burstable",
    `write kubepods/burstable/cgroup.subtree_control ${enable}`,
    "make kubepods/burstable/pod1",
    "write kubepods/burstable/pod1/memory.max 4096",
    "write kubepods/burstable/pod1/hugetlb.2MB.max 0",
    "write kubepods/burstable/pod1/hugetlb.2MB.rsvd.max 0",
  ]);
});

test("only controllers that the kernel has are enabled, and only those that are not", async () => {
  const { cgroups, writes, tree } = start({ controllers: ["cpu", "memory", "rdma"] });
  await tree.files.write(`${root}/cgroup.subtree_control`, "+memory");
  await cgroups.make(["kubepods"], { hugetlbMax: { "2MB": 0 } });
  expect(relative(writes)).toEqual(["write cgroup.subtree_control +cpu", "make kubepods"]);
  expect(await cgroups.exists(["kubepods"])).toBe(true);
});

test("on a kernel without cpuset and hugetlb, the first write of kubepods has the other limits", async () => {
  const { cgroups } = start({ controllers: ["cpu", "memory", "pids"] });
  await cgroups.make(["kubepods"], { cpuWeight: 20, cpus: "0-3", memoryMax: 8192, hugetlbMax: { "2MB": 0 } });
  expect(await cgroups.read(["kubepods"])).toMatchObject({ cpuWeight: 20, memoryMax: 8192 });
});

test("a controller that the kernel lacks is named with the file and the value", async () => {
  const { cgroups } = start({ controllers: ["cpu", "cpuset", "pids"] });
  await expect(cgroups.make(pod, { memoryMax: 4096 })).rejects.toMatchObject({
    code: "ECONTROLLER",
    file: `${root}/kubepods/burstable/pod1/memory.max`,
    value: "4096",
    message: expect.stringContaining("memory is not enabled in cgroup.subtree_control of the cgroup above"),
  });
});

describe("what the kernel refuses is named with the file and the value", () => {
  for (const code of ["EINVAL", "EBUSY", "ENOSPC", "EOPNOTSUPP", "ERANGE"])
    test(code, async () => {
      const { cgroups } = start({}, (files) => ({
        ...files,
        async write(file, value) {
          const error = Object.assign(new Error(code), { code });
          if (file.endsWith("memory.max")) throw toCgroupError("write", file, value, error);
          await files.write(file, value);
        },
      }));
      const file = `${root}/kubepods/burstable/pod1/memory.max`;
      const made = cgroups.make(pod, { memoryMax: 8192 });
      await expect(made).rejects.toMatchObject({ name: "CgroupError", code, file, value: "8192" });
      await expect(made).rejects.toThrow(`cannot write "8192" to ${file}: ${code}`);
      await expect(made).rejects.toMatchObject({ cause: { code } });
    });

  test("the limit of cgroups, by the folder", async () => {
    const { cgroups } = start({}, (files) => ({
      ...files,
      async makeFolder(folder) {
        const error = Object.assign(new Error("ENOSPC"), { code: "ENOSPC" });
        if (folder.endsWith("pod1")) throw toCgroupError("make", folder, undefined, error);
        return await files.makeFolder(folder);
      },
    }));
    await expect(cgroups.make(pod, {})).rejects.toMatchObject({ code: "ENOSPC", value: undefined });
  });
});

test("a root without cgroup v2 is named", async () => {
  const { cgroups } = start();
  await rm(join(root, "cgroup.controllers"));
  const message = `${root}/cgroup.controllers does not exist: cgroup v2 is not mounted at ${root}`;
  await expect(cgroups.make(pod, {})).rejects.toMatchObject({ code: "ENOENT", message });
});

test("a process that SIGKILL does not end leaves the cgroup, with an error after ten seconds", async () => {
  const { cgroups, tree } = start();
  await cgroups.make(pod, {});
  tree.stuck.add(77);
  tree.addProcess(`${root}/kubepods/burstable/pod1`, 77);
  const failure = cgroups.remove(pod).catch((error: unknown) => error);
  await clock.advance(10_000);
  expect(await failure).toMatchObject({ code: "ETIMEDOUT", file: `${root}/kubepods/burstable/pod1` });
  expect(await cgroups.exists(pod)).toBe(true);
  expect(clock.pendingTimers).toBe(0);
  tree.stuck.clear();
  await cgroups.remove(pod);
  expect(await cgroups.children(qosParents.Burstable)).toEqual([]);
  expect(clock.pendingTimers).toBe(0);
});

test("a removal that is aborted does not wait for the end of its processes", async () => {
  const { cgroups, tree } = start();
  await cgroups.make(pod, {});
  tree.stuck.add(77);
  tree.addProcess(`${root}/kubepods/burstable/pod1`, 77);
  const abort = new AbortController();
  const removal = cgroups.remove(pod, abort.signal).catch((error: unknown) => error);
  while (clock.pendingTimers === 0) await settlePromises();
  abort.abort(new Error("the agent stops"));
  expect(await removal).toEqual(new Error("the agent stops"));
  expect(clock.pendingTimers).toBe(0);
});

test("after a removal nothing is watched", async () => {
  const watches: AbortSignal[] = [];
  const { cgroups, tree } = start({}, (files) => ({
    ...files,
    watch(file, onChanged, signal) {
      watches.push(signal);
      files.watch(file, onChanged, signal);
    },
  }));
  await cgroups.make(pod, {});
  tree.addProcess(`${root}/kubepods/burstable/pod1`, 77);
  await cgroups.remove(pod);
  expect(watches.map(({ aborted }) => aborted)).toEqual([true]);
});

test("a removal begins again when a cgroup appears meanwhile, and gives up when that goes on", async () => {
  let appearances = 1;
  const { cgroups } = start({}, (files) => ({
    ...files,
    async removeFolder(folder) {
      if (folder.endsWith("pod1") && appearances > 0) {
        appearances -= 1;
        await files.makeFolder(`${folder}/new${appearances}`);
      }
      await files.removeFolder(folder);
    },
  }));
  await cgroups.make(pod, {});
  await cgroups.remove(pod);
  expect(await cgroups.exists(pod)).toBe(false);
  await cgroups.make(pod, {});
  appearances = 100;
  await expect(cgroups.remove(pod)).rejects.toMatchObject({ code: "EBUSY" });
  appearances = 0;
});

test("the root itself has CPU time and no limits", async () => {
  const { cgroups } = start();
  expect(await cgroups.read([])).toEqual({});
  expect(await cgroups.stats([])).toMatchObject({ cpu: { usageUs: 0 } });
  expect((await cgroups.stats([])).memory).toBeUndefined();
});

test("a file that holds nonsense is an error that names it", async () => {
  const { cgroups } = start();
  await cgroups.make(pod, {});
  await writeFile(`${root}/kubepods/burstable/pod1/memory.current`, "lots\n");
  await expect(cgroups.stats(pod)).rejects.toMatchObject({ code: "EPARSE", file: "memory.current", value: "lots" });
});
