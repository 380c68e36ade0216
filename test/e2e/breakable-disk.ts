import { dlopen, ptr } from "bun:ffi";
import { closeSync, openSync } from "node:fs";
import { copyFile, open, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";

/** A small ext4 file system in an image file, mounted on a folder, that a test fills and breaks. */
export interface BreakableDisk {
  /** Uses up all blocks: files can be created and not written, directories cannot be created. */
  fill(): Promise<void>;
  /** Removes what `fill` has written. */
  free(): Promise<void>;
  /** Makes it read-only as the kernel does after an error (`errors=remount-ro`), also while files are open. */
  makeReadOnly(): Promise<void>;
  /** Lets each read and write fail with EIO, as if the disk were unplugged. */
  unplug(): Promise<void>;
  /** Mounts a healthy disk with the same content in its place. Processes must have closed their files on it. */
  replace(): Promise<void>;
  unmount(): Promise<void>;
}

const SIZE_BYTES = 4 << 20;
/** EXT4_IOC_SHUTDOWN, `_IOR('X', 125, __u32)`, after all data has been written (EXT4_GOING_FLAGS_DEFAULT). */
const SHUTDOWN = 0x8004587d;
const AFTER_FLUSH = new Uint32Array([0]);

/** Mounts a new disk on `folder`. Its image files are `<image>.1`, `<image>.2` and so on. */
export async function mountBreakableDisk(folder: string, image: string): Promise<BreakableDisk> {
  let number = 1;
  const current = () => `${image}.${number}`;
  const mount = () => execa("mount", ["-o", "loop", current(), folder]);
  const unmount = () => execa("umount", ["--lazy", folder]);
  await writeFile(current(), "");
  await truncate(current(), SIZE_BYTES);
  // No blocks are reserved for root, and without a journal all changes go straight to the image.
  await execa("mkfs.ext4", ["-q", "-m", "0", "-O", "^has_journal", current()]);
  await mount();
  const filler = join(folder, "filler");
  return {
    async fill() {
      const file = await open(filler, "w");
      try {
        await file.write(new Uint8Array(SIZE_BYTES));
        for (;;) await file.write(new Uint8Array(1));
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== "ENOSPC") throw error;
      } finally {
        await file.close();
      }
    },
    free: () => rm(filler),
    async makeReadOnly() {
      await execa("sync", ["--file-system", folder]);
      await execa("mount", ["-o", "remount,abort", folder]);
    },
    unplug() {
      const { symbols, close } = dlopen("libc.so.6", { ioctl: { args: ["i32", "u64", "ptr"], returns: "i32" } });
      const descriptor = openSync(folder, "r");
      const result = symbols.ioctl(descriptor, SHUTDOWN, ptr(AFTER_FLUSH));
      closeSync(descriptor);
      close();
      return result === 0 ? Promise.resolve() : Promise.reject(new Error(`EXT4_IOC_SHUTDOWN of ${folder} failed`));
    },
    async replace() {
      await unmount();
      // Another file: a mount of the same one would get the broken file system again while containers use it.
      await copyFile(current(), `${image}.${++number}`);
      await mount();
    },
    async unmount() {
      await unmount();
    },
  };
}
