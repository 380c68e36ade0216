import type { Log } from "../../host/log/log.ts";
import type { Machine } from "../../host/machine.ts";
import { joinWithAnd } from "../../proto/join-with-and.ts";
import type { Config } from "../config/config.ts";
import { StartError } from "./start-error.ts";

type CgroupSettings = Pick<Config, "cgroupsPerQOS" | "failCgroupV1" | "singleProcessOOMKill">;

/** The kubelet's event of a node with cgroup v1. */
export const cgroupV1Event = {
  type: "Warning",
  reason: "CgroupV1",
  message:
    "cgroup v1 detected. cgroup v1 support is deprecated and will be removed in a future release. Please migrate to cgroup v2. More information at https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1",
} as const;

/** The settings with which this configuration runs on cgroup v1; none if it does so already. */
export function cgroupV1Remedies(config: CgroupSettings): readonly string[] {
  const { cgroupsPerQOS, failCgroupV1, singleProcessOOMKill } = config;
  return [
    ...(cgroupsPerQOS ? ["cgroupsPerQOS: false", "enforceNodeAllocatable: []"] : []),
    ...(failCgroupV1 ? ["failCgroupV1: false"] : []),
    ...(singleProcessOOMKill === false ? ["singleProcessOOMKill: true"] : []),
  ];
}

/**
 * Refuses to start without cgroup v2 unless the configuration allows it (decision 3). Throws `StartError`, which lists
 * every setting that needs cgroup v2, so that one correction suffices.
 */
export function checkCgroups(
  config: CgroupSettings & Pick<Config, "podPidsLimit">,
  { hasCgroupV2 }: Pick<Machine, "hasCgroupV2">,
  log: Log,
): void {
  if (hasCgroupV2) return;
  const { cgroupsPerQOS, failCgroupV1, singleProcessOOMKill, podPidsLimit } = config;
  const enabled = [...(cgroupsPerQOS ? ["cgroupsPerQOS"] : []), ...(failCgroupV1 ? ["failCgroupV1"] : [])];
  const problems = [
    ...(enabled.length > 0 ? [`${enabled.join(" and ")} ${enabled.length === 1 ? "is" : "are"} true`] : []),
    ...(singleProcessOOMKill === false ? ["singleProcessOOMKill is false"] : []),
  ];
  if (problems.length > 0) {
    const remedies = cgroupV1Remedies(config);
    throw new StartError(
      `/sys/fs/cgroup is not cgroup v2, and ${problems.join(", and ")}: boot with systemd.unified_cgroup_hierarchy=1, or set ${joinWithAnd(remedies)}`,
    );
  }
  const ignoredLimit = podPidsLimit > 0 ? `, and podPidsLimit (${podPidsLimit}) has no effect` : "";
  log.warn(
    {},
    `this machine has cgroup v1: containers get their limits from the runtime, and pods have no cgroups of their own${ignoredLimit}`,
  );
}
