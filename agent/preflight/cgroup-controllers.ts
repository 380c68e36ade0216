import { readFileSync } from "node:fs";
import { join } from "node:path/posix";
import { toFilesError } from "../../host/fs/files.ts";
import { joinWithAnd } from "../../proto/join-with-and.ts";
import { StartError, toStartError } from "./start-error.ts";

/** Those without which the limits of pods mean nothing. The kernel may lack the others. */
const REQUIRED_CONTROLLERS = ["cpu", "memory", "pids"] as const;

type RequiredController = (typeof REQUIRED_CONTROLLERS)[number];

/** The controllers of the kernel, as `cgroup.controllers` of the root lists them. Throws `StartError`. */
export function readControllers(mountPoint: string): readonly string[] {
  const file = join(mountPoint, "cgroup.controllers");
  try {
    return readFileSync(file, "utf8").trim().split(/\s+/);
  } catch (error) {
    return toStartError(
      "cannot read the cgroup controllers of the kernel",
      `mount cgroup v2 on ${mountPoint}`,
    )(toFilesError(file, error));
  }
}

/** The controllers that the agent needs and the kernel does not offer. */
export function missingControllers(available: readonly string[]): readonly RequiredController[] {
  return REQUIRED_CONTROLLERS.filter((controller) => !available.includes(controller));
}

const KERNEL_OPTIONS: Readonly<Record<RequiredController, string>> = {
  cpu: "CONFIG_CGROUP_SCHED",
  memory: "CONFIG_MEMCG",
  pids: "CONFIG_CGROUP_PIDS",
};

/**
 * How to get controllers that are missing. Raspberry Pi OS boots without the memory controller, and some kernels have
 * `cgroup_disable=memory` from the firmware and ignore the setting (raspberrypi/linux#6980).
 */
export function controllerCure(missing: readonly RequiredController[]): string {
  if (missing.includes("memory"))
    return "add cgroup_enable=memory to the kernel's command line (on Raspberry Pi OS to the one line of /boot/firmware/cmdline.txt) and reboot; if it stays off, update the firmware and the kernel";
  const options = joinWithAnd(missing.map((name) => KERNEL_OPTIONS[name]));
  return `use a kernel that is built with ${options}, and remove cgroup_disable= from its command line`;
}

/** Refuses to start on a kernel without a controller that `cgroupsPerQOS` needs. Throws `StartError` with the cure. */
export function checkControllers(available: readonly string[]): void {
  const missing = missingControllers(available);
  if (missing.length === 0) return;
  const what = `the kernel has the cgroup ${missing.length === 1 ? "controller" : "controllers"} ${joinWithAnd(missing)} off`;
  throw new StartError(
    `cgroupsPerQOS is true, and ${what}: ${controllerCure(missing)}; or set cgroupsPerQOS: false and enforceNodeAllocatable: []`,
  );
}
