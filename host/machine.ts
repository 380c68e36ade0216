import { existsSync, readdirSync, readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { join } from "node:path/posix";
import { kibibytesOf } from "./proc.ts";

/** What this machine is, and what it calls itself. What it does not tell is empty, or 0. */
export interface Machine {
  /** Logical CPUs that are online, whichever of them this process may use. */
  readonly cpuCount: number;
  readonly memoryBytes: number;
  readonly swapBytes: number;
  /** Every size that the kernel has, the smallest first. */
  readonly hugePages: readonly { readonly pageBytes: number; readonly totalBytes: number }[];
  readonly machineID: string;
  readonly systemUUID: string;
  /** Another one after each boot. */
  readonly bootID: string;
  readonly kernelVersion: string;
  /** The name of the distribution, with its version. */
  readonly osImage: string;
  /** As Go calls it: `amd64`, `arm64`. */
  readonly architecture: string;
  /** All of its cgroups are of version 2, not only some beside those of version 1. */
  readonly hasCgroupV2: boolean;
  /** Whether the kernel can hold a cgroup to an amount of swap. */
  readonly limitsSwap: boolean;
  /** Whether the kernel confines programs by profiles of AppArmor. */
  readonly hasAppArmor: boolean;
}

const goArchitectures: Readonly<Record<string, string>> = {
  x64: "amd64",
  ia32: "386",
  loong64: "loong64",
  mips64el: "mips64le",
  ppc64: "ppc64le",
};

/** Reads the machine whose files are below `root`. Blocks for a moment: it is for the start alone. */
export function readMachine(root = "/", architecture: string = process.arch): Machine {
  const text = (...paths: readonly string[]) => firstOf(root, paths);
  const meminfo = text("proc/meminfo");
  const hasCgroupV2 = existsSync(join(root, "sys/fs/cgroup/cgroup.controllers"));
  return {
    cpuCount: countCpus(text("sys/devices/system/cpu/online")) || availableParallelism(),
    memoryBytes: kibibytesOf(meminfo, "MemTotal"),
    swapBytes: kibibytesOf(meminfo, "SwapTotal"),
    hugePages: hugePagesIn(root),
    machineID: text("etc/machine-id", "var/lib/dbus/machine-id"),
    // DMI on PCs, the device tree of PowerPC elsewhere; many boards have neither, and the kubelet then takes the machine's id.
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
  };
}

/** The root of version 2 has no such file, so that our own cgroup's is the one to look for. */
function swapLimitFile(hasCgroupV2: boolean, ownCgroups: string): string {
  if (!hasCgroupV2) return "sys/fs/cgroup/memory/memory.memsw.limit_in_bytes";
  const [, own = ""] = /^0::(.*)$/m.exec(ownCgroups) ?? [];
  return `sys/fs/cgroup${own}/memory.swap.max`;
}

/** The first of the files that can be read, without what ends it. */
function firstOf(root: string, paths: readonly string[]): string {
  for (const path of paths) {
    try {
      return readFileSync(join(root, path), "utf8").replaceAll("\0", "").trim();
    } catch {
      // Which of them is there depends on the machine, and what none tells is left empty.
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

function prettyName(osRelease: string): string {
  const name = /^PRETTY_NAME=(.*)$/m.exec(osRelease)?.[1]?.trim();
  return name?.replace(/^(["'])(.*)\1$/, "$2") ?? "Linux";
}

function hugePagesIn(root: string): Machine["hugePages"] {
  const folder = "sys/kernel/mm/hugepages";
  return namesIn(join(root, folder))
    .flatMap((name) => {
      const kibibytes = /^hugepages-(\d+)kB$/.exec(name)?.[1];
      if (kibibytes === undefined) return [];
      const pageBytes = Number(kibibytes) * 1024;
      return [{ pageBytes, totalBytes: pageBytes * (Number(firstOf(root, [`${folder}/${name}/nr_hugepages`])) || 0) }];
    })
    .toSorted((a, b) => a.pageBytes - b.pageBytes);
}

function namesIn(folder: string): readonly string[] {
  try {
    return readdirSync(folder);
  } catch {
    // A kernel without huge pages has no such folder.
    return [];
  }
}
