import type { VolumeDeps } from "../../agent/act/volumes/volume-deps.ts";
import { createKeyedLock } from "../../host/async/keyed-lock.ts";
import { FakeClock } from "./clock.ts";
import { FakeDisk } from "./files.ts";
import { FakeLog } from "./log.ts";
import { FakeMounts } from "./mounts.ts";
import { FakeNetworkFiles } from "./network-files.ts";
import { FakeNetworkMounts } from "./network-mounts.ts";
import { nodeFacts } from "./node-facts.ts";

/** What the set-up of volumes uses, on a disk in memory by default. `events` collects what is recorded, as text. */
export function createVolumeDeps(given: Partial<VolumeDeps> = {}): {
  readonly deps: VolumeDeps;
  readonly log: FakeLog;
  readonly events: readonly string[];
} {
  const disk = new FakeDisk(() => 0);
  const mounts = new FakeMounts(disk);
  const clock = new FakeClock();
  const log = new FakeLog();
  const events: string[] = [];
  const deps: VolumeDeps = {
    disk: { root: disk.at("/root"), logs: disk.at("/logs"), machine: disk.at("/") },
    mounts,
    networkMounts: new FakeNetworkMounts(mounts, clock),
    networkFiles: new FakeNetworkFiles(disk, mounts, clock),
    facts: () => nodeFacts,
    clock,
    log,
    recordEvent: ({ metadata: { name } }, { type, reason, message }) => {
      events.push(`${name}: ${type} ${reason}: ${message}`);
    },
    readyMounts: new Set<string>(),
    lockPath: createKeyedLock<string>(),
    ...given,
  };
  return { deps, log, events };
}
