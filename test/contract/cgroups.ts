import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Cgroups } from "../../cgroups/cgroups.ts";
import type { CgroupName } from "../../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../../proto/cgroup/limits.ts";

/** A process in a cgroup. */
export interface CgroupProcess {
  isRunning(): boolean | Promise<boolean>;
}

export interface CgroupsFixture {
  readonly cgroups: Cgroups;
  /** The kernel's names of its huge page sizes, as far as it has the hugetlb controller. */
  readonly hugePages: readonly string[];
  /** Another program writes a limit of memory. */
  changeMemoryMax(name: CgroupName, bytes: number): Promise<void> | void;
  /** Another program removes a cgroup without processes and cgroups below. */
  removeBehind(name: CgroupName): Promise<void> | void;
  /** Another program disables the controllers of a cgroup that has none below. */
  disableControllers(name: CgroupName): Promise<void> | void;
  startProcess(name: CgroupName): Promise<CgroupProcess> | CgroupProcess;
  /** How many cgroups were made and removed, and files written, by the agent. */
  writes(): number;
  /** How many calls to systemd; 0 with cgroupfs. */
  calls(): number;
  /** Removes what the tests have left. */
  end(): Promise<void> | void;
}

/** All tests are below this cgroup, so that they can run on a machine with others. */
const TOP = "berthcontract";
const parent: CgroupName = [TOP, "burstable"];
const pod: CgroupName = [...parent, "pod12-34"];

/** What a pod with a CPU limit and a memory limit gets. */
const limits: CgroupLimits = {
  cpuWeight: 20,
  cpuMax: { quotaUs: 50_000, periodUs: 100_000 },
  memoryMax: 64 * 1024 * 1024,
  pidsMax: 1000,
};

/**
 * The contract of `Cgroups`, for the fake, for a folder that imitates cgroup v2, and for a machine with cgroup v2. What only
 * the last can show: that the kernel accepts the values and enforces them, which files a controller really makes, and
 * that systemd and the agent do not undo each other's writes.
 */
