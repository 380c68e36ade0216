import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { ExecaError, execa } from "execa";

/** The processors for which Berth is built. */
export type Target = "x64" | "arm64";

const SOURCE = join(import.meta.dirname, "..", "cni", "delegate", "berth-cni.c");

/** The compilers for another processor, by their names in Debian's packages gcc-x86-64-linux-gnu and gcc-aarch64-linux-gnu. */
const CROSS_COMPILERS: Readonly<Record<Target, string>> = {
  x64: "x86_64-linux-gnu-gcc",
  arm64: "aarch64-linux-gnu-gcc",
};

/** Without a C library, and without sections that the kernel does not load or that differ from build to build. */
const OPTIONS = [
  ...["-std=c11", "-Wall", "-Wextra", "-Werror", "-Os", "-s"],
  ...["-static", "-nostdlib", "-ffreestanding", "-fno-pie", "-no-pie"],
  ...["-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-Wl,--build-id=none", "-Wl,-z,noseparate-code"],
];

/** The name of the C compiler for a processor; by default for that of this machine. */
export const compilerOf = (target?: Target): string =>
  target === undefined || target === process.arch ? "cc" : CROSS_COMPILERS[target];

/**
 * Compiles the static form of the plugin `berth-cni`. `outfile` is the path for the compiler's output, and removed at the end. Resolves
 * with the program, or with undefined if this machine does not have that compiler. Rejects with `ExecaError` if the compiler fails, and
 * with file errors.
 */
export async function compileDelegate(compiler: string, outfile: string): Promise<Uint8Array | undefined> {
  try {
    await execa(compiler, [...OPTIONS, "-o", outfile, SOURCE]);
    return await readFile(outfile);
  } catch (error) {
    if (error instanceof ExecaError && error.code === "ENOENT") return undefined;
    throw error;
  } finally {
    await rm(outfile, { force: true });
  }
}
