import type { CgroupLimits } from "../proto/cgroup/limits.ts";
import type { Controller, LimitFile, PageSizes } from "./controller.ts";
import { cpu } from "./cpu.ts";
import { cpuset } from "./cpuset.ts";
import { CgroupError, ownCgroupError } from "./error.ts";
import type { CgroupFiles } from "./files.ts";
import { hugetlb } from "./hugetlb.ts";
import { io } from "./io.ts";
import { memory } from "./memory.ts";
import { pids } from "./pids.ts";

/** All controllers, in the order in which limits are written. */
export const controllers: readonly Controller[] = [cpu, cpuset, memory, pids, hugetlb, io];

/** The files of the limits that hold something else. Throws `ENOENT` for a cgroup that is absent, `ECONTROLLER` for a file that it does not have. */
export function differingFiles(
  files: Pick<CgroupFiles, "read">,
  folder: string,
  limits: CgroupLimits,
  sizes: PageSizes,
): readonly LimitFile[] {
  return limitFiles(limits, sizes).filter(({ file, value, isOptional = false }) => {
    const current = files.read(`${folder}/${file}`);
    if (current === undefined && !isOptional) throw missingFile(files, folder, file, value);
    return current !== undefined && current !== value;
  });
}

/** Those limits of which a file differs, or is missing. */
export function differingLimits(
  files: Pick<CgroupFiles, "read">,
  folder: string,
  limits: CgroupLimits,
  sizes: PageSizes,
): CgroupLimits {
  const isDifferent = ([field, limit]: readonly [string, unknown]) =>
    limitFiles({ [field]: limit }, sizes).some(({ file, value, isOptional = false }) => {
      const current = files.read(`${folder}/${file}`);
      return current === undefined ? !isOptional : current !== value;
    });
  return Object.fromEntries(Object.entries(limits).filter(isDifferent));
}

/** The controllers of those limits of which the cgroup has no file. */
export function missingControllers(
  files: Pick<CgroupFiles, "read">,
  folder: string,
  limits: CgroupLimits,
  sizes: PageSizes,
): readonly string[] {
  const missing = limitFiles(limits, sizes).filter(
    ({ file, isOptional = false }) => !isOptional && files.read(`${folder}/${file}`) === undefined,
  );
  return [...new Set(missing.map(({ file }) => controllerOf(file)))];
}

function limitFiles(limits: CgroupLimits, sizes: PageSizes): readonly LimitFile[] {
  return controllers.flatMap((controller) => controller.limitFiles(limits, sizes));
}

/** The kernel names each file after its controller: `memory.max`. */
function controllerOf(file: string): string {
  return file.slice(0, file.indexOf("."));
}

export function absentCgroup(folder: string): CgroupError {
  return new CgroupError("ENOENT", folder, undefined, `cgroup ${folder} does not exist`);
}

function missingFile(files: Pick<CgroupFiles, "read">, folder: string, file: string, value: string): CgroupError {
  if (files.read(`${folder}/cgroup.controllers`) === undefined) return absentCgroup(folder);
  const path = `${folder}/${file}`;
  const why = `the kernel has no such file, or ${controllerOf(file)} is not enabled in cgroup.subtree_control of the cgroup above`;
  return ownCgroupError("ECONTROLLER", path, value, `cannot write "${value}" to ${path}: ${why}`);
}
