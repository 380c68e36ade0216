import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { makeWithinUse } from "../../../agent/act/performers/cgroup-limits.ts";
import type { Cgroups } from "../../../cgroups/cgroups.ts";
import { watchIsPopulated } from "../../../cgroups/events.ts";
import { createCgroupFiles } from "../../../cgroups/files.ts";
import { createClock } from "../../../host/clock.ts";
import type { CgroupName } from "../../../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";
import type { CgroupDriver } from "../../../proto/kubelet/config.ts";
import { pollUntil } from "../../bed/poll-until.ts";
import { createKernelFixture, type KernelFixture, runProgram } from "./kernel-fixture.ts";

/** Another one than that of the contract, so that a failure there leaves nothing here. */
const TOP = "berthkernel";
const parent: CgroupName = [TOP, "burstable"];
const pod: CgroupName = [...parent, "pod12-34"];
const sibling: CgroupName = [...parent, "pod56-78"];
const STEP_TIMEOUT_MS = 60_000;

/** A limit in each file that a pod may have. */
const limitsWith = (hugePages: readonly string[]): CgroupLimits => ({
  cpuWeight: 20,
  cpuMax: { quotaUs: 50_000, periodUs: 100_000 },
  cpus: "0",
  memoryMin: 1 << 20,
  memoryLow: 2 << 20,
  memoryHigh: 60 << 20,
  memoryMax: 64 << 20,
  killsAsGroup: true,
  pidsMax: 1000,
  hugetlbMax: Object.fromEntries(hugePages.map((size) => [size, 2 ** 30])),
});

/** What only the kernel and systemd themselves show, on a machine with both, for root. */
export function kernelContract(driver: CgroupDriver): void {
  describe(`the kernel's cgroups, with ${driver}`, () => {
    let fixture: KernelFixture;
    let cgroups: Cgroups;
    let limits: CgroupLimits;
    beforeEach(() => {
      fixture = createKernelFixture(driver);
      ({ cgroups } = fixture);
      const { killsAsGroup, ...lasting } = limitsWith(fixture.hugePages);
      limits = driver === "systemd" ? lasting : { ...lasting, killsAsGroup: killsAsGroup! };
    });
    afterEach(() => cgroups.remove([TOP]));
    const errorOf = (promise: Promise<unknown>) =>
      promise.then(
        () => ({ code: "success", file: "", message: "" }),
        ({ code, file, message }: { code: string; file: string; message: string }) => ({ code, file, message }),
      );

    rejectionTests(driver, () => ({ fixture, cgroups, limits, errorOf }));
    processTests(() => ({ fixture, cgroups, limits }));
    if (driver === "systemd") systemdTests(() => ({ fixture, cgroups, limits }));
    else reloadWithoutSystemd(() => ({ fixture, cgroups, limits }));
  });
}

interface Given {
  readonly fixture: KernelFixture;
  readonly cgroups: Cgroups;
  readonly limits: CgroupLimits;
}

