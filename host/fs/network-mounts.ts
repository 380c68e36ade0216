import type { Clock } from "../clock.ts";
import type { Exec } from "../exec.ts";
import { createKillablePrograms, KillableProgramError } from "./killable-program.ts";

/** A file system that a server has, and where it is mounted. All paths are absolute. */
export interface NetworkMount {
  /** As mount(8) takes it: `nfs.example.com:/exports/data`. */
  readonly source: string;
  /** An existing folder. */
  readonly target: string;
  readonly fsType: string;
  /** In the words of mount(8): `nfsvers=4.2`. */
  readonly options: readonly string[];
}

/**
 * Mounts of file systems whose server may stop answering. mount(8) and umount(8) do it in processes of their own, which
 * are killed when the signal aborts or after some minutes. No method looks at what is mounted: that may hang. Each
 * rejects with `KillableProgramError`, or with the signal's reason.
 */
export interface NetworkMounts {
  /** Mounts over what may be mounted there already: the caller looks at the mount table before. */
  mount(mount: NetworkMount, signal: AbortSignal): Promise<void>;
  /** Unmounts the newest mount at a path, by force if the server does not answer. `umount` fails where nothing is mounted. */
  unmount(target: string, signal: AbortSignal): Promise<void>;
}

export interface NetworkMountsOptions {
  readonly exec: Exec;
  /** The folders that mount(8) and umount(8) are found in. */
  readonly path: string;
  readonly clock: Clock;
}

/**
 * As long as the kubelet waits for the volumes of a pod; mount.nfs gives up a moment before.
 *
 * @internal
 */
export const MOUNT_TIMEOUT_MS = 123_000;
/**
 * As with the kubelet: then the mount is given up, with what was not written.
 *
 * @internal
 */
export const UNMOUNT_TIMEOUT_MS = 60_000;

export function createNetworkMounts(options: NetworkMountsOptions): NetworkMounts {
  const run = createKillablePrograms(options);
  return {
    async mount({ source, target, fsType, options: mountOptions }, signal) {
      const optionArgs = mountOptions.length === 0 ? [] : ["-o", mountOptions.join(",")];
      // The source is what the author of a pod has written: it must not be taken for an option.
      const argv = ["mount", "-t", fsType, ...optionArgs, "--", source, target] as const;
      const { mount, unmount, force } = namesAt(target);
      const blockedBy = [mount, unmount, force];
      await run({ what: mount, name: mount, blockedBy, argv, timeoutMs: MOUNT_TIMEOUT_MS }, signal);
    },
    async unmount(target, signal) {
      const { mount, unmount, force } = namesAt(target);
      const timeoutMs = UNMOUNT_TIMEOUT_MS;
      try {
        const argv = ["umount", "--", target] as const;
        await run({ what: unmount, name: unmount, blockedBy: [mount, unmount, force], argv, timeoutMs }, signal);
      } catch (error) {
        if (!(error instanceof KillableProgramError && error.isTimeout)) throw error;
        // An unmount that cannot be killed does not block it: the force ends the calls that it waits for.
        const argv = ["umount", "-f", "--", target] as const;
        await run({ what: unmount, name: force, blockedBy: [mount, force], argv, timeoutMs }, signal);
      }
    },
  };
}

/** The names of the programs at a mount point. */
const namesAt = (target: string) => ({
  mount: `mount ${target}`,
  unmount: `umount ${target}`,
  force: `umount -f ${target}`,
});
