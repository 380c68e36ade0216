import { join } from "node:path";
import { execa } from "execa";
import { ownProcessGroup } from "../bed/cleanup/processes.ts";
import { unpackPackages } from "../bed/packages.ts";

/** Runs programs of the unpacked packages with their own C library, independent of the machine's. */
export interface PackagePrograms {
  readonly root: string;
  /** The argument list that runs `program`, a path below `root`. */
  argv(program: string, args: readonly string[]): readonly [program: string, ...args: string[]];
}

/** Makes sure that the cache has QEMU and the programs that create disks. */
export async function unpackPrograms(print: (line: string) => void): Promise<PackagePrograms> {
  const { root } = await unpackPackages("vm-host", print);
  const libraries = ["lib", "usr/lib"].map((folder) => join(root, folder, "x86_64-linux-gnu")).join(":");
  return {
    root,
    argv: (program, args) => [
      join(root, "lib64/ld-linux-x86-64.so.2"),
      "--library-path",
      libraries,
      join(root, program),
      ...args,
    ],
  };
}

/** Runs one of the programs and returns what it prints. Throws with its error output if it fails. */
export async function runProgram(
  programs: PackagePrograms,
  program: string,
  args: readonly string[],
): Promise<Uint8Array> {
  const [first, ...rest] = programs.argv(program, args);
  const { stdout } = await execa(first, rest, { ...ownProcessGroup, encoding: "buffer" });
  return stdout;
}

/** Creates the raw disk `disk` of `size` (as of mke2fs, such as `900m`) with the files below `from`. */
export async function createDisk(programs: PackagePrograms, disk: string, from: string, size: string): Promise<void> {
  const format = ["-q", "-t", "ext4", "-O", "^has_journal", "-E", "lazy_itable_init=1"];
  await runProgram(programs, "sbin/mke2fs", [...format, "-d", from, disk, size]);
}
