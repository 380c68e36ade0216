import { formatCpuList, parseCpuList } from "../proto/cgroup/cpu-list.ts";
import type { Controller } from "./controller.ts";

/**
 * `cpuset.cpus`: empty means those of the cgroup above. A list that cannot be read is left to the kernel, which rejects it.
 * https://docs.kernel.org/admin-guide/cgroup-v2.html#cpuset
 */
export const cpuset: Controller = {
  limitFiles({ cpus }) {
    if (cpus === undefined) return [];
    const parsed = parseCpuList(cpus);
    return [{ file: "cpuset.cpus", value: parsed === undefined ? cpus : formatCpuList(parsed) }];
  },
  limits(read) {
    const cpus = read("cpuset.cpus");
    return cpus === undefined ? {} : { cpus };
  },
  stats: () => ({}),
};
