import { lstat, mkdir, rename, rm, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pollUntil } from "../bed/poll-until.ts";

/** A volume whose folder `dir` is exchanged for a symlink to a folder outside all the time. */
interface SwappedPaths {
  readonly volume: string;
  /** The folder outside, which has a file `secret`, and another one in `sub`. */
  readonly outside: string;
  swaps(): number;
  /** Ends the swaps; `dir` is the folder then. */
  end(): Promise<void>;
}

/** Starts the swaps, in a process of its own. */
export async function startSwaps(folder: string): Promise<SwappedPaths> {
  const [volume, outside] = [join(folder, "volume"), join(folder, "outside")];
  for (const each of [join(volume, "dir/sub"), join(outside, "sub")]) await mkdir(each, { recursive: true });
  for (const each of ["secret", "sub/secret"]) await writeFile(join(outside, each), "hunter2");
  const [dir, link] = [join(volume, "dir"), join(volume, "link")];
  await symlink(outside, link);
  const argv = ["nice", process.execPath, join(import.meta.dir, "path-swapper.ts"), volume];
  const swapper = Bun.spawn(argv, { stdout: "pipe", stderr: "inherit" });
  let swaps = 0;
  const counted = (async () => {
    for await (const text of swapper.stdout.pipeThrough(new TextDecoderStream()))
      swaps = Number(text.trim().split("\n").at(-1));
  })();
  const end = async () => {
    swapper.kill();
    await swapper.exited;
    await counted;
    if (!(await lstat(dir)).isSymbolicLink()) return;
    await rm(dir);
    await rename(link, dir);
  };
  await pollUntil("the first swaps", 10_000, () => swaps > 0).catch(async (error: unknown) => {
    await end();
    throw error;
  });
  return { volume, outside, swaps: () => swaps, end };
}
