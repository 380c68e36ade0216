import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { cacheFolder, unpackPackages } from "../bed/packages.ts";
import { buildInto, downloadModules, isExecutable, requiredVersion } from "./go-module.ts";
import { errorOutput, findGoProblem } from "./programs.ts";

/**
 * The module that names the release. Debian 12's runc lacks idmapped mounts and so cannot give pods a user namespace.
 */
const moduleFolder = join(import.meta.dirname, "runc");
const module = "github.com/opencontainers/runc";

/**
 * The reason why a runc with support for user namespaces is unavailable here, or undefined where it is built or can be
 * built. Prints the reason as a `skipped: ` line, which `npm test` shows. `what` names what is not tested.
 */
export function skipWithoutRunc(what: string): string | undefined {
  if (isExecutable(runcPath())) return undefined;
  const missing = ["go", "gcc", "pkg-config"].filter((program) => Bun.which(program) === null);
  const reason =
    missing.length > 0
      ? `${missing.join(", ")} is not installed to build runc`
      : findGoProblem(Bun.which("go") ?? "go");
  if (reason !== undefined) console.warn(`skipped: ${what}, since ${reason}`);
  return reason;
}

/** The path of that runc. Builds it if necessary: half a minute on two cores. Throws with the compiler's output. */
export async function ensureRunc(): Promise<string> {
  const program = runcPath();
  if (isExecutable(program)) return program;
  try {
    await buildInto(dirname(program), (work) => compile(join(work, "runc")));
    return program;
  } catch (cause) {
    throw new Error(`cannot build runc: ${errorOutput(cause)}`, { cause });
  }
}

function runcPath(): string {
  const goMod = readFileSync(join(moduleFolder, "go.mod"), "utf8");
  const version = requiredVersion(goMod, module);
  return join(cacheFolder(), "upstream", `runc-${version}`, "runc");
}

/** Links libseccomp statically from the unpacked Debian package, since it is not installed. */
async function compile(program: string): Promise<void> {
  const { root } = await unpackPackages("bookworm-headers");
  const [archive = ""] = new Bun.Glob("usr/lib/*/libseccomp.a").scanSync({ cwd: root });
  const libraries = join(root, dirname(archive));
  await downloadModules({ go: "go", folder: moduleFolder, packages: [module] });
  const argv = ["-n", "19", "go", "build", "-trimpath", "-tags", "seccomp", "-ldflags", "-s -w", "-o", program];
  await execa("nice", [...argv, module], {
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