function rejectionTests(
  driver: CgroupDriver,
  given: () => Given & {
    errorOf(promise: Promise<unknown>): Promise<{ code: string; file: string; message: string }>;
  },
): void {
  const isSystemd = driver === "systemd";
  const rejected: readonly (readonly [string, CgroupLimits, string])[] = [
    [
      "a period of CPU of ten seconds",
      { cpuMax: { quotaUs: 1_000_000, periodUs: 10_000_000 } },
      "cpu.max: EINVAL, the kernel rejects the value",
    ],
    [
      "a CPU that no machine has",
      { cpus: "999999" },
      isSystemd ? "Numerical result out of range" : "cpuset.cpus: ERANGE, the value is out of the kernel's range",
    ],
    ["more processes than the kernel has", { pidsMax: 5_000_000 }, "pids.max: EINVAL, the kernel rejects the value"],
  ];
  test.each(rejected)("%s: rejected in words; the other limits stay, and can be written", async (_, wrong, words) => {
    const { fixture, cgroups, limits, errorOf } = given();
    await cgroups.make(pod, limits);
    const { message } = await errorOf(cgroups.write(pod, wrong));
    expect(message).toEndWith(words);
    expect(message).toContain(fixture.path(pod).split("/").at(-1) ?? "");
    // systemd writes the nearest period that the kernel accepts.
    const { cpuMax, ...others } = limits;
    const stays = isSystemd && "cpuMax" in wrong ? others : { ...others, cpuMax };
    expect(await cgroups.read(pod)).toMatchObject(stays);
    await cgroups.write(pod, { ...limits, cpuWeight: 30 });
    expect(await cgroups.read(pod)).toMatchObject({ ...limits, cpuWeight: 30 });
  });

  test("a weight out of range is refused: by systemd in its words, else by the kernel", async () => {
    const { cgroups, limits, errorOf } = given();
    await cgroups.make(pod, limits);
    const { code, message } = await errorOf(cgroups.write(pod, { cpuWeight: 20_000 }));
    expect(code).toBe(isSystemd ? "ESYSTEMD" : "ERANGE");
    expect(message).toContain(isSystemd ? "InvalidArgs" : "ERANGE, the value is out of the kernel's range");
    expect(await cgroups.read(pod)).toMatchObject(limits);
  });

  test("a process in a cgroup keeps those below from having controllers; its sibling is made", async () => {
    const { fixture, cgroups, limits, errorOf } = given();
    await cgroups.make(pod, {});
    await fixture.startInside(pod, ["sleep", "1000"]);
    const { code, file } = await errorOf(cgroups.make([...pod, "inner"], limits));
    // systemd has enabled those by then that a cgroup with threads can have, and the kernel says so.
    const expected = isSystemd ? "EOPNOTSUPP" : "EBUSY";
    expect([code, file]).toEqual([expected, `${fixture.path(pod)}/cgroup.subtree_control`]);
    await cgroups.make(sibling, limits);
    expect(await cgroups.read(sibling)).toMatchObject(limits);
  });

  test("the CPUs of a process cannot be taken away: ENOSPC", async () => {
    const { fixture, cgroups, errorOf } = given();
    await cgroups.make(pod, { cpus: "0" });
    await fixture.startInside(pod, ["sleep", "1000"]);
    const { code, file } = await errorOf(cgroups.write(pod, { cpus: "" }));
    expect([code, file]).toEqual(["ENOSPC", `${fixture.path(pod)}/cpuset.cpus`]);
    expect((await cgroups.read(pod)).cpus).toBe("0");
  });

  test("the limit of another program on cgroups below is an error that names the folder, and nothing else fails", async () => {
    const { fixture, cgroups, limits, errorOf } = given();
    await cgroups.make(sibling, limits);
    const files = createCgroupFiles();
    await files.write(`${fixture.path(parent)}/cgroup.max.descendants`, "1");
    const { code, message } = await errorOf(files.makeFolder(fixture.path(pod)));
    expect(code).toBe("EAGAIN");
    expect(message).toEndWith("EAGAIN, a limit of the number or depth of cgroups is reached");
    await files.write(`${fixture.path(parent)}/cgroup.max.descendants`, "max");
    await cgroups.make(pod, limits);
    expect(await cgroups.read(pod)).toMatchObject(limits);
  });

  test("a cgroup with threads alone supports no memory limit: EOPNOTSUPP", async () => {
    const { fixture, cgroups, errorOf } = given();
    await cgroups.make(pod, {});
    const files = createCgroupFiles();
    const threaded = `${fixture.path(pod)}/threaded`;
    await files.makeFolder(threaded);
    await files.write(`${threaded}/cgroup.type`, "threaded");
    await files.makeFolder(`${threaded}/invalid`);
    const { code, message } = await errorOf(files.write(`${threaded}/invalid/cgroup.procs`, String(process.pid)));
    expect([code, message]).toEqual(["EOPNOTSUPP", expect.stringContaining("the kernel does not support it here")]);
  });
}

