import type { KeyedLock } from "../../../host/async/keyed-lock.ts";
import type { Clock } from "../../../host/clock.ts";
import type { Mounts } from "../../../host/fs/mounts.ts";
import type { NetworkFiles } from "../../../host/fs/network-files.ts";
import type { NetworkMounts } from "../../../host/fs/network-mounts.ts";
import type { Log } from "../../../host/log/log.ts";
import type { Pod } from "../../../proto/kubernetes/gen/types.ts";
import type { PodEvent } from "../../decide/events/pod-event.ts";
import type { NodeFacts } from "../../translate/node-facts.ts";
import type { NodeDirs } from "./pod-dirs.ts";

/** What the set-up of volumes uses. */
export interface VolumeDeps {
  readonly disk: NodeDirs;
  readonly mounts: Mounts;
  readonly networkMounts: NetworkMounts;
  readonly networkFiles: NetworkFiles;
  readonly facts: () => NodeFacts;
  readonly clock: Clock;
  readonly log: Pick<Log, "warn">;
  /** Records and logs an event of a set-up that goes on. A set-up that fails is an event already. */
  readonly recordEvent: (pod: Pod, event: PodEvent) => void;
  /**
   * Directories of local volumes, relative to the root directory, whose mount and ownership this agent has completed. Of any
   * other mount the ownership may be incomplete.
   */
  readonly readyMounts: Set<string>;
  /** By paths of the node that several pods may use. */
  readonly lockPath: KeyedLock<string>;
}
