import type { Log } from "../../host/log/log.ts";
import type { Machine } from "../../host/machine.ts";
import type { NodeSettings } from "../decide/node/node-settings.ts";

/** Whether a release of Linux, such as `5.4.0-216-generic`, is before another one. */
export function isOlderKernel(kernelVersion: string, [firstMajor, firstMinor]: readonly [number, number]): boolean {
  const [major = 0, minor = 0] = kernelVersion.split(/[.-]/).map(Number);
  return major < firstMajor || (major === firstMajor && minor < firstMinor);
}

/**
 * What a kernel with cgroup v2 is too old for, a sentence each. Rule: the kubelet's warnings of a root without `cpu.stat` and
 * of MemoryQoS.
 */
export function oldKernelWarnings(
  { hasCgroupV2, kernelVersion }: Pick<Machine, "hasCgroupV2" | "kernelVersion">,
  { memoryReservationPolicy }: Pick<NodeSettings, "memoryReservationPolicy">,
): readonly string[] {
  if (!hasCgroupV2) return [];
  const isOlder = (first: readonly [number, number]) => isOlderKernel(kernelVersion, first);
  return [
    ...(isOlder([5, 8])
      ? [
          `Linux ${kernelVersion} has no cpu.stat of the root cgroup (since 5.8): the CPU time of the node is counted in 10 ms`,
        ]
      : []),
    ...(memoryReservationPolicy !== undefined && isOlder([5, 9])
      ? [
          `MemoryQoS is enabled on Linux ${kernelVersion}: before 5.9, a container that exceeds memory.high may hang in the kernel`,
        ]
      : []),
  ];
}

/** Logs them. */
export function warnOfOldKernel(
  machine: Parameters<typeof oldKernelWarnings>[0],
  settings: Parameters<typeof oldKernelWarnings>[1],
  log: Log,
): void {
  for (const warning of oldKernelWarnings(machine, settings)) log.warn({}, warning);
}
