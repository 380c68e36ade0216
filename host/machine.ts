import { existsSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path/posix";
import { parseMountinfo } from "./fs/mounts.ts";
import { meminfoBytes } from "./proc.ts";

/** Static facts about this machine, for the Node's status. Unknown values are empty, or 0. */
export interface Machine {
  /** Logical CPUs that are online, regardless of this process's CPU affinity. */
  readonly cpuCount: number;
  /** The kernel's list of them: `0-3,8`. */
  readonly onlineCpus: string;
  readonly memoryBytes: number;
  readonly swapBytes: number;
  /** The files and devices that the kernel swaps to, as /proc/swaps names them. */
  readonly swapAreas: readonly string[];
  /** Every huge page size of the kernel, the smallest first. */
  readonly hugePages: readonly { readonly pageBytes: number; readonly totalBytes: number }[];
  readonly machineID: string;
  readonly systemUUID: string;
  /** Changes with each boot. */
  readonly bootID: string;
  readonly kernelVersion: string;
  /** The name and version of the distribution. */
  readonly osImage: string;
  /** Go's name: `amd64`, `arm64`. */
  readonly architecture: string;
  /** The unified cgroup v2 hierarchy, not a hybrid one. */
  readonly hasCgroupV2: boolean;
  /** Whether the kernel can limit the swap of a cgroup. */
  readonly limitsSwap: boolean;
  /** Whether AppArmor is enabled in the kernel. */
  readonly hasAppArmor: boolean;
  /** Whether SELinux is enabled in the kernel, and its file system is mounted. */
  readonly hasSELinux: boolean;
}

const goArchitectures: Readonly<Record<string, string>> = {
  x64: "amd64",
  ia32: "386",
  loong64: "loong64",
  mips64el: "mips64le",
  ppc64: "ppc64le",
};

/** Reads the machine's facts from the files below `root`. Synchronous: only for the start. */
export function readMachine(root = "/", architecture: string = process.arch): Machine {
  const text = (...paths: readonly string[]) => readFirst(root, paths);
  const meminfo = text("proc/meminfo");
  const onlineCpus = text("sys/devices/system/cpu/online");
  const hasCgroupV2 = existsSync(join(root, "sys/fs/cgroup/cgroup.controllers"));
  return {
    cpuCount: countCpus(onlineCpus) || availableParallelism(),
    onlineCpus,
    memoryBytes: meminfoBytes(meminfo, "MemTotal"),
    swapBytes: meminfoBytes(meminfo, "SwapTotal"),
    swapAreas: swapAreasIn(text("proc/swaps")),
    hugePages: readHugePages(root),
    machineID: text("etc/machine-id", "var/lib/dbus/machine-id"),
    // DMI on PCs, the device tree on PowerPC; many boards have neither, and the kubelet then uses the machine id.
    systemUUID: text(
      "sys/class/dmi/id/product_uuid",
      "proc/device-tree/system-id",
      "proc/device-tree/vm,uuid",
      "etc/machine-id",
    ),
    bootID: text("proc/sys/kernel/random/boot_id"),
    kernelVersion: text("proc/sys/kernel/osrelease"),
    osImage: prettyName(text("etc/os-release", "usr/lib/os-release")),
    architecture: goArchitectures[architecture] ?? architecture,
    hasCgroupV2,
    limitsSwap: existsSync(join(root, swapLimitFile(hasCgroupV2, text("proc/self/cgroup")))),
    hasAppArmor: text("sys/module/apparmor/parameters/enabled") === "Y",
    hasSELinux: hasSELinux(text("proc/self/mountinfo"), text("proc/self/attr/current")),
  };
}

/**
 * As the kubelet sees it: selinuxfs is mounted writable, and a policy is loaded, without which each process has the
 * label `kernel`.
 */
function hasSELinux(mountinfo: string, ownLabel: string): boolean {
  const isMounted = parseMountinfo(mountinfo).some(
    ({ fsType, options }) => fsType === "selinuxfs" && !options.includes("ro"),
  );
  return isMounted && ownLabel !== "kernel";
}

/** The root cgroup of version 2 has no such file, so our own cgroup's file is checked. */
function swapLimitFile(hasCgroupV2: boolean, ownCgroups: string): string {
  if (!hasCgroupV2) return "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes";
  const [, ownCgroup = ""] = /^0::(.*)$/m.exec(ownCgroups) ?? [];
  return `sys/fs/cgroup${ownCgroup}/memory.swap.max`;
}

/** The trimmed content of the first readable file; empty if there is none. */
function readFirst(root: string, paths: readonly string[]): string {
  for (const path of paths) {
    try {
      return readFileSync(join(root, path), "utf8").replaceAll("\0", "").trim();
    } catch {
      // Which of the files exist depends on the machine.
    }
  }
  return "";
}

/** Counts a list such as `0-3,8`. */
function countCpus(list: string): number {
  return list
    .split(",")
    .map((part) => /^(\d+)(?:-(\d+))?$/.exec(part))
    .reduce((sum, range) => sum + (range === null ? 0 : Number(range[2] ?? range[1]) - Number(range[1]) + 1), 0);
}

/** The first column below the header. The kernel writes a space in a name as `\040`. */
function swapAreasIn(swaps: string): readonly string[] {
  const [, ...lines] = swaps.split("\n");
  return lines.flatMap((line) => line.split(/\s/)[0] || []);
}

function prettyName(osRelease: string): string {
  const name = /^PRETTY_NAME=(.*)$/m.exec(osRelease)?.[1]?.trim();
  return name?.replace(/^(["'])(.*)\1$/, "$2") ?? "Linux";
}

function readHugePages(root: string): Machine["hugePages"] {
  const folder = "sys/kernel/mm/hugepages";
  return listNames(join(root, folder))
    .flatMap((name) => {
      const kibibytes = /^hugepages-(\d+)kB$/.exec(name)?.[1];
      if (kibibytes === undefined) return [];
      const pageBytes = Number(kibibytes) * 1024;
      return [
        { pageBytes, totalBytes: pageBytes * (Number(readFirst(root, [`${folder}/${name}/nr_hugepages`])) || 0) },
      ];
    })
    .toSorted((a, b) => a.pageBytes - b.pageBytes);
}

function listNames(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    // A kernel without huge pages has no such folder.
    return [];
  }
}
