import { readFile, rm } from "node:fs/promises";
import { join } from "node:path";
import { ExecaError, execa } from "execa";

/** The processors for which Berth is built. */
export type Target = "x64" | "arm64";

const SOURCE = join(import.meta.dirname, "..", "cni", "delegate", "berth-cni.c");

/** The C compiler of another processor has its name in front, as in Debian's packages gcc-aarch64-linux-gnu and gcc-x86-64-linux-gnu. */
const CROSS_COMPILERS: Readonly<Record<Target, string>> = {
  x64: "x86_64-linux-gnu-gcc",
  arm64: "aarch64-linux-gnu-gcc",
};

/** Without a C library, and with nothing in the file that the kernel does not load or that differs from build to build. */
const OPTIONS = [
  ...["-std=c11", "-Wall", "-Wextra", "-Werror", "-Os", "-s"],
  ...["-static", "-nostdlib", "-ffreestanding", "-fno-pie", "-no-pie"],
  ...["-fno-stack-protector", "-fno-asynchronous-unwind-tables", "-Wl,--build-id=none", "-Wl,-z,noseparate-code"],
];

/** The C compiler that makes programs for a processor, without `target` for this machine's. */
export const compilerOf = (target?: Target): string =>
  target === undefined || target === process.arch ? "cc" : CROSS_COMPILERS[target];

/**
 * Compiles the small form of the plugin `berth-cni` by `compiler`, with `outfile` for its output. Resolves with the program; with undefined
 * if this machine does not have that compiler. Rejects with `ExecaError` if the compiler fails, and with file errors.
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
