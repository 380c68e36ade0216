// Exchanges the folder `dir` of a volume and its symlink `link`, which leaves the volume, until it is ended: `bun
// path-swapper.ts VOLUME`. It prints how often it has done so.
import { dlopen, FFIType } from "bun:ffi";
import { join } from "node:path";

const { i32, u32, ptr } = FFIType;
const libc = dlopen("libc.so.6", { renameat2: { args: [i32, ptr, i32, ptr, u32], returns: i32 } });
const AT_FDCWD = -100;
const RENAME_EXCHANGE = 2;
/** After so many swaps other processes get a processor: a swap takes some microseconds. */
const SWAPS_IN_A_ROW = 100;

const [, , volume = ""] = process.argv;
const [dir, link] = [join(volume, "dir"), join(volume, "link")].map((path) => Buffer.from(`${path}\0`));

for (let swaps = 1; ; swaps++) {
  if (libc.symbols.renameat2(AT_FDCWD, dir!, AT_FDCWD, link!, RENAME_EXCHANGE) !== 0)
    throw new Error("cannot exchange");
  if (swaps % SWAPS_IN_A_ROW !== 0) continue;
  console.log(swaps);
  await Bun.sleep(1);
}
