import { describe } from "bun:test";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { compileDelegate, compilerOf } from "../../cli/compile-delegate.ts";
import { createCrossCompiler } from "../bed/cross-compiler.ts";
import { unpackPackages } from "../bed/packages.ts";

const main = join(import.meta.dirname, "../../cli/main.ts");

/** One form of the plugin `berth-cni`, as `berth cni install` puts it into a folder of plugins. */
export interface DelegateForm {
  readonly name: string;
  /** Whether this machine can build it. */
  readonly isBuilt: boolean;
  install(binDir: string): Promise<void>;
  /** The command that calls it. */
  argv(binDir: string): readonly string[];
}

/** A link to Bun, since this is a run from source. The program knows by the link's name that it is the plugin. */
const wholeProgram: DelegateForm = {
  name: "the whole program",
  isBuilt: true,
  install: (binDir) => symlink(process.execPath, join(binDir, "berth-cni")),
  argv: (binDir) => [join(binDir, "berth-cni"), main],
};

/**
 * The static form, started by `emulator` unless that is empty, with a script beside it that runs the whole program from source.
 * `bytes` is undefined if it could not be built.
 */
const staticProgram = (
  name: string,
  bytes: Uint8Array | undefined,
  emulator: readonly string[] = [],
): DelegateForm => ({
  name,
  isBuilt: bytes !== undefined,
  async install(binDir) {
    if (bytes === undefined) throw new Error(`${name} is not built`);
    await writeFile(join(binDir, "berth-cni"), bytes, { mode: 0o755 });
    const script = `#!/bin/bash\nexec -a berth-cni ${process.execPath} ${main} "$@"\n`;
    await writeFile(join(binDir, "berth-cni.program"), script, { mode: 0o755 });
  },
  argv: (binDir) => [...emulator, join(binDir, "berth-cni")],
});

/**
 * The form that a test which takes minutes tries: the static one, and with BERTH_DELEGATE_FORM=whole, as `npm run test:extended` sets it,
 * the whole program. Without a C compiler both, of which the static one is skipped. Throws on another value of the variable.
 */
export async function delegateForm(): Promise<readonly DelegateForm[]> {
  const form = process.env["BERTH_DELEGATE_FORM"];
  if (form === "whole") return [wholeProgram];
  if (form !== undefined) throw new Error(`BERTH_DELEGATE_FORM=${form}: only "whole" can be named`);
  const forms = await delegateForms();
  return forms.some(({ isBuilt }) => !isBuilt) ? forms : forms.filter((each) => each !== wholeProgram);
}

/** Both forms. Without a C compiler the static one is not built: a `skipped: ` line says so, which `npm test` shows. */
export async function delegateForms(): Promise<readonly DelegateForm[]> {
  const compiled = await inTemporaryFolder((folder) => compileDelegate(compilerOf(), join(folder, "berth-cni")));
  if (compiled === undefined)
    console.warn(`skipped: the static form of berth-cni, since this machine has no C compiler ${compilerOf()}`);
  return [wholeProgram, staticProgram("the static form", compiled)];
}

/** Registers the tests of each form. Those of a form that is not built are skipped, which is a failure in CI. */
export function describeForms(forms: readonly DelegateForm[], register: (form: DelegateForm) => void): void {
  for (const form of forms) describe.skipIf(!form.isBuilt)(form.name, () => register(form));
}

/** The static form for arm64 in an emulator, on a machine that has another processor. */
export async function emulatedForms(): Promise<readonly DelegateForm[]> {
  if (process.arch === "arm64") return [];
  const { root } = await unpackPackages("bookworm-emulator");
  const compiled = await inTemporaryFolder(async (folder) =>
    compileDelegate(await createCrossCompiler(folder), join(folder, "berth-cni")),
  );
  if (compiled === undefined) throw new Error("the unpacked compiler for arm64 does not start");
  return [staticProgram("the static form for arm64", compiled, [join(root, "usr/bin/qemu-aarch64-static")])];
}

async function inTemporaryFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), "berth-compile-"));
  try {
    return await work(folder);
  } finally {
    await rm(folder, { recursive: true });
  }
}
