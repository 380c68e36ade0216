import { readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { cacheFolder } from "../bed/packages.ts";
import { buildInto, downloadModules, isExecutable, requiredVersion } from "./go-module.ts";
import { errorOutput, findGoProblem } from "./programs.ts";

/** The module that names the release. No release of Debian has containerd 2.0. */
const moduleFolder = join(import.meta.dirname, "containerd");
const module = "github.com/containerd/containerd/v2";
const programs = ["containerd", "containerd-shim-runc-v2", "ctr"] as const;

/**
 * The folder with that containerd, its shim and `ctr`. Builds them if necessary: two minutes on two cores; `print` gets
 * a line before that. Throws with one line where Go is missing, and with the compiler's output if the build fails.
 */
export async function ensureContainerd(print: (line: string) => void = () => undefined): Promise<string> {
  const version = requiredVersion(readFileSync(join(moduleFolder, "go.mod"), "utf8"), module);
  const folder = join(cacheFolder(), "upstream", `containerd-${version}`);
  if (programs.every((program) => isExecutable(join(folder, program)))) return folder;
  const go = Bun.which("go");
  const problem = go === null ? "`go` is not installed" : findGoProblem(go);
  if (problem !== undefined) throw new Error(`${problem} to build containerd ${version}`);
  print(`building containerd ${version} into ${folder}`);
  try {
    await buildInto(folder, (work) => compile(version, work));
    return folder;
  } catch (cause) {
    throw new Error(`cannot build containerd ${version}: ${errorOutput(cause)}`, { cause });
  }
}

/** Without the snapshotters that the test beds do not use, as they would need C libraries. */
async function compile(version: string, work: string): Promise<void> {
  const tags = "no_btrfs,no_devmapper,no_zfs";
  const flags = ["-trimpath", "-tags", tags, "-ldflags", `-s -w -X ${module}/version.Version=${version}`];
  const packages = programs.map((program) => `${module}/cmd/${program}`);
  await downloadModules({ go: "go", folder: moduleFolder, packages });
  await execa("nice", ["-n", "19", "go", "build", ...flags, "-o", `${work}/`, ...packages], {
    cwd: moduleFolder,
    env: { CGO_ENABLED: "0", GOFLAGS: "-mod=readonly", GOWORK: "off" },
  });
}
