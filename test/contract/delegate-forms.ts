import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compileDelegate, compilerOf } from "../../cli/compile-delegate.ts";

const main = join(import.meta.dirname, "../../cli/main.ts");

/** One form of the plugin `berth-cni`, as `berth cni install` puts it into a folder of plugins. */
export interface DelegateForm {
  readonly name: string;
  install(binDir: string): Promise<void>;
  /** The command that calls it. */
  argv(binDir: string): readonly [string, ...string[]];
}

/** A link to Bun, since this is a run from source: by its name the program knows what it is. */
const wholeProgram: DelegateForm = {
  name: "the whole program",
  install: (binDir) => symlink(process.execPath, join(binDir, "berth-cni")),
  argv: (binDir) => [join(binDir, "berth-cni"), main],
};

const staticProgram = (bytes: Uint8Array): DelegateForm => ({
  name: "the small form",
  async install(binDir) {
    await writeFile(join(binDir, "berth-cni"), bytes, { mode: 0o755 });
    const script = `#!/bin/bash\nexec -a berth-cni ${process.execPath} ${main} "$@"\n`;
    await writeFile(join(binDir, "berth-cni.program"), script, { mode: 0o755 });
  },
  argv: (binDir) => [join(binDir, "berth-cni")],
});

/** The forms that this machine can build: the small one needs a C compiler, and `npm test` says if there is none. */
export async function delegateForms(): Promise<readonly DelegateForm[]> {
  const folder = await mkdtemp(join(tmpdir(), "berth-compile-"));
  try {
    const compiled = await compileDelegate(compilerOf(process.arch as "x64" | "arm64"), join(folder, "berth-cni"));
    return compiled === undefined ? [wholeProgram] : [wholeProgram, staticProgram(compiled)];
  } finally {
    await rm(folder, { recursive: true });
  }
}
