import { readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { execa } from "execa";
import { cacheFolder } from "../bed/packages.ts";
import { buildInto, downloadModules, isExecutable, requiredVersion } from "./go-module.ts";
import { errorOutput, findGoProblem } from "./programs.ts";

/** A program that is built from a Go module of its own. */
interface GoProgram {
  /**
   * The reason why the program is unavailable here, or undefined where it is built or can be built. Prints the reason as a
   * `skipped: ` line, which `npm test` shows. `what` names what is not tested.
   */
  skipWithout(what: string): string | undefined;
  /** The path of the program. Builds it if necessary. Throws with the compiler's output. */
  ensure(): Promise<string>;
}

/** cnitool executes networks with libcni, as container runtimes do. Its build takes some seconds. */
export const cnitoolProgram = goProgram("github.com/containernetworking/cni", "cnitool");

/**
 * kube-proxy of the release of the control plane, which has no nodes and does not build it. The build takes twenty seconds once
 * the control plane is built.
 */
export const kubeProxyProgram = goProgram("k8s.io/kubernetes", "cmd/kube-proxy");

/** The program in the folder `path` of `module`. The folder of its name beside this file has the go.mod that names the release. */
function goProgram(module: string, path: string): GoProgram {
  const name = basename(path);
  const moduleFolder = join(import.meta.dirname, name);
  const programPath = () => {
    const version = requiredVersion(readFileSync(join(moduleFolder, "go.mod"), "utf8"), module);
    return join(cacheFolder(), "upstream", `${name}-${version}`, name);
  };
  return {
    skipWithout(what) {
      if (isExecutable(programPath())) return undefined;
      const go = Bun.which("go");
      const reason = go === null ? `go is not installed to build ${name}` : findGoProblem(go);
      if (reason !== undefined) console.warn(`skipped: ${what}, since ${reason}`);
      return reason;
    },
    async ensure() {
      const program = programPath();
      if (isExecutable(program)) return program;
      try {
        await buildInto(dirname(program), (work) => compile(moduleFolder, `${module}/${path}`, join(work, name)));
        return program;
      } catch (cause) {
        throw new Error(`cannot build ${name}: ${errorOutput(cause)}`, { cause });
      }
    },
  };
}

async function compile(folder: string, goPackage: string, program: string): Promise<void> {
  await downloadModules({ go: "go", folder, packages: [goPackage] });
  await execa("nice", ["-n", "19", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, goPackage], {
    cwd: folder,
    env: { CGO_ENABLED: "0", GOFLAGS: "-mod=readonly", GOWORK: "off" },
  });
}
