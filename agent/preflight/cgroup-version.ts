import type { Log } from "../../host/log.ts";
import type { Machine } from "../../host/machine.ts";
import type { Config } from "../config/config.ts";
import { StartError } from "./start-error.ts";

/**
 * Decision 3: cgroup v2 or none. Throws `StartError` with all that the configuration asks for and the
 * machine does not have, so that nobody mends one setting only to be refused for the next.
 */
export function checkCgroups(
  config: Pick<Config, "cgroupsPerQOS" | "failCgroupV1" | "singleProcessOOMKill" | "podPidsLimit">,
  { hasCgroupV2 }: Pick<Machine, "hasCgroupV2">,
  log: Log,
): void {
  if (hasCgroupV2) return;
  const { cgroupsPerQOS, failCgroupV1, singleProcessOOMKill, podPidsLimit } = config;
  const asked = [...(cgroupsPerQOS ? ["cgroupsPerQOS"] : []), ...(failCgroupV1 ? ["failCgroupV1"] : [])];
  const problems = [
    ...(asked.length > 0 ? [`${asked.join(" and ")} ${asked.length === 1 ? "is" : "are"} true`] : []),
    ...(singleProcessOOMKill === false ? ["singleProcessOOMKill is false"] : []),
  ];
  if (problems.length > 0) {
    const cures = [
      ...(cgroupsPerQOS ? ["cgroupsPerQOS: false", "enforceNodeAllocatable: []"] : []),
      ...(failCgroupV1 ? ["failCgroupV1: false"] : []),
      ...(singleProcessOOMKill === false ? ["singleProcessOOMKill: true"] : []),
    ];
    throw new StartError(
      `/sys/fs/cgroup is not cgroup v2, and ${problems.join(", and ")}: boot with systemd.unified_cgroup_hierarchy=1, or set ${listed(cures)}`,
    );
  }
  const untaken = podPidsLimit > 0 ? `, and podPidsLimit (${podPidsLimit}) holds nobody` : "";
  log.warn(
    {},
    `this machine has cgroup v1: containers get their limits from the runtime, and pods have no cgroups of their own${untaken}`,
  );
}

/** `a, b and c` */
function listed(words: readonly string[]): string {
  return words.join(", ").replace(/, ([^,]*)$/, " and $1");
}
