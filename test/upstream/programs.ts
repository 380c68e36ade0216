import { readFileSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { cacheFolder } from "../bed/packages.ts";
import { downloadModules, isExecutable, requiredVersion } from "./go-module.ts";

/** Kubernetes' own programs and etcd, with the Go package of each. */
const packages = {
  etcd: "go.etcd.io/etcd/server/v3",
  "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
  "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
  "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
  kubelet: "k8s.io/kubernetes/cmd/kubelet",
} as const;

export type UpstreamProgram = keyof typeof packages;
export const upstreamPrograms = Object.keys(packages) as readonly UpstreamProgram[];

/**
 * The source of the programs on this machine: a folder that has them, a folder to build them into, or the reason for
 * neither.
 */
export type ProgramSource =
  | { readonly kind: "ready"; readonly folder: string }
  | { readonly kind: "to build"; readonly folder: string; readonly go: string }
  | { readonly kind: "unavailable"; readonly reason: string };

/** For the set-up of a test: the first run outside of `npm test` builds the programs. */
export const BUILD_TIMEOUT_MS = 20 * 60_000;

type Environment = Readonly<Record<string, string | undefined>>;

/** The Go module whose `go.mod` names the versions to build. */
const moduleFolder = join(import.meta.dirname, "kubernetes");

/**
 * Finds the upstream programs `needed`: in the folder that KUBEBUILDER_ASSETS names (the convention of envtest) if that
 * is set, otherwise in the cache, which can be filled where Go is installed.
 */
export function locatePrograms(
  needed: readonly UpstreamProgram[] = upstreamPrograms,
  env: Environment = process.env,
): ProgramSource {
  const assets = env["KUBEBUILDER_ASSETS"];
  if (assets) {
    const absent = missingPrograms(assets, needed);
    if (absent.length === 0) return { kind: "ready", folder: assets };
    return { kind: "unavailable", reason: `the folder in KUBEBUILDER_ASSETS has no ${absent.join(", ")}` };
  }
  const folder = join(cacheFolder(env), "upstream", builtVersion());
  if (missingPrograms(folder, needed).length === 0) return { kind: "ready", folder };
  const go = Bun.which("go", { PATH: env["PATH"] ?? "" });
  const goProblem = go === null ? "`go` is not installed" : findGoProblem(go);
  if (go !== null && goProblem === undefined) return { kind: "to build", folder, go };
  const reason = `${goProblem} to build ${needed.join(", ")}, and KUBEBUILDER_ASSETS names no folder with them`;
  return { kind: "unavailable", reason };
}

/** Why this `go` cannot build, or undefined. From 1.21 on, Go downloads the release that go.mod requires by itself. */
export function findGoProblem(go: string): string | undefined {
  const output = Bun.spawnSync([go, "version"], { cwd: "/", stderr: "ignore" }).stdout.toString();
  const [, version = "", minor] = /\bgo(1\.(\d+)\S*)/.exec(output) ?? [];
  if (minor === undefined) return "`go version` prints no version; it must be 1.21 or later";
  return Number(minor) < 21 ? `\`go\` is ${version} but must be 1.21 or later` : undefined;
}

/**
 * The reason why tests on the upstream programs cannot run here, or undefined if they can. Prints it as a `skipped: `
 * line, which `npm test` shows. `what` names what is not tested.
 */
export function skipWithoutPrograms(what: string, needed?: readonly UpstreamProgram[]): string | undefined {
  const source = locatePrograms(needed);
  if (source.kind !== "unavailable") return undefined;
  console.warn(`skipped: ${what}, since ${source.reason}`);
  return source.reason;
}

/** Why the upstream programs are unavailable here, or undefined where they exist or can be built. */
export async function unavailableReason(env: Environment = process.env): Promise<string | undefined> {
  const source = locatePrograms(undefined, env);
  if (source.kind !== "to build") return source.kind === "unavailable" ? source.reason : undefined;
  // A small module that all of them need: if it cannot be downloaded, none can be built.
  const probe = execa(source.go, ["mod", "download", "github.com/google/uuid"], {
    cwd: moduleFolder,
    env: { ...env, GOFLAGS: "-mod=mod", GOWORK: "off" },
    extendEnv: false,
    timeout: 60_000,
  });
  return await probe.then(
    () => undefined,
    (error: unknown) => `Go modules cannot be downloaded: ${errorOutput(error)}`,
  );
}

/**
 * Returns the folder that has the programs `needed`. Builds all of them first if no folder has them: six minutes on two
 * cores with empty Go caches, seconds otherwise; `print` gets a line before that. Throws with one line where they are
 * unavailable, and with the compiler's output if the build fails.
 */
export async function ensurePrograms(
  needed: readonly UpstreamProgram[] = upstreamPrograms,
  print: (line: string) => void = () => undefined,
  env: Environment = process.env,
): Promise<string> {
  const source = locatePrograms(needed, env);
  if (source.kind === "unavailable") throw new Error(source.reason);
  if (source.kind === "to build") {
    print(`building ${upstreamPrograms.join(", ")} into ${source.folder}: up to six minutes the first time`);
    await build(source.folder, source.go, env);
  }
  return source.folder;
}

/** The name of a build, such as `1.36.3-etcd-3.6.8`: both versions from the module's go.mod. */
export function builtVersion(goMod = readFileSync(join(moduleFolder, "go.mod"), "utf8")): string {
  return `${requiredVersion(goMod, "k8s.io/kubernetes")}-etcd-${requiredVersion(goMod, "go.etcd.io/etcd/server/v3")}`;
}

function missingPrograms(folder: string, needed: readonly UpstreamProgram[]): readonly UpstreamProgram[] {
  return needed.filter((program) => !isExecutable(join(folder, program)));
}

async function build(folder: string, go: string, env: Environment): Promise<void> {
  await mkdir(join(folder, ".."), { recursive: true });
  const work = await mkdtemp(join(folder, "..", ".building-"));
  try {
    await downloadModules({ go, folder: moduleFolder, packages: Object.values(packages), env });
    await compile(go, work, env);
    // Go names a program after its folder.
    await rename(join(work, "server"), join(work, "etcd"));
    await rm(folder, { recursive: true, force: true });
    await rename(work, folder);
  } catch (cause) {
    // Another process may have built the same programs meanwhile; then use those.
    if (missingPrograms(folder, upstreamPrograms).length === 0) return;
    throw new Error(`cannot build the upstream programs: ${errorOutput(cause)}`, { cause });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

async function compile(go: string, work: string, env: Environment): Promise<void> {
  const argv = ["build", "-trimpath", "-ldflags", linkerFlags(), "-o", `${work}/`, ...Object.values(packages)];
  await execa(go, argv, {
    cwd: moduleFolder,
    env: { ...env, CGO_ENABLED: "0", GOFLAGS: "-mod=readonly", GOWORK: "off" },
    extendEnv: false,
  });
}

/** The linker flags of Kubernetes' releases. Without a version, clients complain about v0.0.0. */
function linkerFlags(): string {
  const version = requiredVersion(readFileSync(join(moduleFolder, "go.mod"), "utf8"), "k8s.io/kubernetes");
  const [major, minor] = version.split(".");
  const values = { gitVersion: `v${version}`, gitMajor: major, gitMinor: minor };
  const versionPackages = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
  const set = versionPackages.flatMap((versionPackage) =>
    Object.entries(values).map(([name, value]) => `-X ${versionPackage}.${name}=${value}`),
  );
  return ["-s -w", ...set].join(" ");
}

/** The last lines of a failed program's stderr, or the error itself. */
export function errorOutput(cause: unknown): string {
  const stderr = cause instanceof Error && "stderr" in cause ? String(cause.stderr).trim() : "";
  return stderr === "" ? String(cause) : stderr.split("\n").slice(-20).join("\n");
}
