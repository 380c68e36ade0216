import type { Cgroups } from "../../../cgroups/cgroups.ts";
import { CgroupError } from "../../../cgroups/error.ts";
import type { CgroupName } from "../../../proto/cgroup/cgroup-name.ts";
import type { CgroupLimits } from "../../../proto/cgroup/limits.ts";

/**
 * Makes a cgroup, or writes its limits, except a memory limit below what it uses: to reach it, the kernel would kill. Then
 * the others are written, and the call rejects with `CgroupError` (`EINUSE`), like one that the kernel refuses.
 */
export async function makeWithinUse(
  cgroups: Pick<Cgroups, "make" | "exists" | "stats">,
  name: CgroupName,
  limits: CgroupLimits,
  signal?: AbortSignal,
): Promise<void> {
  const { memoryMax, ...others } = limits;
  const usedBytes = typeof memoryMax === "number" ? await usedMemory(cgroups, name) : 0;
  if (typeof memoryMax !== "number" || usedBytes < memoryMax) return await cgroups.make(name, limits, signal);
  await cgroups.make(name, others, signal);
  const cgroup = name.join("/");
  throw new CgroupError(
    "EINUSE",
    cgroup,
    String(memoryMax),
    `cgroup ${cgroup} uses ${usedBytes} bytes of memory, and its limit is ${memoryMax}: the limit is written when it uses less`,
  );
}

async function usedMemory(cgroups: Pick<Cgroups, "exists" | "stats">, name: CgroupName): Promise<number> {
  return (await cgroups.exists(name)) ? ((await cgroups.stats(name)).memory?.currentBytes ?? 0) : 0;
}
