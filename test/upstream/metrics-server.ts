import { readFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { cacheFolder } from "../bed/packages.ts";
import { buildInto, downloadModules, isExecutable, requiredVersion } from "./go-module.ts";
import { errorOutput, findGoProblem } from "./programs.ts";

/** The module that names the release. */
const moduleFolder = join(import.meta.dirname, "metrics-server");
const module = "sigs.k8s.io/metrics-server";

/**
 * The path of metrics-server. Builds it if necessary: three minutes on two cores; `print` gets a line before that. Throws with
 * one line where Go is missing, and with the compiler's output if the build fails.
 */
export async function ensureMetricsServer(print: (line: string) => void): Promise<string> {
  const version = requiredVersion(readFileSync(join(moduleFolder, "go.mod"), "utf8"), module);
  const folder = join(cacheFolder(), "upstream", `metrics-server-${version}`);
  const program = join(folder, "metrics-server");
  if (isExecutable(program)) return program;
  const go = Bun.which("go");
  const problem = go === null ? "`go` is not installed" : findGoProblem(go);
  if (problem !== undefined) throw new Error(`${problem} to build metrics-server ${version}`);
  print(`building metrics-server ${version} into ${folder}`);
  try {
    await buildInto(folder, compile);
    return program;
  } catch (cause) {
    throw new Error(`cannot build metrics-server ${version}: ${errorOutput(cause)}`, { cause });
  }
}

async function compile(work: string): Promise<void> {
  const packages = [`${module}/cmd/metrics-server`];
  await downloadModules({ go: "go", folder: moduleFolder, packages });
  const flags = ["-trimpath", "-ldflags", "-s -w", "-o", `${work}/`];
  await execa("nice", ["-n", "19", "go", "build", ...flags, ...packages], {
    cwd: moduleFolder,
    env: { CGO_ENABLED: "0", GOFLAGS: "-mod=readonly", GOWORK: "off" },
  });
}
