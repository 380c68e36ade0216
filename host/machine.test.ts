import { expect, test } from "bun:test";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { readMachine } from "./machine.ts";

async function machineOf(files: Readonly<Record<string, string>>, architecture = "x64") {
  const root = await mkdtemp(join(tmpdir(), "berth-machine-"));
  for (const [path, content] of Object.entries(files)) {
    await mkdir(dirname(join(root, path)), { recursive: true });
    await writeFile(join(root, path), content);
  }
  const machine = readMachine(root, architecture);
  await rm(root, { recursive: true });
  return machine;
}

test("reads a machine's facts", async () => {
  const machine = await machineOf({
    "proc/meminfo": "MemTotal:       24617532 kB\nSwapTotal:       1024 kB\n",
    "proc/swaps": "Filename\tType\tSize\tUsed\tPriority\n/dev/zram0 partition 1 0 100\n/swap\\040a file 1 0 -2\n",
    "proc/sys/kernel/random/boot_id": "11111111-2222-3333-4444-555555555555\n",
    "proc/sys/kernel/osrelease": "6.1.0-44-amd64\n",
    "etc/machine-id": "0123456789abcdef\n",
    "var/lib/dbus/machine-id": "another\n",
    "etc/os-release": 'NAME="Debian"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n',
    "sys/class/dmi/id/product_uuid": "01234567-89AB\n",
    "sys/devices/system/cpu/online": "0-3,8,10-11\n",
    "sys/module/apparmor/parameters/enabled": "Y\n",
    "sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages": "0\n",
    "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages": "3\n",
  });
  expect(machine).toEqual({
    cpuCount: 7,
    onlineCpus: "0-3,8,10-11",
    memoryBytes: 24_617_532 * 1024,
    swapBytes: 1024 * 1024,
    swapAreas: ["/dev/zram0", "/swap\\040a"],
    hugePages: [
      { pageBytes: 2 ** 21, totalBytes: 3 * 2 ** 21 },
      { pageBytes: 2 ** 30, totalBytes: 0 },
    ],
    machineID: "0123456789abcdef",
    systemUUID: "01234567-89AB",
    bootID: "11111111-2222-3333-4444-555555555555",
    kernelVersion: "6.1.0-44-amd64",
    osImage: "Debian GNU/Linux 12 (bookworm)",
    architecture: "amd64",
    hasCgroupV2: false,
    limitsSwap: false,
    hasAppArmor: true,
    hasSELinux: false,
  });
});

test("missing facts are read from other files, or left empty", async () => {
  const machine = await machineOf(
    {
      "var/lib/dbus/machine-id": "of dbus\n",
      "usr/lib/os-release": "PRETTY_NAME=Edge\n",
      "proc/device-tree/system-id": "board-7\0",
      "sys/module/apparmor/parameters/enabled": "N\n",
      "sys/kernel/mm/hugepages/hugepages-64kB/nr_hugepages": "many\n",
    },
    "arm64",
  );
  const { machineID, osImage, systemUUID, hugePages, cpuCount, memoryBytes, bootID, architecture, hasAppArmor } =
    machine;
  expect({ machineID, osImage, systemUUID, hugePages, memoryBytes, bootID, architecture }).toEqual({
    machineID: "of dbus",
    osImage: "Edge",
    systemUUID: "board-7",
    hugePages: [{ pageBytes: 65_536, totalBytes: 0 }],
    memoryBytes: 0,
    bootID: "",
    architecture: "arm64",
  });
  expect(hasAppArmor).toBe(false);
  expect(cpuCount).toBeGreaterThanOrEqual(1);
  expect(await machineOf({ "etc/os-release": "NAME=x\n" })).toMatchObject({ osImage: "Linux", hasAppArmor: false });
  expect((await machineOf({ "etc/machine-id": "m\n" })).systemUUID).toBe("m");
});

const v2 = { "sys/fs/cgroup/cgroup.controllers": "cpuset cpu io memory hugetlb pids\n" };
const ownSwap = "sys/fs/cgroup/system.slice/berth.service/memory.swap.max";
const cgroups: readonly [sentence: string, files: Readonly<Record<string, string>>, found: object][] = [
  ["version 1, with swap", { "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes": "0" }, { v2: false, swap: true }],
  ["version 1, without swap", { "sys/fs/cgroup/memory/memory.limit_in_bytes": "0" }, { v2: false, swap: false }],
  [
    "version 2 without controllers, beside version 1",
    { "sys/fs/cgroup/unified/cgroup.controllers": "", "proc/self/cgroup": "8:pids:/\n0::/\n" },
    { v2: false, swap: false },
  ],
  [
    "version 2, with swap",
    { ...v2, [ownSwap]: "max\n", "proc/self/cgroup": "0::/system.slice/berth.service\n" },
    { v2: true, swap: true },
  ],
  [
    "version 2, without swap",
    { ...v2, "proc/self/cgroup": "0::/system.slice/berth.service\n" },
    { v2: true, swap: false },
  ],
  ["version 2, in the root cgroup", { ...v2, "proc/self/cgroup": "0::/\n" }, { v2: true, swap: false }],
  ["version 2, where a sandbox hides our cgroup", v2, { v2: true, swap: false }],
];
for (const [sentence, files, found] of cgroups)
  test(`cgroups: ${sentence}`, async () => {
    const { hasCgroupV2, limitsSwap } = await machineOf(files);
    expect({ v2: hasCgroupV2, swap: limitsSwap }).toEqual(found as { v2: boolean; swap: boolean });
  });

const selinuxfs = "30 25 0:20 / /sys/fs/selinux rw,relatime shared:7 - selinuxfs selinuxfs rw\n";
const selinux: readonly [sentence: string, files: Readonly<Record<string, string>>, isOn: boolean][] = [
  [
    "is on with selinuxfs and a label of the policy",
    { "proc/self/mountinfo": selinuxfs, "proc/self/attr/current": "system_u:system_r:kubelet_t:s0\0" },
    true,
  ],
  ["is on where a sandbox hides the label", { "proc/self/mountinfo": selinuxfs }, true],
  [
    "is off without a policy, when each process has the label kernel",
    { "proc/self/mountinfo": selinuxfs, "proc/self/attr/current": "kernel\0" },
    false,
  ],
  [
    "is off where selinuxfs is read-only, as in a container",
    { "proc/self/mountinfo": selinuxfs.replace("rw,", "ro,"), "proc/self/attr/current": "system_u:r:t:s0" },
    false,
  ],
  ["is off without selinuxfs", { "proc/self/attr/current": "docker-default (enforce)\n" }, false],
];
for (const [sentence, files, isOn] of selinux)
  test(`SELinux ${sentence}`, async () => {
    expect((await machineOf(files)).hasSELinux).toBe(isOn);
  });

test("this machine has the required facts", () => {
  const { cpuCount, memoryBytes, kernelVersion, bootID } = readMachine();
  expect(cpuCount).toBeGreaterThanOrEqual(1);
  expect(memoryBytes).toBeGreaterThan(2 ** 26);
  expect(kernelVersion).toMatch(/^\d+\./);
  expect(bootID).not.toBe("");
});
