import { CgroupError } from "../../../cgroups/error.ts";
import type { CgroupUsageReader } from "../../../cgroups/usage.ts";
import type { Log } from "../../../host/log/log.ts";

/**
 * A reader for pages of stats: a cgroup whose files cannot be read, or hold nonsense, has no figures, as if it were absent.
 * The others have theirs.
 */
export function withoutUnreadable(cgroups: CgroupUsageReader, log: Log): CgroupUsageReader {
  function unlessUnreadable<T>(path: string, read: () => T, otherwise: T): T {
    try {
      return read();
    } catch (error) {
      if (!(error instanceof CgroupError)) throw error;
      log.debug({ err: error }, `the stats of the cgroup ${path} cannot be read`);
      return otherwise;
    }
  }
  return {
    read: (path, detail) => unlessUnreadable(path, () => cgroups.read(path, detail), undefined),
    below: (path) => unlessUnreadable(path, () => cgroups.below(path), []),
    processes: (path) => unlessUnreadable(path, () => cgroups.processes(path), []),
    madeAtMs: cgroups.madeAtMs,
  };
}