function processTests(given: () => Given): void {
  test("a removal ends by cgroup.kill what ignores SIGTERM and starts others", async () => {
    const { fixture, cgroups } = given();
    await cgroups.make(pod, {});
    const stubborn = await fixture.startInside(pod, ["sh", "-c", `trap "" TERM; while :; do sleep 1000 & wait; done`]);
    await pollUntil("its child", STEP_TIMEOUT_MS, async () => (await cgroups.stats(pod)).pids?.current === 2);
    await cgroups.remove(pod);
    expect(fixture.changes).toContain(`write ${fixture.path(pod)}/cgroup.kill 1`);
    expect(await stubborn.isRunning()).toBe(false);
    expect(await cgroups.exists(pod)).toBe(false);
  });

  test("the kernel notifies the first process of a cgroup and the end of its last, which ends a watch that does not poll", async () => {
    const { fixture, cgroups } = given();
    await cgroups.make(pod, {});
    const reports: (boolean | undefined)[] = [];
    const stop = new AbortController();
    let wake = () => {};
    const onReport = (isPopulated: boolean | undefined) => {
      if (isPopulated !== reports.at(-1)) reports.push(isPopulated);
      wake();
    };
    const untilReported = async (isPopulated: boolean) => {
      while (reports.at(-1) !== isPopulated) await new Promise<void>((resolve) => (wake = resolve));
    };
    watchIsPopulated({ files: createCgroupFiles(), clock: createClock() }, fixture.path(pod), onReport, stop.signal);
    await fixture.startProcess(pod);
    await untilReported(true);
    await createCgroupFiles().write(`${fixture.path(pod)}/cgroup.kill`, "1");
    await untilReported(false);
    expect(reports).toEqual([false, true, false]);
    stop.abort();
  });

  test("a memory limit below the page cache is reached without a kill; one below the memory of processes is not written", async () => {
    const { fixture, cgroups } = given();
    await cgroups.make(pod, {});
    const file = `/var/page-cache-${cgroups.driver}`;
    const command = `dd if=/dev/zero of="$0" bs=1M count=48 conv=fsync 2> /dev/null; : > "$0.written"; while :; do sleep 1000; done`;
    const process = await fixture.startInside(pod, ["sh", "-c", command, file]);
    const memoryOf = async () => (await cgroups.stats(pod)).memory!;
    await pollUntil("the end of dd", STEP_TIMEOUT_MS, async () => existsSync(`${file}.written`));
    expect((await memoryOf()).fileBytes).toBeGreaterThanOrEqual(48 << 20);
    await makeWithinUse(cgroups, pod, { memoryMax: 24 << 20 });
    expect(await cgroups.read(pod)).toMatchObject({ memoryMax: 24 << 20 });
    const { currentBytes, oomKills } = await memoryOf();
    expect(currentBytes).toBeLessThanOrEqual(24 << 20);
    expect([oomKills, await process.isRunning()]).toEqual([0, true]);
    await expect(makeWithinUse(cgroups, pod, { memoryMax: 4096 })).rejects.toMatchObject({ code: "EINUSE" });
    expect(await cgroups.read(pod)).toMatchObject({ memoryMax: 24 << 20 });
    for (const each of [file, `${file}.written`]) await rm(each);
  });

  test("stats have what the kernel counts of a busy process", async () => {
    const { fixture, cgroups, limits } = given();
    await cgroups.make(pod, limits);
    await fixture.startInside(pod, ["sh", "-c", "while :; do :; done"]);
    await pollUntil("CPU time", STEP_TIMEOUT_MS, async () => (await cgroups.stats(pod)).cpu!.usageUs > 100_000);
    const { cpu, memory, psi, hugetlb } = await cgroups.stats(pod);
    expect(cpu).toMatchObject({ usageUs: expect.any(Number) });
    expect(memory!.currentBytes).toBeGreaterThan(0);
    expect(memory!.peakBytes).toBeGreaterThanOrEqual(memory!.currentBytes);
    for (const pressure of [psi?.cpu, psi?.memory, psi?.io]) expect(pressure).toHaveProperty("some.totalUs");
    expect(Object.keys(hugetlb ?? {})).toEqual([...fixture.hugePages]);
  });
}

const systemctl = (...args: readonly string[]) => runProgram("systemctl", ...args);

function reloadWithoutSystemd(given: () => Given): void {
  test.each(["daemon-reload", "daemon-reexec"])(
    "systemd's %s leaves the cgroups that it does not know",
    async (command) => {
      const { fixture, cgroups, limits } = given();
      await cgroups.make(pod, limits);
      const process = await fixture.startProcess(pod);
      const before = await cgroups.read(pod);
      await systemctl(command);
      expect(await cgroups.read(pod)).toEqual(before);
      expect([await cgroups.exists(pod), await process.isRunning()]).toEqual([true, true]);
    },
  );
}

