import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { execa } from "execa";
import { cacheFolder } from "../bed/packages.ts";
import { buildInto, downloadModules, isExecutable, requiredVersion } from "./go-module.ts";
import { errorOutput, findGoProblem } from "./programs.ts";

/** The module that names the release: cnitool executes networks with libcni, as container runtimes do. */
const moduleFolder = join(import.meta.dirname, "cnitool");

/**
 * The reason why cnitool is unavailable here, or undefined where it is built or can be built. Prints the reason as a
 * `skipped: ` line, which `npm test` shows. `what` names what is not tested.
 */
export function skipWithoutCnitool(what: string): string | undefined {
  if (isExecutable(programPath())) return undefined;
  const go = Bun.which("go");
  const reason = go === null ? "go is not installed to build cnitool" : findGoProblem(go);
  if (reason !== undefined) console.warn(`skipped: ${what}, since ${reason}`);
  return reason;
}

/** The path of cnitool. Builds it if necessary: some seconds. Throws with the compiler's output. */
export async function ensureCnitool(): Promise<string> {
  const program = programPath();
  if (isExecutable(program)) return program;
  try {
    await buildInto(dirname(program), (work) => compile(join(work, "cnitool")));
    return program;
  } catch (cause) {
    throw new Error(`cannot build cnitool: ${errorOutput(cause)}`, { cause });
  }
}

function programPath(): string {
  const goMod = readFileSync(join(moduleFolder, "go.mod"), "utf8");
  const version = requiredVersion(goMod, "github.com/containernetworking/cni");
  return join(cacheFolder(), "upstream", `cnitool-${version}`, "cnitool");
}

async function compile(program: string): Promise<void> {
  const packages = ["github.com/containernetworking/cni/cnitool"];
  await downloadModules({ go: "go", folder: moduleFolder, packages });
  const argv = ["-n", "19", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program];
  await execa("nice", [...argv, ...packages], {
    cwd: moduleFolder,
    env: { CGO_ENABLED: "0", GOFLAGS: "-mod=readonly", GOWORK: "off" },
  });
}
