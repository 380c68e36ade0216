import { beforeEach, expect, test } from "bun:test";
import { kubepods } from "../../../proto/cgroup/cgroup-name.ts";
import { FakeCgroups } from "../../../test/fakes/cgroups.ts";
import { makeWithinUse, writeWithinUse } from "./cgroup-limits.ts";

let cgroups: FakeCgroups;
beforeEach(() => {
  cgroups = new FakeCgroups();
});

const writers = [
  ["made", makeWithinUse],
  ["written", writeWithinUse],
] as const;

const limits = { cpuWeight: 20, memoryMax: 8192 };

function useMemory(bytes: number): void {
  cgroups.add(kubepods);
  cgroups.useMemory(kubepods, bytes);
}

test.each(writers)("all limits are %s above what the cgroup uses", async (_, write) => {
  useMemory(8191);
  await write(cgroups, kubepods, limits);
  expect(cgroups.limitsOf(kubepods)).toMatchObject(limits);
});

test.each(writers)("a memory limit that the cgroup exceeds is not %s; the others are", async (_, write) => {
  useMemory(8192);
  await expect(write(cgroups, kubepods, limits)).rejects.toMatchObject({
    ...{ name: "CgroupError", code: "EINUSE", file: "kubepods", value: "8192" },
    message: expect.stringContaining(
      "cgroup kubepods uses 8192 bytes of memory without its page cache, and its limit is 8192",
    ),
  });
  expect(cgroups.limitsOf(kubepods)).toMatchObject({ cpuWeight: 20, memoryMax: "max" });
});

test.each(writers)(
  "a memory limit below the page cache is %s: the kernel takes pages of files back",
  async (_, write) => {
    cgroups.add(kubepods);
    cgroups.useMemory(kubepods, 2 ** 30, { activeFileBytes: 2 ** 29, inactiveFileBytes: 2 ** 29 - 8191 });
    await write(cgroups, kubepods, limits);
    expect(cgroups.limitsOf(kubepods)).toMatchObject(limits);
  },
);

test("a cgroup that lacks other controllers, such as the cpuset that systemd turns off, uses its memory all the same", async () => {
  useMemory(8192);
  cgroups.disableControllers(kubepods);
  await expect(makeWithinUse(cgroups, kubepods, limits)).rejects.toMatchObject({ code: "EINUSE" });
  expect(cgroups.limitsOf(kubepods)).toMatchObject({ cpuWeight: 20, memoryMax: "max" });
});

test("an absent cgroup is made with all limits, and that of another program is not made", async () => {
  await expect(writeWithinUse(cgroups, kubepods, limits)).rejects.toMatchObject({ code: "ENOENT" });
  expect(cgroups.names).toEqual([]);
  await makeWithinUse(cgroups, kubepods, limits);
  expect(cgroups.limitsOf(kubepods)).toMatchObject(limits);
});
