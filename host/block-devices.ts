import { readlinkSync } from "node:fs";
import { basename } from "node:path/posix";

/** Names block devices by `MAJOR:MINOR`: `/dev/sda`; empty for one that does not exist (any more). */
export function createBlockDeviceNames(sys = "/sys"): (device: string) => string {
  return (device) => {
    if (!/^\d+:\d+$/.test(device)) return "";
    try {
      return `/dev/${basename(readlinkSync(`${sys}/dev/block/${device}`))}`;
    } catch {
      // The device was removed; its counters are still those of the cgroup.
      return "";
    }
  };
}
