import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { execa } from "execa";
import { cacheFolder } from "../bed/packages.ts";
import { buildInto, downloadModules, isExecutable, requiredVersion } from "./go-module.ts";
import { errorOutput, findGoProblem } from "./programs.ts";

/** Programs that are built from a Go module of their own. */
interface GoPrograms {
  /**
   * The reason why the programs are unavailable here, or undefined where they are built or can be built. Prints the reason as a
   * `skipped: ` line, which `npm test` shows. `what` names what is not tested.
   */
  skipWithout(what: string): string | undefined;
  /** The folder with the programs. Builds them if necessary. Throws with the compiler's output. */
  ensure(): Promise<string>;
}

/** cnitool executes networks with libcni, as container runtimes do. Its build takes some seconds. */
export const cnitoolProgram = goProgram("github.com/containernetworking/cni", "cnitool");

/**
 * kube-proxy of the release of the control plane, which has no nodes and does not build it. The build takes twenty seconds once
 * the control plane is built.
 */
export const kubeProxyProgram = goProgram("k8s.io/kubernetes", "cmd/kube-proxy");

/** The plugins of a release that speaks CNI 1.1.0, with GC and STATUS. Debian's do not. The build takes half a minute. */
export const cniPlugins = goPrograms("cni-plugins", "github.com/containernetworking/plugins", [
  "plugins/main/bridge",
  "plugins/main/loopback",
  "plugins/ipam/host-local",
  "plugins/meta/portmap",
  "plugins/meta/tuning",
]);

/** The program in the folder `path` of `module`; `ensure` resolves with its path. */
function goProgram(module: string, path: string): GoPrograms {
  const name = basename(path);
  const programs = goPrograms(name, module, [path]);
  return { ...programs, ensure: async () => join(await programs.ensure(), name) };
}

/** The programs in the folders `paths` of `module`. The folder `name` beside this file has the go.mod that names the release. */
function goPrograms(name: string, module: string, paths: readonly string[]): GoPrograms {
  const moduleFolder = join(import.meta.dirname, name);
  const programFolder = () => {
    const version = requiredVersion(readFileSync(join(moduleFolder, "go.mod"), "utf8"), module);
    // A folder with other programs of the same release is not taken for this one.
    const which = paths.length === 1 ? "" : `-${Bun.hash(paths.join()).toString(16)}`;
    return join(cacheFolder(), "upstream", `${name}-${version}${which}`);
  };
  const isBuilt = () => paths.every((path) => isExecutable(join(programFolder(), basename(path))));
  return {
    skipWithout(what) {
      if (isBuilt()) return undefined;
      const go = Bun.which("go");
      const reason = go === null ? `go is not installed to build ${name}` : findGoProblem(go);
      if (reason !== undefined) console.warn(`skipped: ${what}, since ${reason}`);
      return reason;
    },
    async ensure() {
      if (isBuilt()) return programFolder();
      const packages = paths.map((path) => `${module}/${path}`);
      try {
        await buildInto(programFolder(), (work) => compile(moduleFolder, packages, work));
        return programFolder();
      } catch (cause) {
        throw new Error(`cannot build ${name}: ${errorOutput(cause)}`, { cause });
      }
    },
  };
}

/** Compiles programs into a folder; each gets the name of its package. */
async function compile(folder: string, packages: readonly string[], into: string): Promise<void> {
  await downloadModules({ go: "go", folder, packages });
  await execa("nice", ["-n", "19", "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", `${into}/`, ...packages], {
    cwd: folder,
    env: { CGO_ENABLED: "0", GOFLAGS: "-mod=readonly", GOWORK: "off" },
  });
}
