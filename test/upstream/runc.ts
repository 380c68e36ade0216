import { accessSync, constants, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { cacheFolder, unpackSuite } from "../bed/packages.ts";
import { lastWords, refuseOldGo } from "./programs.ts";

/** The module that names the release. Debian 12's runc maps no mounts (idmap), so it gives no pod users of its own. */
const moduleFolder = join(import.meta.dirname, "runc");

/**
 * The reason why a runc that can give a pod users of its own cannot be had here; undefined where it is built already, or can be. Says it
 * aloud in the way that `npm test` shows. `what` is what will not be tested.
 */
export function skipWithoutRunc(what: string): string | undefined {
  if (isThere(builtRunc())) return undefined;
  const missing = ["go", "gcc", "pkg-config"].filter((program) => Bun.which(program) === null);
  const reason =
    missing.length > 0 ? `${missing.join(", ")} is not installed to build runc` : refuseOldGo(Bun.which("go") ?? "go");
  if (reason !== undefined) console.warn(`skipped: ${what}, since ${reason}`);
  return reason;
}

/** The path of that runc, after building it where nobody has yet: half a minute on two cores. Throws with the compiler's words. */
export async function findRunc(): Promise<string> {
  const program = builtRunc();
  if (isThere(program)) return program;
  await mkdir(dirname(program), { recursive: true });
  const work = await mkdtemp(join(dirname(program), ".building-"));
  try {
    await compile(join(work, "runc"));
    // In one step: somebody else may build the same, and then the two are alike.
    await rename(join(work, "runc"), program);
    return program;
  } catch (cause) {
    throw new Error(`cannot build runc: ${lastWords(cause)}`, { cause });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

function builtRunc(): string {
  const version = /^\s*github\.com\/opencontainers\/runc v(\S+)/m.exec(
    readFileSync(join(moduleFolder, "go.mod"), "utf8"),
  )?.[1];
  if (version === undefined) throw new Error("test/upstream/runc/go.mod requires no runc");
  return join(cacheFolder(), "upstream", `runc-${version}`, "runc");
}

function isThere(program: string): boolean {
  try {
    accessSync(program, constants.X_OK);
    return true;
  } catch {
    // Absent or no program: both mean that it cannot be used.
    return false;
  }
}

/** Nothing of libseccomp is installed, and the program carries what it needs of it: only its archive is there to be linked. */
async function compile(program: string): Promise<void> {
  const { root } = await unpackSuite("bookworm-headers");
  const [archive = ""] = new Bun.Glob("usr/lib/*/libseccomp.a").scanSync({ cwd: root });
  const libraries = join(root, dirname(archive));
  const argv = ["-n", "19", "go", "build", "-trimpath", "-tags", "seccomp", "-ldflags", "-s -w", "-o", program];
  await execa("nice", [...argv, "github.com/opencontainers/runc"], {
    cwd: moduleFolder,
    env: {
      CGO_ENABLED: "1",
      CGO_CFLAGS: `-I${join(root, "usr/include")}`,
      CGO_LDFLAGS: `-L${libraries}`,
      PKG_CONFIG_PATH: join(libraries, "pkgconfig"),
      GOFLAGS: "-mod=readonly",
      GOWORK: "off",
    },
  });
}