export function cgroupsContract(title: string, make: () => Promise<CgroupsFixture>): void {
  describe(`cgroups: ${title}`, () => {
    let fixture: CgroupsFixture;
    let cgroups: Cgroups;
    beforeEach(async () => {
      fixture = await make();
      ({ cgroups } = fixture);
    });
    afterEach(async () => {
      await cgroups.remove([TOP]);
      await fixture.end();
    });
    const codeOf = (promise: Promise<unknown>) =>
      promise.then(
        () => "success",
        (error: { code?: string }) => error.code,
      );

    test("a cgroup is made with those above it, and found by name", async () => {
      expect(await cgroups.exists(pod)).toBe(false);
      await cgroups.make(pod, limits);
      for (const each of [[TOP], parent, pod]) expect(await cgroups.exists(each)).toBe(true);
      await cgroups.make([...parent, "poda"], {});
      await cgroups.make([TOP, "besteffort"], {});
      expect(await cgroups.children([TOP])).toEqual(["besteffort", "burstable"]);
      expect(await cgroups.children(parent)).toEqual(["pod12-34", "poda"]);
      expect(await cgroups.children(pod)).toEqual([]);
    });

    test("a new cgroup has the limits that it was made with, and the kernel's for the others", async () => {
      await cgroups.make(pod, limits);
      expect(await cgroups.read(pod)).toMatchObject({
        ...limits,
        memoryMin: 0,
        memoryLow: 0,
        memoryHigh: "max",
        killsAsGroup: false,
      });
      expect(await cgroups.read(parent)).toMatchObject({
        cpuWeight: 100,
        cpuMax: { quotaUs: "max", periodUs: 100_000 },
        memoryMax: "max",
      });
    });

    test("the same limits again cost no write and no call", async () => {
      const all: CgroupLimits = {
        ...limits,
        cpus: "0",
        memoryMin: 4096,
        memoryLow: 1_000_001,
        memoryHigh: 50_000_000,
        memorySwapMax: 0,
        killsAsGroup: true,
        hugetlbMax: Object.fromEntries(fixture.hugePages.map((size) => [size, 2 ** 62])),
      };
      await cgroups.make(pod, all);
      const before = [fixture.writes(), fixture.calls()];
      await cgroups.make(pod, all);
      await cgroups.write(pod, all);
      expect([fixture.writes(), fixture.calls()]).toEqual(before);
    });

    test("the start of a pod, with the new weight of its class, costs at most twelve writes and two calls", async () => {
      await cgroups.make(parent, {});
      const before = [fixture.writes(), fixture.calls()] as const;
      const hugetlbMax = Object.fromEntries(fixture.hugePages.map((size) => [size, 0]));
      await cgroups.make(pod, { ...limits, memoryMin: 0, memoryLow: 1 << 20, hugetlbMax });
      await cgroups.write(parent, { cpuWeight: 20 });
      expect(fixture.writes() - before[0]).toBeLessThanOrEqual(12);
      expect(fixture.calls() - before[1]).toBeLessThanOrEqual(cgroups.driver === "systemd" ? 2 : 0);
    });

    test("each limit is read back as it was written, and its removal too", async () => {
      const set: CgroupLimits = {
        cpuWeight: 10_000,
        cpuMax: { quotaUs: 1_500_000, periodUs: 50_000 },
        cpus: "0",
        memoryMin: 1 << 20,
        memoryLow: 2 << 20,
        memoryHigh: 3 << 20,
        memoryMax: 4 << 20,
        killsAsGroup: true,
        pidsMax: 1,
      };
      const unset: CgroupLimits = {
        cpuWeight: 1,
        cpuMax: { quotaUs: "max", periodUs: 100_000 },
        memoryMin: 0,
        memoryLow: 0,
        memoryHigh: "max",
        memoryMax: "max",
        killsAsGroup: false,
        pidsMax: "max",
      };
      await cgroups.make(pod, set);
      expect(await cgroups.read(pod)).toMatchObject(set);
      await cgroups.write(pod, unset);
      expect(await cgroups.read(pod)).toMatchObject(unset);
    });

    test("memory is rounded down to pages, without a second write; no digit of a large number is lost", async () => {
      await cgroups.make(pod, { memoryMax: 10_000_001, memoryHigh: 2 ** 62 });
      expect(await cgroups.read(pod)).toMatchObject({ memoryMax: 9_998_336, memoryHigh: 2 ** 62 });
      const before = fixture.writes();
      await cgroups.write(pod, { memoryMax: 10_000_001, memoryHigh: 2 ** 62 });
      expect(fixture.writes()).toBe(before);
    });

    test("systemd has whole percents of a CPU, cgroupfs what is written", async () => {
      await cgroups.make(pod, { cpuMax: { quotaUs: 1_500, periodUs: 100_000 } });
      const quotaUs = cgroups.driver === "systemd" ? 2_000 : 1_500;
      expect((await cgroups.read(pod)).cpuMax).toEqual({ quotaUs, periodUs: 100_000 });
    });

    test("huge pages are limited by size, where the kernel has them", async () => {
      const hugetlbMax = Object.fromEntries(fixture.hugePages.map((size, index) => [size, index === 0 ? 2 ** 22 : 0]));
      await cgroups.make(pod, { hugetlbMax: fixture.hugePages.length === 0 ? { "2MB": 0 } : hugetlbMax });
      const read = (await cgroups.read(pod)).hugetlbMax;
      expect(read).toEqual(fixture.hugePages.length === 0 ? undefined : hugetlbMax);
    });

    test("a limit that another program has changed is repaired, and nothing else is written", async () => {
      await cgroups.make(pod, limits);
      await fixture.changeMemoryMax(pod, 1 << 30);
      const before = fixture.writes();
      await cgroups.write(pod, limits);
      expect((await cgroups.read(pod)).memoryMax).toBe(limits.memoryMax ?? 0);
      expect(fixture.writes() - before).toBeLessThanOrEqual(1);
    });

    test("a cgroup that another program has removed is absent, and can be made again", async () => {
      await cgroups.make(pod, limits);
      await fixture.removeBehind(pod);
      expect(await cgroups.exists(pod)).toBe(false);
      for (const call of [cgroups.write(pod, limits), cgroups.read(pod), cgroups.stats(pod)])
        expect(await codeOf(call)).toBe("ENOENT");
      await cgroups.make(pod, limits);
      expect(await cgroups.exists(pod)).toBe(true);
      expect(await cgroups.read(pod)).toMatchObject(limits);
    });

    test("a cgroup without its controllers counts as absent, and gets those back that a limit needs", async () => {
      await cgroups.make(pod, limits);
      await fixture.disableControllers(pod);
      expect(await cgroups.exists(pod)).toBe(false);
      await cgroups.write(pod, { memoryMax: 8192, pidsMax: 10 });
      expect(await cgroups.read(pod)).toMatchObject({ memoryMax: 8192, pidsMax: 10 });
      await cgroups.make(pod, limits);
      expect(await cgroups.exists(pod)).toBe(true);
      expect(await cgroups.read(pod)).toMatchObject(limits);
    });

    test("a value that the kernel rejects is named with its file, and the other limits stay", async () => {
      await cgroups.make(pod, limits);
      const rejected = cgroups.write(pod, { pidsMax: 5_000_000 });
      await expect(rejected).rejects.toMatchObject({ name: "CgroupError", code: "EINVAL", value: "5000000" });
      await expect(rejected).rejects.toMatchObject({ file: expect.stringMatching(/pod12.34.*\/pids\.max$/) });
      expect(await cgroups.read(pod)).toMatchObject(limits);
    });

    test("a removal kills what runs in the cgroup and below, and leaves the others", async () => {
      await cgroups.make(pod, limits);
      await cgroups.make([...pod, "inner"], {});
      await cgroups.make([...parent, "podb"], {});
      const killed = [await fixture.startProcess([...pod, "inner"])];
      const other = await fixture.startProcess([...parent, "podb"]);
      await cgroups.remove(pod);
      expect(await Promise.all(killed.map((process) => process.isRunning()))).toEqual([false]);
      expect(await other.isRunning()).toBe(true);
      expect(await cgroups.children(parent)).toEqual(["podb"]);
    });

    test("what is absent is removed with success, and has no children", async () => {
      await cgroups.remove(pod);
      await cgroups.make(pod, {});
      for (let time = 0; time < 2; time++) await cgroups.remove([TOP]);
      expect(await cgroups.children([TOP])).toEqual([]);
      expect(await cgroups.exists([TOP])).toBe(false);
    });

    test("stats count processes, memory and CPU time, from zero on", async () => {
      await cgroups.make(pod, limits);
      const unused = await cgroups.stats(pod);
      expect(unused).toMatchObject({ pids: { current: 0 }, cpu: { usageUs: 0 }, memory: { oomKills: 0 } });
      await fixture.startProcess(pod);
      const { pids, cpu, memory } = await cgroups.stats(pod);
      expect(pids).toEqual({ current: 1 });
      expect(memory?.workingSetBytes).toBeLessThanOrEqual(memory?.currentBytes ?? -1);
      expect((cpu?.userUs ?? -1) + (cpu?.systemUs ?? -1)).toBeGreaterThanOrEqual(0);
    });

    test("a hostile name is refused before anything is made, read or removed", async () => {
      const before = fixture.writes();
      const hostile = ["", ".", "..", "a/b", "../../etc", "a\0b", "a\nb", "x".repeat(300)];
      for (const element of hostile) {
        const name = [TOP, element, "pod1"];
        const calls = [
          cgroups.make(name, {}),
          cgroups.write(name, {}),
          cgroups.remove(name),
          cgroups.exists(name),
          cgroups.children(name),
          cgroups.read(name),
          cgroups.stats(name),
        ];
        expect([element, ...(await Promise.all(calls.map(codeOf)))]).toEqual([element, ...calls.map(() => "ENAME")]);
        expect(() => cgroups.criParent(name)).toThrow(expect.objectContaining({ code: "ENAME" }));
      }
      expect(fixture.writes()).toBe(before);
    });

    test("the runtime gets the path with cgroupfs, and the slice's name with systemd", () => {
      const expected = { cgroupfs: `/${TOP}/burstable/pod12-34`, systemd: `${TOP}-burstable-pod12_34.slice` };
      expect(cgroups.criParent(pod)).toEndWith(expected[cgroups.driver]);
    });
  });
}
