import { onAbort } from "../../host/async/abort.ts";
import type { Clock } from "../../host/clock.ts";
import type { GroupChange } from "../../host/fs/change-group.ts";
import { FilesError } from "../../host/fs/files.ts";
import type { BindOptions } from "../../host/fs/mounts.ts";
import { FILE_CALL_TIMEOUT_MS, type NetworkFiles } from "../../host/fs/network-files.ts";
import type { FakeDisk } from "./files.ts";
import { DeadServerError, type FakeMounts } from "./mounts.ts";

/** Calls on the fake disk and its mounts. One that looks at a server that does not answer lasts until it is killed. */
export class FakeNetworkFiles implements NetworkFiles {
  /** The calls so far: `stat /mnt/nas`. */
  readonly calls: string[] = [];
  readonly #disk: FakeDisk;
  readonly #mounts: FakeMounts;
  readonly #clock: Clock;

  constructor(disk: FakeDisk, mounts: FakeMounts, clock: Clock) {
    this.#disk = disk;
    this.#mounts = mounts;
    this.#clock = clock;
  }

  stat(path: string, signal: AbortSignal) {
    return this.#run("stat", path, signal, () => this.#files.stat(path));
  }

  realPath(path: string, signal: AbortSignal) {
    return this.#run("realPath", path, signal, () => this.#files.realPath(path));
  }

  makeFolder(path: string, mode: number, signal: AbortSignal) {
    return this.#run("makeFolder", path, signal, () => this.#files.makeFolder(path, mode));
  }

  makeEmptyFile(path: string, mode: number, signal: AbortSignal) {
    return this.#run("makeEmptyFile", path, signal, () => this.#files.makeEmptyFile(path, mode));
  }

  changeGroup(path: string, change: GroupChange) {
    return this.#run("changeGroup", path, change.signal, () => this.#files.changeGroup(path, change));
  }

  bind(source: string, target: string, options: BindOptions, signal: AbortSignal) {
    return this.#run("bind", source, signal, () => this.#mounts.bind(source, target, options));
  }

  bindBeneath(folder: string, path: string, target: string, signal: AbortSignal) {
    return this.#run("bindBeneath", folder, signal, () => this.#mounts.bindBeneath(folder, path, target));
  }

  unmount(path: string, signal: AbortSignal) {
    return this.#run("unmount", path, signal, async () => {
      // It does not look at what is mounted.
      while (this.#mounts.isMountOfDeadServer(path)) {
        if (this.#mounts.isBusy(path)) throw new FilesError("EBUSY", path, `${path} cannot be unmounted: it is busy`);
        this.#mounts.unmountNetwork(path);
      }
      await this.#mounts.unmount(path);
    });
  }

  get #files() {
    return this.#disk.at("/");
  }

  async #run<T>(method: keyof NetworkFiles, path: string, signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    signal.throwIfAborted();
    this.calls.push(`${method} ${path}`);
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof DeadServerError)) throw error;
      return await this.#hang(`${path} does not answer: ${method}`, path, signal);
    }
  }

  #hang(what: string, path: string, signal: AbortSignal): Promise<never> {
    return new Promise((_resolve, reject) => {
      const cancel = this.#clock.wakeAt(this.#clock.now() + FILE_CALL_TIMEOUT_MS, () => {
        remove();
        reject(new FilesError("ETIMEDOUT", path, `${what} did not end within ${FILE_CALL_TIMEOUT_MS / 1000} s`));
      });
      const remove = onAbort(signal, () => {
        cancel();
        reject(signal.reason);
      });
    });
  }
}
