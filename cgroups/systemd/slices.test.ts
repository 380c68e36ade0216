import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtemp, realpath, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type CgroupName, podCgroupName } from "../../proto/cgroup/cgroup-name.ts";
import { type ImitatedCgroupV2, imitateCgroupV2 } from "../../test/fakes/cgroup-v2.ts";
import { FakeClock } from "../../test/fakes/clock.ts";
import type { Cgroups } from "../cgroups.ts";
import { ownCgroupError } from "../error.ts";
import { createCgroups } from "../kernel-cgroups.ts";
import type { Systemd } from "./systemd.ts";
import { propertiesText } from "./unit-properties.ts";

const pod: CgroupName = podCgroupName("1-2", "Burstable");
const podSlice = "kubepods-burstable-pod1_2.slice";
let root: string;
let tree: ImitatedCgroupV2;
let cgroups: Cgroups;
/** The calls to systemd, with the properties that are limits. */
let calls: string[];
let units: Set<string>;
let onStop: () => void;

const podFolder = () => `${root}/kubepods.slice/kubepods-burstable.slice/${podSlice}`;

beforeEach(async () => {
  root = await realpath(await mkdtemp(join(tmpdir(), "berth-slices-")));
  tree = imitateCgroupV2(root);
  calls = [];
  units = new Set();
  onStop = () => {};
  const systemd: Systemd = {
    async startSlice(unit, parent, properties) {
      calls.push(`start ${unit} in ${parent ?? "the root"}: ${propertiesText(properties)}`);
      const isNew = !units.has(unit);
      units.add(unit);
      return isNew;
    },
    async setProperties(unit, properties) {
      calls.push(`set ${unit}: ${propertiesText(properties)}`);
    },
    async stop(unit) {
      calls.push(`stop ${unit}`);
      onStop();
      units.delete(unit);
    },
  };
  const sizes = { pageBytes: 4096, hugePageSizes: [2 ** 21] };
  cgroups = createCgroups({ root, cgroupRoot: "/", systemd, sizes, files: tree.files, clock: new FakeClock() });
});
afterEach(() => rm(root, { recursive: true }));

test("slices start from the top down, each below the one before, and the last with the limits", async () => {
  await cgroups.make(pod, { cpuWeight: 20, hugetlbMax: { "2MB": 0 } });
  expect(calls.slice(0, 3)).toEqual([
    "start kubepods.slice in the root: ",
    "start kubepods-burstable.slice in kubepods.slice: ",
    `start ${podSlice} in kubepods-burstable.slice: CPUWeight=20`,
  ]);
  expect(tree.files.read(`${podFolder()}/hugetlb.2MB.max`)).toBe("0");
});

test("only limits that differ are set, those that systemd has no words for by the files alone", async () => {
  await cgroups.make(pod, { cpuWeight: 20, memoryMax: 8192 });
  calls = [];
  await cgroups.write(pod, { cpuWeight: 20, memoryMax: 8192, pidsMax: "max" });
  await cgroups.write(pod, { killsAsGroup: true, hugetlbMax: { "2MB": 0 } });
  expect(calls).toEqual([]);
  await cgroups.write(pod, { cpuWeight: 20, memoryMax: 4096 });
  expect(calls).toEqual([`set ${podSlice}: MemoryMax=4096`]);
});

test("a service below a slice without controllers gets those of its limits, and no others", async () => {
  for (const folder of ["system.slice", "system.slice/berth.service"]) await tree.files.makeFolder(`${root}/${folder}`);
  await cgroups.write(["system", "berth.service"], { cpuWeight: 20, cpus: "0-3" });
  expect(calls).toEqual(["set berth.service: CPUWeight=20 AllowedCPUs=0-3"]);
  const service = `${root}/system.slice/berth.service`;
  expect(tree.files.read(`${service}/cpu.weight`)).toBe("20");
  expect(tree.files.read(`${service}/cgroup.controllers`)).toBe("cpu cpuset");
});

test("a slice that systemd has without its folder gets all limits, also those that a new folder has anyway", async () => {
  await cgroups.make(pod, { memoryMax: 8192 });
  await tree.files.removeFolder(podFolder());
  calls = [];
  await cgroups.make(pod, { memoryMax: "max" });
  expect(calls).toEqual([
    `start ${podSlice} in kubepods-burstable.slice: MemoryMax=infinity`,
    `set ${podSlice}: MemoryMax=infinity`,
  ]);
  expect(await cgroups.exists(pod)).toBe(true);
});

test("the processes of a slice are killed before systemd stops it", async () => {
  await cgroups.make(pod, {});
  tree.addProcess(podFolder(), 7);
  let left: readonly number[] | undefined;
  onStop = () => {
    left = tree.processes(podFolder());
  };
  await cgroups.remove(pod);
  expect(left).toEqual([]);
  expect(await cgroups.exists(pod)).toBe(false);
});

test("a slice without a folder is stopped too", async () => {
  await cgroups.remove(pod);
  expect(calls).toEqual([`stop ${podSlice}`]);
});

test("when systemd fails, no folder is made", async () => {
  const systemd: Systemd = {
    startSlice: async (unit) => {
      throw ownCgroupError("EDBUS", unit, undefined, "D-Bus is away");
    },
    setProperties: async () => {},
    stop: async () => {},
  };
  const sizes = { pageBytes: 4096, hugePageSizes: [] };
  const other = createCgroups({ root, cgroupRoot: "/", systemd, sizes, files: tree.files, clock: new FakeClock() });
  await expect(other.make(pod, {})).rejects.toMatchObject({ code: "EDBUS", file: "kubepods.slice" });
  expect(tree.files.folders(root)).toEqual([]);
});
