import type { Cgroups } from "../../../cgroups/cgroups.ts";
import { CgroupError } from "../../../cgroups/error.ts";
import type { CgroupName } from "../../../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";

/**
 * Makes a cgroup, or writes its limits, except a memory limit below what it uses without its page cache: to reach it, the
 * kernel would kill. Then the others are written, and the call rejects with `CgroupError` (`EINUSE`), like one that the
 * kernel refuses.
 */
export async function makeWithinUse(
  cgroups: Pick<Cgroups, "make" | "stats">,
  name: CgroupName,
  limits: CgroupLimits,
  signal?: AbortSignal,
): Promise<void> {
  await limitWithinUse(cgroups, name, limits, (possible) => cgroups.make(name, possible, signal));
}

/** As `makeWithinUse`, for a cgroup of another program: one that is absent is not made, and rejects with `ENOENT`. */
export async function writeWithinUse(
  cgroups: Pick<Cgroups, "write" | "stats">,
  name: CgroupName,
  limits: CgroupLimits,
  signal?: AbortSignal,
): Promise<void> {
  await limitWithinUse(cgroups, name, limits, (possible) => cgroups.write(name, possible, signal));
}

async function limitWithinUse(
  cgroups: Pick<Cgroups, "stats">,
  name: CgroupName,
  limits: CgroupLimits,
  write: (possible: CgroupLimits) => Promise<void>,
): Promise<void> {
  const { memoryMax, ...others } = limits;
  const usedBytes = typeof memoryMax === "number" ? await usedMemory(cgroups, name) : 0;
  if (typeof memoryMax !== "number" || usedBytes < memoryMax) return await write(limits);
  await write(others);
  const cgroup = name.join("/");
  throw new CgroupError(
    "EINUSE",
    cgroup,
    String(memoryMax),
    `cgroup ${cgroup} uses ${usedBytes} bytes of memory without its page cache, and its limit is ${memoryMax}: the limit is written when it uses less`,
  );
}

/**
 * In bytes, without the pages of files: the kernel takes these back before it kills, and those of a cgroup without a limit
 * grow until the machine's memory is full. A cgroup that lacks other controllers uses memory all the same; one that is
 * absent, or without the memory controller, uses none.
 */
async function usedMemory(cgroups: Pick<Cgroups, "stats">, name: CgroupName): Promise<number> {
  try {
    const { memory } = await cgroups.stats(name);
    return memory === undefined ? 0 : memory.currentBytes - memory.activeFileBytes - memory.inactiveFileBytes;
  } catch (error) {
    if (error instanceof CgroupError && error.code === "ENOENT") return 0;
    throw error;
  }
}
