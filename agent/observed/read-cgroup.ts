import { CgroupError } from "../../cgroups/error.ts";

/** What a read of a cgroup returns; undefined if the cgroup does not exist. Rejects with other `CgroupError`s of the read. */
export async function ifPresent<T>(read: () => Promise<T>): Promise<T | undefined> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof CgroupError && error.code === "ENOENT") return undefined;
    throw error;
  }
}