function systemdTests(given: () => Given): void {
  test("systemd has each limit that it has words for", async () => {
    const { fixture, cgroups, limits } = given();
    await cgroups.make(pod, limits);
    await cgroups.write(pod, { cpuWeight: 30 });
    const shown = await systemctl(
      "show",
      fixture.unit(pod),
      "--property=CPUWeight,CPUQuotaPerSecUSec,AllowedCPUs,MemoryMin,MemoryLow,MemoryHigh,MemoryMax,TasksMax",
    );
    expect(shown.split("\n").toSorted()).toEqual([
      "AllowedCPUs=0",
      "CPUQuotaPerSecUSec=500ms",
      "CPUWeight=30",
      `MemoryHigh=${limits.memoryHigh}`,
      `MemoryLow=${limits.memoryLow}`,
      `MemoryMax=${limits.memoryMax}`,
      `MemoryMin=${limits.memoryMin}`,
      `TasksMax=${limits.pidsMax}`,
    ]);
  });

  test.each(["daemon-reload", "daemon-reexec"])(
    "systemd's %s keeps every limit, those that it has no words for too",
    async (command) => {
      const { fixture, cgroups, limits } = given();
      await cgroups.make(parent, { cpuWeight: 40 });
      await cgroups.make(pod, limits);
      const process = await fixture.startProcess(pod);
      const before = [await cgroups.read(parent), await cgroups.read(pod)];
      expect(before[1]).toMatchObject(limits);
      await systemctl(command);
      expect([await cgroups.read(parent), await cgroups.read(pod)]).toEqual(before);
      expect([await cgroups.exists(pod), await process.isRunning()]).toEqual([true, true]);
      const writes = fixture.writes();
      await cgroups.make(pod, limits);
      expect(fixture.writes()).toBe(writes);
      // The connection is a new one after a new systemd.
      await cgroups.make(sibling, limits);
      expect(await cgroups.read(sibling)).toMatchObject(limits);
    },
  );

  test("systemd writes memory.oom.group with a change of a slice, and the next write repairs it", async () => {
    const { cgroups, limits } = given();
    await cgroups.make(pod, { ...limits, killsAsGroup: true });
    expect((await cgroups.read(pod)).killsAsGroup).toBe(true);
    await systemctl("daemon-reload");
    await cgroups.write(pod, { cpuWeight: 30 });
    await pollUntil("systemd's write", STEP_TIMEOUT_MS, async () => (await cgroups.read(pod)).killsAsGroup === false);
    await cgroups.write(pod, { killsAsGroup: true });
    expect((await cgroups.read(pod)).killsAsGroup).toBe(true);
  });

  test("units that start and stop beside a pod do not undo its limits", async () => {
    const { fixture, cgroups, limits } = given();
    await cgroups.make(pod, limits);
    const before = await cgroups.read(pod);
    await fixture.startProcess(sibling);
    expect(await cgroups.exists(sibling)).toBe(true);
    await systemctl("stop", fixture.unit(sibling));
    await systemctl("daemon-reload");
    expect(await cgroups.read(pod)).toEqual(before);
    expect(await cgroups.exists(pod)).toBe(true);
  });

  test("a limit that another program has set with systemd is repaired in both", async () => {
    const { fixture, cgroups, limits } = given();
    await cgroups.make(pod, limits);
    await systemctl("set-property", "--runtime", fixture.unit(pod), "MemoryMax=1G");
    expect((await cgroups.read(pod)).memoryMax).toBe(2 ** 30);
    await cgroups.write(pod, limits);
    await systemctl("daemon-reload");
    expect((await cgroups.read(pod)).memoryMax).toBe(limits.memoryMax!);
  });

  test("a slice that another program has stopped is absent, and can be made again", async () => {
    const { fixture, cgroups, limits } = given();
    await cgroups.make(pod, limits);
    await systemctl("stop", fixture.unit(pod));
    expect(await cgroups.exists(pod)).toBe(false);
    await cgroups.make(pod, limits);
    expect(await cgroups.read(pod)).toMatchObject(limits);
  });
}
