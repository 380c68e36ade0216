import { accessSync, constants, readFileSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { execa } from "execa";
import { cacheFolder } from "../bed/packages.ts";

/** Kubernetes' own programs and etcd, and what Go calls them. */
const packages = {
  etcd: "go.etcd.io/etcd/server/v3",
  "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
  "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
  "kube-scheduler": "k8s.io/kubernetes/cmd/kube-scheduler",
  kubelet: "k8s.io/kubernetes/cmd/kubelet",
} as const;

export type UpstreamProgram = keyof typeof packages;
export const upstreamPrograms = Object.keys(packages) as readonly UpstreamProgram[];

/** Where the programs come from here: a folder that has them, a folder to build them into, or nowhere, and why. */
export type ProgramSource =
  | { readonly kind: "ready"; readonly folder: string }
  | { readonly kind: "to build"; readonly folder: string; readonly go: string }
  | { readonly kind: "unavailable"; readonly reason: string };

type Environment = Readonly<Record<string, string | undefined>>;

/** The module whose requirements are the versions that are built. */
const moduleFolder = join(import.meta.dirname, "kubernetes");

/**
 * Finds the upstream programs `needed`: in the folder that KUBEBUILDER_ASSETS names (the convention of envtest) if it is
 * set, else in the cache, which can be filled where Go is installed.
 */
export function locatePrograms(
  needed: readonly UpstreamProgram[] = upstreamPrograms,
  env: Environment = process.env,
): ProgramSource {
  const assets = env["KUBEBUILDER_ASSETS"];
  if (assets) {
    const absent = missing(assets, needed);
    if (absent.length === 0) return { kind: "ready", folder: assets };
    return { kind: "unavailable", reason: `the folder in KUBEBUILDER_ASSETS has no ${absent.join(", ")}` };
  }
  const folder = join(cacheFolder(env), "upstream", builtVersion());
  if (missing(folder, needed).length === 0) return { kind: "ready", folder };
  const go = Bun.which("go", { PATH: env["PATH"] ?? "" });
  const obstacle = go === null ? "`go` is not installed" : refuseOldGo(go);
  if (go !== null && obstacle === undefined) return { kind: "to build", folder, go };
  const reason = `${obstacle} to build ${needed.join(", ")}, and KUBEBUILDER_ASSETS names no folder with them`;
  return { kind: "unavailable", reason };
}

/** Go fetches the release that go.mod asks for by itself, since 1.21. */
export function refuseOldGo(go: string): string | undefined {
  const said = Bun.spawnSync([go, "version"], { cwd: "/", stderr: "ignore" }).stdout.toString();
  const [, version = "", minor] = /\bgo(1\.(\d+)\S*)/.exec(said) ?? [];
  if (minor === undefined) return "`go` does not say its version, which must be 1.21 or later";
  return Number(minor) < 21 ? `\`go\` is ${version}, and must be 1.21 or later` : undefined;
}

/**
 * The reason why tests on the upstream programs cannot run here, or undefined if they can. Says it aloud in the way that
 * `npm test` shows. `what` is what will not be tested.
 */
export function skipWithoutPrograms(what: string, needed?: readonly UpstreamProgram[]): string | undefined {
  const source = locatePrograms(needed);
  if (source.kind !== "unavailable") return undefined;
  console.warn(`skipped: ${what}, since ${source.reason}`);
  return source.reason;
}

/** Why the upstream programs cannot be had here, whatever is done; undefined where they are there or can be built. */
export async function whyUnavailable(env: Environment = process.env): Promise<string | undefined> {
  const source = locatePrograms(undefined, env);
  if (source.kind !== "to build") return source.kind === "unavailable" ? source.reason : undefined;
  // A small module that all of them need: where it cannot be had, none can.
  const probe = execa(source.go, ["mod", "download", "github.com/google/uuid"], {
    cwd: moduleFolder,
    env: { ...env, GOFLAGS: "-mod=mod", GOWORK: "off" },
    extendEnv: false,
    timeout: 60_000,
  });
  return await probe.then(
    () => undefined,
    (error: unknown) => `Go's modules cannot be had: ${lastWords(error)}`,
  );
}

/**
 * Returns the folder that has the programs `needed`, after building all of them if none has yet: six minutes on two cores
 * with Go's caches empty, seconds otherwise. `say` gets a sentence before that. Throws with one clear line where they
 * cannot be had, and with the compiler's words if the build fails.
 */
export async function findPrograms(
  needed: readonly UpstreamProgram[] = upstreamPrograms,
  say: (line: string) => void = () => undefined,
  env: Environment = process.env,
): Promise<string> {
  const source = locatePrograms(needed, env);
  if (source.kind === "unavailable") throw new Error(source.reason);
  if (source.kind === "to build") {
    say(`building ${upstreamPrograms.join(", ")} into ${source.folder}: up to six minutes the first time`);
    await build(source.folder, source.go, env);
  }
  return source.folder;
}

/** `1.36.3-etcd-3.6.8`: both versions from the module that requires them. */
export function builtVersion(goMod = readFileSync(join(moduleFolder, "go.mod"), "utf8")): string {
  return `${required(goMod, "k8s.io/kubernetes")}-etcd-${required(goMod, "go.etcd.io/etcd/server/v3")}`;
}

/** The version that go.mod requires of a module, without its `v`. */
function required(goMod: string, module: string): string {
  const line = goMod.split("\n").find((one) => one.trim().startsWith(`${module} v`));
  const version = line?.trim().split(" ")[1]?.slice(1);
  if (version === undefined) throw new Error(`test/upstream/kubernetes/go.mod requires no ${module}`);
  return version;
}

function missing(folder: string, needed: readonly UpstreamProgram[]): readonly UpstreamProgram[] {
  return needed.filter((program) => {
    try {
      accessSync(join(folder, program), constants.X_OK);
      return false;
    } catch {
      // Absent or no program: both mean that it cannot be used.
      return true;
    }
  });
}

async function build(folder: string, go: string, env: Environment): Promise<void> {
  await mkdir(join(folder, ".."), { recursive: true });
  const work = await mkdtemp(join(folder, "..", ".building-"));
  try {
    await compile(go, work, env);
    // Go names a program after its folder.
    await rename(join(work, "server"), join(work, "etcd"));
    await rm(folder, { recursive: true, force: true });
    await rename(work, folder);
  } catch (cause) {
    // Someone else may have built the same while we did: then theirs is as good.
    if (missing(folder, upstreamPrograms).length === 0) return;
    throw new Error(`cannot build the upstream programs: ${lastWords(cause)}`, { cause });
  } finally {
    await rm(work, { recursive: true, force: true });
  }
}

/** It may run beside tests that measure time, so it takes only what they leave: of its session, and of the machine. */
async function compile(go: string, work: string, env: Environment): Promise<void> {
  const argv = ["-n", "19", go, "build", "-trimpath", "-ldflags", linkerFlags(), "-o", `${work}/`];
  const child = execa("nice", [...argv, ...Object.values(packages)], {
    cwd: moduleFolder,
    env: { ...env, CGO_ENABLED: "0", GOFLAGS: "-mod=readonly", GOWORK: "off" },
    extendEnv: false,
    detached: true,
  });
  const end = () => child.kill("SIGINT");
  const signals = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
  for (const signal of signals) process.on(signal, end);
  try {
    // A kernel that shares the processor out between sessions heeds a nice value only within each. Others lack the file.
    await Promise.all([child, writeFile(`/proc/${child.pid}/autogroup`, "19").catch(() => undefined)]);
  } finally {
    for (const signal of signals) process.off(signal, end);
  }
}

/** As Kubernetes' releases are linked. Without a version, clients complain of v0.0.0. */
function linkerFlags(): string {
  const version = required(readFileSync(join(moduleFolder, "go.mod"), "utf8"), "k8s.io/kubernetes");
  const [major, minor] = version.split(".");
  const values = { gitVersion: `v${version}`, gitMajor: major, gitMinor: minor };
  const places = ["k8s.io/component-base/version", "k8s.io/client-go/pkg/version"];
  const set = places.flatMap((place) => Object.entries(values).map(([name, value]) => `-X ${place}.${name}=${value}`));
  return ["-s -w", ...set].join(" ");
}

export function lastWords(cause: unknown): string {
  const stderr = cause instanceof Error && "stderr" in cause ? String(cause.stderr).trim() : "";
  return stderr === "" ? String(cause) : stderr.split("\n").slice(-20).join("\n");
}
