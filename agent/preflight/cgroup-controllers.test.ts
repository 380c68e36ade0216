import { expect, test } from "bun:test";
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkControllers, readControllers } from "./cgroup-controllers.ts";

const all = ["cpuset", "cpu", "io", "memory", "hugetlb", "pids", "rdma", "misc"];

test("the controllers of a usual kernel, and of one without huge pages and I/O, suffice", () => {
  checkControllers(all);
  checkControllers(["cpu", "memory", "pids"]);
});

test("a Raspberry Pi without the memory controller is refused with its cure", () => {
  expect(() => checkControllers(["cpuset", "cpu", "io", "pids"])).toThrowErrorMatchingInlineSnapshot(
    `"cgroupsPerQOS is true, and the kernel has the cgroup controller memory off: add cgroup_enable=memory to the kernel's command line (on Raspberry Pi OS to the one line of /boot/firmware/cmdline.txt) and reboot; if it stays off, update the firmware and the kernel; or set cgroupsPerQOS: false and enforceNodeAllocatable: []"`,
  );
});

test("each other controller that is missing is named with the option of the kernel", () => {
  expect(() => checkControllers(["io", "memory"])).toThrowErrorMatchingInlineSnapshot(
    `"cgroupsPerQOS is true, and the kernel has the cgroup controllers cpu and pids off: use a kernel that is built with CONFIG_CGROUP_SCHED and CONFIG_CGROUP_PIDS, and remove cgroup_disable= from its command line; or set cgroupsPerQOS: false and enforceNodeAllocatable: []"`,
  );
});

test("the controllers are those that the root offers", () => {
  const root = mkdtempSync(join(tmpdir(), "berth-controllers-"));
  expect(() => readControllers(root)).toThrow(
    /cannot read the cgroup controllers of the kernel: .* does not exist: mount cgroup v2 on/,
  );
  writeFileSync(join(root, "cgroup.controllers"), "cpuset cpu io memory\n");
  expect(readControllers(root)).toEqual(["cpuset", "cpu", "io", "memory"]);
});
