import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { unpackPackages } from "./packages.ts";

/**
 * A C compiler that makes programs for arm64 on an x86-64 machine: Debian's, unpacked into the cache. Resolves with the path of a
 * script in `folder`, since the compiler needs its own libraries. Rejects as `unpackPackages`.
 */
export async function createCrossCompiler(folder: string): Promise<string> {
  const { root } = await unpackPackages("bookworm-cross");
  const path = join(folder, "aarch64-linux-gnu-gcc");
  const bin = join(root, "usr/bin");
  const settings = `PATH=${bin}:$PATH LD_LIBRARY_PATH=${join(root, "usr/lib/x86_64-linux-gnu")}`;
  await writeFile(path, `#!/bin/sh\n${settings} exec ${bin}/aarch64-linux-gnu-gcc-12 "$@"\n`, { mode: 0o755 });
  return path;
}
