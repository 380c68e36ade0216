import { readdir, readFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { writeCpio } from "./cpio.ts";
import { type PackagePrograms, runProgram } from "./host-programs.ts";

/** The kernel of the unpacked packages below `root`. Throws if they have none. */
export async function findKernel(root: string): Promise<string> {
  const kernel = (await readdir(join(root, "boot"))).find((name) => name.startsWith("vmlinuz-"));
  if (kernel === undefined) throw new Error(`the packages in ${root} have no kernel`);
  return join(root, "boot", kernel);
}

/**
 * Creates an initramfs from the unpacked packages below `root`: busybox, and those of the kernel's modules that are
 * named, with what they need. Its init script sets up /dev and /proc, loads the modules and goes on with `script`. The
 * script's output goes to the first serial port.
 */
export async function makeInitrd(
  root: string,
  programs: PackagePrograms,
  modules: readonly string[],
  script: string,
): Promise<Uint8Array> {
  const files = [...new Bun.Glob("usr/lib/modules/*/kernel/**/*.ko.xz").scanSync({ cwd: root, absolute: true })];
  const paths = new Map(files.map((file) => [moduleName(basename(file, ".ko.xz")), file]));
  const loaded = new Map<string, Uint8Array>();
  const load = async (name: string): Promise<void> => {
    const file = paths.get(name);
    // A module without a file is built into the kernel.
    if (file === undefined || loaded.has(name)) return;
    const bytes = await runProgram(programs, "usr/bin/xz", ["-dc", file]);
    for (const needed of dependenciesOf(bytes)) await load(needed);
    loaded.set(name, bytes);
  };
  for (const name of modules) await load(name);
  return writeCpio([
    { path: "init", bytes: new TextEncoder().encode(initScript([...loaded.keys()], script)), isProgram: true },
    { path: "bin/busybox", bytes: await readFile(join(root, "usr/bin/busybox")), isProgram: true },
    ...[...loaded].map(([name, bytes]) => ({ path: `modules/${name}.ko`, bytes })),
  ]);
}

const moduleName = (file: string) => file.replaceAll("-", "_");

/** The modules that a module needs, from its own metadata, because depmod has not run. */
export function dependenciesOf(module: Uint8Array): readonly string[] {
  const names = /\0depends=([^\0]*)\0/.exec(Buffer.from(module).toString("latin1"))?.[1] ?? "";
  return names.split(",").filter(Boolean).map(moduleName);
}

const initScript = (modules: readonly string[], script: string) => `#!/bin/busybox sh
set -e
/bin/busybox mkdir -p /dev /proc /sys /root /sbin
/bin/busybox --install -s /bin
export PATH=/bin
mount -t devtmpfs dev /dev
mount -t proc proc /proc
exec > /dev/ttyS0 2>&1
${modules.map((name) => `insmod /modules/${name}.ko`).join("\n")}
${script}`;
