import { onAbort } from "../../host/async/abort.ts";
import type { Clock } from "../../host/clock.ts";
import { KillableProgramError } from "../../host/fs/killable-program.ts";
import {
  MOUNT_TIMEOUT_MS,
  type NetworkMount,
  type NetworkMounts,
  UNMOUNT_TIMEOUT_MS,
} from "../../host/fs/network-mounts.ts";
import type { FakeMounts } from "./mounts.ts";

/** Servers over the fake mount table. One that does not answer holds up its mounts, and each look at them. */
export class FakeNetworkMounts implements NetworkMounts {
  /** What servers answer instead of a mount, by their name. */
  readonly refusals = new Map<string, string>();
  /** Servers whose mounts are there, though the program was killed: the kernel had mounted them before. */
  readonly mountsWhenKilled = new Set<string>();
  /** The mounts so far: `nfs nfs.example.com:/data ro`. */
  readonly calls: string[] = [];
  readonly #mounts: FakeMounts;
  readonly #clock: Clock;

  constructor(mounts: FakeMounts, clock: Clock) {
    this.#mounts = mounts;
    this.#clock = clock;
  }

  /** Ends or continues the answers of a server. */
  setAnswering(server: string, isAnswering: boolean): void {
    if (isAnswering) this.#mounts.deadServers.delete(server);
    else this.#mounts.deadServers.add(server);
  }

  async mount(mount: NetworkMount, signal: AbortSignal): Promise<void> {
    const { source, target, fsType, options } = mount;
    const server = source.slice(0, source.lastIndexOf(":"));
    this.calls.push([fsType, source, ...options].join(" "));
    try {
      await this.#answer(server, `mount ${target}`, MOUNT_TIMEOUT_MS, signal);
    } catch (error) {
      if (this.mountsWhenKilled.has(server) && this.#mounts.hasFolder(target)) this.#mounts.mountNetwork(target, mount);
      throw error;
    }
    const refusal = this.refusals.get(server);
    if (refusal !== undefined) throw new KillableProgramError(`mount ${target}`, false, "exit status 32", refusal);
    if (!this.#mounts.hasFolder(target))
      throw new KillableProgramError(`mount ${target}`, false, "exit status 32", "mount point does not exist.\n");
    this.#mounts.mountNetwork(target, mount);
  }

  async unmount(target: string, signal: AbortSignal): Promise<void> {
    const source = this.#mounts.sourceAt(target);
    if (source === undefined)
      throw new KillableProgramError(`umount ${target}`, false, "exit status 32", `umount: ${target}: not mounted.\n`);
    const server = source.slice(0, source.lastIndexOf(":"));
    if (this.#mounts.isBusy(target))
      throw new KillableProgramError(
        `umount ${target}`,
        false,
        "exit status 32",
        `umount: ${target}: target is busy.\n`,
      );
    try {
      await this.#answer(server, `umount ${target}`, UNMOUNT_TIMEOUT_MS, signal);
    } catch (error) {
      // By force.
      if (!(error instanceof KillableProgramError)) throw error;
    }
    this.#mounts.unmountNetwork(target);
  }

  /** Resolves at once if the server answers, otherwise rejects after the time limit or when the signal aborts. */
  #answer(server: string, what: string, timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (!this.#mounts.deadServers.has(server)) return Promise.resolve();
    return new Promise((_resolve, reject) => {
      const status = `did not end within ${timeoutMs / 1000} s`;
      const cancel = this.#clock.wakeAt(this.#clock.now() + timeoutMs, () => {
        remove();
        reject(new KillableProgramError(what, true, status, ""));
      });
      const remove = onAbort(signal, () => {
        cancel();
        reject(signal.reason);
      });
    });
  }
}
